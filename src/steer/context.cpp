#include "steer/context.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace sculler::steer {

namespace {

// printf into a string; lines are short.
template <class... T>
void add(std::string& to, const char* format, T... values) {
  char line[512];
  const int n = std::snprintf(line, sizeof line, format, values...);
  if (n > 0) to.append(line, std::min<size_t>(static_cast<size_t>(n), sizeof line - 1));
}

void add_fact(std::string& to, const char* name, uint64_t value) {
  if (value > 0) add(to, "%s: %" PRIu64 "\n", name, value);
}

std::string words_of(const Decision& d) {
  std::string out = d.replace ? "replace" : "no replacement";
  if (d.rows) add(out, ", rows %" PRIu64, *d.rows);
  if (d.decay) add(out, ", decay %g", *d.decay);
  if (d.buffer) add(out, ", buffer %g", *d.buffer);
  if (!d.policy.empty()) out += ", policy " + d.policy;
  return out;
}

std::string came_of(const Outcome& o) {
  if (!o.settled) return "not known yet";
  std::string out;
  const std::string hit(direction_word(direction_of(o.hit_rate_change)));
  const std::string communication(direction_word(direction_of(o.communication_change)));
  add(out, "hit rate %+.1f points (%s), communication %+.1f points (%s)", 100 * o.hit_rate_change,
      hit.c_str(), 100 * o.communication_change, communication.c_str());
  return out;
}

constexpr const char* kRules =
    "## Words\n"
    "hit rate: remote ids found in the buffer, of all remote ids asked for.\n"
    "communication: rows fetched over the network, replacements included, a remote id asked for; "
    "without a buffer it is 100 %.\n"
    "replace: rows that were not hit for long give way to rows that were missed often; these must "
    "be fetched, so a replacement costs communication now and may save some later.\n"
    "free: keeps rows that were fetched anyway where their count is above the lowest; it costs no "
    "communication. A decay below 1 forgets old counts: good after the accesses have changed, bad "
    "while they are stationary.\n"
    "## Rules\n"
    "The aim is low communication. Change something only for a reason in the numbers. A "
    "replacement "
    "at every minibatch costs more than it saves. Say what you expect of hit rate and "
    "communication: a change below 0.5 points is stagnant.\n"
    "Answer with one JSON object: {\"replace\": true or false, \"explanation\": \"…\", "
    "\"expected_impact\": {\"hitrate\": …, \"comm_volume\": …}}, each of the two increase, "
    "decrease "
    "or stagnant; and, only to change them, \"rows\", \"decay\", \"buffer\", \"policy\".\n";

}  // namespace

Situation situation_of(const Buffer& buffer, uint64_t epoch) {
  Situation s;
  s.total = buffer.metrics().total();
  s.window = buffer.metrics().window();
  s.minibatch = s.total.minibatches;
  s.epoch = epoch;
  s.capacity = buffer.capacity();
  s.limit = buffer.limit();
  s.used = buffer.used();
  s.policy = buffer.policy();
  s.knobs = buffer.knobs();
  return s;
}

std::string context_text(const RunFacts& facts, const Situation& now,
                         const std::deque<Outcome>& outcomes) {
  std::string out = "## The run\n";
  if (!facts.graph.empty()) out += "graph: " + facts.graph + "\n";
  add_fact(out, "nodes", facts.nodes);
  add_fact(out, "edges", facts.edges);
  add_fact(out, "remote nodes next to this partition", facts.remote);
  add(out, "epoch: %" PRIu64, now.epoch + 1);
  if (facts.epochs > 0) add(out, " of %" PRIu64, facts.epochs);
  add(out, "\nminibatches done: %" PRIu64 "\n", now.minibatch);
  const uint64_t all = facts.epochs * facts.minibatches;
  if (all > now.minibatch) add(out, "minibatches left: %" PRIu64 "\n", all - now.minibatch);
  add(out, "buffer: %" PRIu64 " rows, %" PRIu64 " of them in use, at most %" PRIu64 " may be\n",
      now.capacity, now.used, now.limit);
  out += "policy: " + now.policy + "\n";
  if (now.knobs.decay > 0) add(out, "decay: %g\n", now.knobs.decay);
  if (now.knobs.rows != UINT64_MAX)
    add(out, "rows a minibatch: at most %" PRIu64 "\n", now.knobs.rows);
  out += kRules;
  add(out, "## Now: the last %" PRIu64 " minibatches (and since the begin)\n",
      now.window.minibatches);
  add(out, "hit rate: %.1f %% (%.1f %%)\n", 100 * now.window.hit_rate(),
      100 * now.total.hit_rate());
  add(out, "communication: %.1f %% (%.1f %%)\n", 100 * now.window.communication(),
      100 * now.total.communication());
  const auto a_minibatch = [&](uint64_t n) {
    return now.window.minibatches == 0
               ? 0.0
               : static_cast<double>(n) / static_cast<double>(now.window.minibatches);
  };
  add(out, "a minibatch: %.0f remote ids, %.0f rows fetched, %.0f of them unasked, %.0f evicted\n",
      a_minibatch(now.window.ids), a_minibatch(now.window.fetched), a_minibatch(now.window.extra),
      a_minibatch(now.window.evicted));
  out += "## Last decisions, oldest first\n";
  if (outcomes.empty()) out += "none yet\n";
  for (const Outcome& o : outcomes) {
    add(out, "minibatch %" PRIu64 ": ", o.applied);
    out += words_of(o.decision);
    if (o.decision.hit_rate && o.decision.communication) {
      out += "; expected hit rate " + std::string(direction_word(*o.decision.hit_rate)) +
             ", communication " + std::string(direction_word(*o.decision.communication));
    }
    out += "; came: " + came_of(o) + "\n";
  }
  return out;
}

}  // namespace sculler::steer
