#include "eval/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace sculler::eval {
namespace {

// What a dead group's end says, or the failure itself. Without a deadline it is the trusted process
// that went away: one that sees a rank die says so.
RunResult failure(Group& group, const Error& error) {
  auto outcome = group.finish(200);
  outcome.timed_out = outcome.timed_out || error.code == ErrorCode::kTimeout;
  RunResult result = result_of(outcome);
  if (result.passed()) {  // the last line was a good one: what failed came after it
    result.status = error.code == ErrorCode::kTimeout ? "TIMEOUT" : "INTERNAL";
    result.message = error.text();
    if (!outcome.timed_out) result.message += " (" + outcome.trusted.text() + ")";
  }
  return result;
}

std::string percent_text(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * fraction);
  return text;
}

bool agrees(const RunResult& r, std::size_t i) { return i >= r.agrees.size() || r.agrees[i]; }

}  // namespace

LiveBench::~LiveBench() { finish(); }

void LiveBench::finish() {
  for (auto& runner : runners_) {
    (void)runner.group->ask("quit", 1000);
    const auto ended = runner.group->finish(3000);
    if (runner.name == candidate_name_) judge_incidents(ended.incidents, candidate_);
  }
  runners_.clear();
}

LiveBench::Turn LiveBench::turn(Runner& runner, const std::string& order, int64_t timeout_ms,
                                BenchOutcome* keep, bool cold) {
  Turn out;
  const bool is_candidate = runner.name == candidate_name_;
  auto line = runner.group->ask(order, timeout_ms);
  RunResult result = line ? parse_result(*line) : failure(*runner.group, line.error());
  if (!line && result.status == "INTERNAL") our_failure_ = true;
  if (!result.passed()) {
    if (is_candidate) candidate_ = std::move(result);
    else failed_[runner.name] = result.status + ": " + result.message;
    return out;
  }
  out.good = true;
  // Only iterations whose clocks agree are compared: what was disturbed, or claimed, is left out.
  // The checker's own region, less what an empty run costs, is a figure that no rank touches.
  std::vector<double> samples, corrected, regions;
  for (std::size_t i = 0; i < result.latency_us.size(); ++i) {
    (agrees(result, i) ? samples : corrected).push_back(result.latency_us[i]);
    if (agrees(result, i) && i < result.region_us.size())
      regions.push_back(result.region_us[i] - result.clock_offset_us);
  }
  out.us = median(samples);
  out.region_us = median(std::move(regions));
  out.disagreeing = static_cast<int>(corrected.size());
  out.replayed = result.replayed;
  if (keep != nullptr) {
    auto& into = (cold ? keep->cold_us : keep->samples_us)[runner.name];
    into.insert(into.end(), samples.begin(), samples.end());
    if (!cold) {
      auto& rest = keep->disturbed_us[runner.name];
      rest.insert(rest.end(), corrected.begin(), corrected.end());
    }
    if (!cold && out.us > 0) keep->rounds_us[runner.name].push_back(out.us);
    if (is_candidate && !cold)
      keep->rank_us.insert(keep->rank_us.end(), result.rank_us.begin(), result.rank_us.end());
  }
  if (is_candidate) candidate_ = std::move(result);
  return out;
}

bool LiveBench::start(const Contestant& contestant) {
  const bool is_first = candidate_name_.empty();
  if (is_first) candidate_name_ = contestant.name;
  auto group = launcher_.start(contestant.spec);
  if (!group) {
    if (contestant.name == candidate_name_) candidate_.message = group.error().text();
    else failed_[contestant.name] = "INTERNAL: " + group.error().text();
    return false;
  }
  Runner runner{contestant.name, std::move(*group), contestant.spec};
  const auto order = "go " + std::to_string(std::max(1, plan_.warm_up));
  if (!turn(runner, order, plan_.ready_ms, nullptr, false).good) return false;
  if (is_first) {
    const double event_us = median(candidate_.event_us);
    replay_ = event_us > 0 && event_us < plan_.replay_below_us;
  }
  runners_.push_back(std::move(runner));
  return true;
}

bool LiveBench::renew() {
  std::vector<Contestant> again;
  for (auto& runner : runners_) again.push_back({runner.name, std::move(runner.spec)});
  finish();
  if (!candidate_.passed()) return false;  // its end said what else it did
  for (const auto& contestant : again)
    if (!start(contestant) && contestant.name == candidate_name_) return false;
  return true;
}

// A turn each. False where the candidate failed; a baseline that fails leaves.
bool LiveBench::play_round(BenchOutcome& out, bool cold) {
  const std::string order = "go " + std::to_string(plan_.iterations) +
                            (cold      ? " cold"
                             : replay_ ? " replay"
                                       : "");
  std::map<std::string, Turn> turns;
  if (reversed_) std::reverse(runners_.begin(), runners_.end());
  for (auto at = runners_.begin(); at != runners_.end();) {
    const Turn t = turn(*at, order, plan_.round_ms, &out, cold);
    if (t.good) {
      disagreeing_ += t.disagreeing;
      turns[at->name] = t;
      ++at;
      continue;
    }
    if (at->name == candidate_name_) return false;
    out.samples_us.erase(at->name);
    out.rounds_us.erase(at->name);
    out.cold_us.erase(at->name);
    log_ratios_.erase(at->name);
    parts_.erase(at->name);
    at = runners_.erase(at);
  }
  if (reversed_) std::reverse(runners_.begin(), runners_.end());
  reversed_ = !reversed_;
  if (replay_ && !cold && std::any_of(turns.begin(), turns.end(), [](const auto& entry) {
        return !entry.second.replayed;
      })) {
    // All or nobody: a launch from the host is not compared with one from a graph.
    replay_ = false;
    out.samples_us.clear();
    out.disturbed_us.clear();
    out.rounds_us.clear();
    out.rank_us.clear();
    log_ratios_.clear();
    region_ratios_.clear();
    parts_.clear();
    out.notes.push_back("not timed as graphs: one of the programs cannot be captured");
    return true;
  }
  const Turn& own = turns[candidate_name_];
  for (const auto& [name, other] : turns) {
    if (name == candidate_name_ || own.us <= 0 || other.us <= 0) continue;
    (cold ? cold_ratios_ : log_ratios_)[name].push_back(std::log(other.us / own.us));
    if (!cold && own.region_us > 0 && other.region_us > 0)
      region_ratios_[name].push_back(std::log(other.region_us / own.region_us));
  }
  return true;
}

bool LiveBench::settled() const {
  return std::all_of(runners_.begin(), runners_.end(), [this](const Runner& runner) {
    const auto parts = parts_.find(runner.name);
    return runner.name == candidate_name_ ||
           (parts != parts_.end() && parts_settled(parts->second, plan_.stop));
  });
}

double LiveBench::measured_ms() const {
  return static_cast<double>(clock_.now_ns() - begin_ns_) / 1e6;
}

void LiveBench::judge_part(BenchOutcome& out, uint64_t seed) {
  for (const auto& [name, series] : log_ratios_) {
    auto& parts = parts_[name];
    if (series.empty() || parts_settled(parts, plan_.stop)) continue;
    Comparison c = compare_series(series, plan_.stop, seed);
    const auto regions = region_ratios_.find(name);
    if (c.call == "FASTER" && regions != region_ratios_.end() && midmean(regions->second) <= 0) {
      c.call = "AMBIGUOUS";
      out.notes.push_back("against " + name +
                          ": faster by the ranks' clocks only; the checker's own clock does not "
                          "show it, so it is not called");
    }
    if (c.trend != 0) {
      out.notes.push_back("against " + name + ": the ratio itself drifted by " +
                          percent_text(c.trend) + " over " + std::to_string(c.rounds) +
                          " rounds; its interval is widened by half of that");
    }
    parts.push_back(std::move(c));
  }
  log_ratios_.clear();
  region_ratios_.clear();
}

void LiveBench::judge(BenchOutcome& out, uint64_t seed) const {
  for (const auto& runner : runners_) {
    if (runner.name == candidate_name_) continue;
    const auto found = parts_.find(runner.name);
    if (found == parts_.end() || found->second.empty()) {
      out.notes.push_back("against " + runner.name + ": not compared, every round was disturbed");
      continue;
    }
    const auto& parts = found->second;
    Comparison c = combine_parts(parts, plan_.stop);
    const bool called = std::any_of(parts.begin(), parts.end(), [](const Comparison& part) {
      return part.call != "AMBIGUOUS";
    });
    if (called && c.call == "AMBIGUOUS") {
      std::string calls;
      for (const Comparison& part : parts) calls += (calls.empty() ? "" : ", ") + part.call;
      out.notes.push_back("against " + runner.name + ": measured " + std::to_string(parts.size()) +
                          " times with pauses, no two calls agree (" + calls +
                          "): the machine is disturbed in bursts");
    }
    out.comparison[runner.name] = std::move(c);
  }
  for (const auto& [name, series] : cold_ratios_) {
    const Interval log = series_interval(series, seed, 0.95);
    out.cold_ratio[name] = {std::exp(log.median), std::exp(log.low), std::exp(log.high)};
  }
  // A rank that only lies has no iteration whose clocks agree: then the checker's larger figures
  // are its times.
  for (auto& [name, samples] : out.samples_us) {
    const auto& rest = out.disturbed_us[name];
    if (samples.size() >= 3 && 2 * samples.size() >= rest.size()) continue;
    samples.insert(samples.end(), rest.begin(), rest.end());
    out.notes.push_back(name + ": most iterations were disturbed; its latency is an upper bound");
  }
  // Machines warm up and throttle: seen in the candidate's own rounds.
  const auto own = out.rounds_us.find(candidate_name_);
  if (own == out.rounds_us.end()) return;
  auto rounds = own->second;
  if (const int early = warm_up_length(rounds); early > 0) {
    auto& samples = out.samples_us[candidate_name_];
    const auto gone = samples.size() * static_cast<std::size_t>(early) / rounds.size();
    rounds.erase(rounds.begin(), rounds.begin() + early);
    samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(gone));
    out.notes.push_back("the first " + std::to_string(early) +
                        " rounds were still warming up: left out of the latency (ratios are of "
                        "neighbours and keep them)");
  }
  if (const Trend trend = trend_of(rounds); trend.significant) {
    const double change = trend.change / std::max(1e-9, median(rounds));
    if (std::abs(change) > 0.005) {
      out.notes.push_back(
          std::string(change > 0 ? "times rose" : "times fell") + " by " +
          percent_text(std::abs(change)) + " over " + std::to_string(rounds.size()) + " rounds (" +
          (change > 0 ? "throttling or growing load" : "warming up or falling load") +
          "): compare ratios, not latencies of other runs");
    }
  }
  if (disagreeing_ > 0) {
    out.notes.push_back(std::to_string(disagreeing_) +
                        " iterations were disturbed (clocks disagree) and not compared");
  }
}

bool LiveBench::play_part(BenchOutcome& out, uint64_t seed) {
  const int last = plan_.stop.looks.empty() ? plan_.rounds : plan_.stop.looks.back();
  std::map<std::string, bool> decided;
  for (const auto& [name, parts] : parts_) decided[name] = parts_settled(parts, plan_.stop);
  // Rounds in which everything was disturbed count nothing, but are not repeated for ever.
  for (int round = 1; round <= 3 * std::max(last, plan_.rounds); ++round) {
    if (!play_round(out, false)) return false;
    if (runners_.size() < 2) {
      if (round >= plan_.rounds) break;
    } else {
      bool all = true;
      for (const auto& runner : runners_) {
        if (runner.name == candidate_name_ || decided[runner.name]) continue;
        const auto& series = log_ratios_[runner.name];
        if (plan_.stop.is_look(static_cast<int>(series.size())))
          decided[runner.name] = compare_series(series, plan_.stop, seed).decided;
        all = all && decided[runner.name];
      }
      if (all) break;
    }
    if (measured_ms() > static_cast<double>(plan_.most_ms)) {
      out.notes.push_back("measuring ended after " + std::to_string(round) + " rounds, by time");
      break;
    }
  }
  return true;
}

BenchOutcome LiveBench::measure(uint64_t seed) {
  BenchOutcome out;
  log_ratios_.clear();
  region_ratios_.clear();
  cold_ratios_.clear();
  parts_.clear();
  disagreeing_ = 0;
  begin_ns_ = clock_.now_ns();
  const auto finish_with = [&] {
    out.candidate = candidate_;
    out.failed = failed_;
    out.our_failure = our_failure_;
    return std::move(out);
  };
  if (runners_.empty() || runners_[0].name != candidate_name_) return finish_with();
  for (int part = 0; part < std::max(1, plan_.stop.parts); ++part) {
    if (part > 0) clock_.sleep_ns(plan_.stop.pause_ms * 1'000'000);
    if (part > 0 && plan_.stop.fresh && !renew()) return finish_with();
    const uint64_t part_seed = seed + static_cast<uint64_t>(part);
    if (!play_part(out, part_seed)) return finish_with();
    judge_part(out, part_seed);
    if (settled() || measured_ms() > static_cast<double>(plan_.most_ms)) break;
  }
  for (int round = 0; round < plan_.cold_rounds; ++round) {
    if (!play_round(out, true)) return finish_with();
  }
  out.replayed = replay_;
  out.wall_ms = measured_ms();
  judge(out, seed);
  return finish_with();
}

BenchOutcome run_bench(Launcher& launcher, const std::vector<Contestant>& contestants,
                       const BenchPlan& plan) {
  LiveBench bench(launcher, plan);
  for (const auto& contestant : contestants) {
    // Without the candidate there is nothing to compare.
    if (!bench.start(contestant) && &contestant == &contestants[0]) break;
  }
  auto out = bench.measure(plan.seed);
  bench.finish();
  // Its end says what else it did.
  out.candidate = bench.candidate();
  return out;
}

}  // namespace sculler::eval
