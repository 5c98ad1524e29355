#include "llm/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "llm/schema.h"
#include "llm/tape.h"
#include "llm/text.h"

namespace sculler::llm {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr std::size_t kRepairBytes = std::size_t{16} << 10;

bool plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 32 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// What is wrong with a question before anybody is asked; empty where nothing is.
std::string question_problem(const Request& request) {
  if (!plain_name(request.role)) return "a role is 1 to 32 of a-z, 0-9, _ and -";
  if (request.messages.empty()) return "a question without messages";
  if (request.index < 0 || request.step < 0) return "index and step are 0 or more";
  for (const auto& message : request.messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      return fmt::format("message role \"{}\" is none of system, user, assistant",
                         printable(shorten(message.role, 40)));
    if (!valid_utf8(message.text)) return "a message that is not UTF-8";
  }
  return {};
}

std::string schema_words(std::string_view schema) {
  return fmt::format(
      "\n\nAnswer with one JSON value that fits this JSON schema, and with nothing else: no "
      "explanation, no Markdown fence.\n{}\n",
      schema);
}

}  // namespace

bool Member::serves(std::string_view role) const {
  return model.roles.empty() ||
         std::find(model.roles.begin(), model.roles.end(), role) != model.roles.end();
}

double Member::usd(int64_t prompt_tokens, int64_t answer_tokens) const {
  return (static_cast<double>(prompt_tokens) * price_in +
          static_cast<double>(answer_tokens) * price_out) /
         1e6;
}

struct Chat::Asking {
  const Request& request;
  std::string prompt;  // as it is kept
  int64_t deadline_ns = 0;
  Answer answer{};  // sums of all attempts
};

Chat::Chat(Settings settings, const Surroundings& around, std::unique_ptr<Http> http,
           std::vector<std::unique_ptr<Member>> members, Secrets secrets,
           const std::vector<CallLog::Total>& before)
    : settings_(std::move(settings)),
      files_(around.files),
      clock_(around.clock),
      log_(around.log),
      tape_(around.tape),
      seed_(around.seed),
      resumed_(!before.empty()),
      http_(std::move(http)),
      secrets_(std::move(secrets)),
      members_(std::move(members)),
      budget_(settings_.max_usd, settings_.max_tokens,
              [&] {
                Cost spent;
                for (const auto& total : before) {
                  spent.usd += total.usd;
                  spent.tokens += total.prompt_tokens + total.answer_tokens;
                }
                return spent;
              }()),
      chooser_(settings_.choose == "ucb", around.seed) {
  for (const auto& total : before) {
    chooser_.restore(total.model, {total.calls, total.rewards, total.worth, total.usd});
    usage_.sent += total.calls;
    usage_.prompt_tokens += total.prompt_tokens;
    usage_.answer_tokens += total.answer_tokens;
    usage_.usd += total.usd;
  }
}

void Chat::stop() {
  stop_.fire();
  budget_.wake();
  { const std::lock_guard lock(mutex_); }
  left_.notify_all();
}

void Chat::reward(std::string_view model, double worth) {
  chooser_.reward(model, worth);
  // A reward that is not kept costs a later choice, not the run.
  if (log_ != nullptr) (void)log_->add_reward(model, worth);
}

Usage Chat::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::vector<std::string> Chat::models() const {
  std::vector<std::string> out;
  for (const auto& member : members_) out.push_back(member->model.name);
  return out;
}

tl::expected<void, Failure> Chat::enter(int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stop_.fired()) return fault(Fault::kCancelled, "the run was stopped");
    if (settings_.parallel <= 0 || inside_ < settings_.parallel) break;
    const int64_t left = deadline_ns - clock_.now_ns();
    if (left <= 0)
      return fault(Fault::kTimeout, "other calls took all the time", "raise llm.parallel");
    left_.wait_for(lock, std::chrono::nanoseconds(std::min(left, kSecond)));
  }
  ++inside_;
  return {};
}

void Chat::leave() {
  {
    const std::lock_guard lock(mutex_);
    --inside_;
  }
  left_.notify_one();
}

Reply Chat::ask(const Request& original) {
  const int64_t start = clock_.now_ns();
  {
    const std::lock_guard lock(mutex_);
    ++usage_.asked;
    ++usage_.in_flight;
  }
  Request request = original;
  for (auto& message : request.messages) message.text = secrets_.redact(std::move(message.text));
  Reply reply = fault(Fault::kRejected, {});
  if (const auto problem = question_problem(request); !problem.empty()) {
    reply = fault(Fault::kRejected,
                  fmt::format("question {}: {}", printable(shorten(request.name(), 60)), problem));
  } else if (stop_.fired()) {
    reply = fault(Fault::kCancelled, "the run was stopped");
  } else if (tape_ != nullptr && tape_->replaying()) {
    reply = tape_->reply(request);
  } else {
    reply = live(request, start);
    if (!reply) {
      Error& error = reply.error().error;
      error.message = secrets_.redact(std::move(error.message));
      error.cure = secrets_.redact(std::move(error.cure));
    }
    // What the stop cut off is no reply of a model.
    if (tape_ != nullptr && (reply || reply.error().fault != Fault::kCancelled)) {
      if (auto ok = tape_->keep(request, reply); !ok) {
        Failure lost{Fault::kSetup, ok.error()};
        reply = tl::unexpected(std::move(lost));
      }
    }
  }
  const std::lock_guard lock(mutex_);
  --usage_.in_flight;
  if (reply) ++usage_.answered;
  else ++usage_.faults[static_cast<std::size_t>(reply.error().fault)];
  return reply;
}

Reply Chat::live(const Request& request, int64_t start_ns) {
  Asking asking{request, {}, request.deadline_ns};
  for (;;) {
    std::vector<Chooser::Option> options;
    std::vector<Member*> who;
    Member* down = nullptr;
    for (const auto& member : members_) {
      const bool wanted = request.model.empty() ? member->serves(request.role)
                                                : member->model.name == request.model;
      if (!wanted) continue;
      if (member->health.down()) {
        down = member.get();
        continue;
      }
      options.push_back({member->model.name, member->model.weight});
      who.push_back(member.get());
    }
    if (who.empty() && down != nullptr) return tl::unexpected(down->health.why(down->model.name));
    if (who.empty()) {
      const auto like = nearest(request.model, models());
      return fault(Fault::kSetup,
                   request.model.empty()
                       ? fmt::format("no model serves the role {}", request.role)
                       : fmt::format("no model is called {}", printable(request.model)),
                   like ? fmt::format("did you mean {}?", *like)
                        : "add the role to the roles of a [[model]]");
    }
    Member& member = *who[chooser_.choose(options, request.name())];
    if (request.deadline_ns == 0) {
      const double seconds =
          member.model.timeout_s > 0 ? member.model.timeout_s : settings_.timeout_s;
      asking.deadline_ns = start_ns + static_cast<int64_t>(seconds * 1e9);
    }
    if (auto ok = enter(asking.deadline_ns); !ok) return tl::unexpected(ok.error());
    Reply reply = ask_member(member, asking);
    leave();
    if (reply) {
      reply->latency_s = static_cast<double>(clock_.now_ns() - start_ns) / 1e9;
      return reply;
    }
    // Another model may stand in for one that is down.
    if (!member.health.down()) return reply;
  }
}

Reply Chat::ask_member(Member& member, Asking& asking) {
  const Request& request = asking.request;
  asking.answer.model = member.model.name;
  asking.answer.repaired = false;
  auto raw = question(member, asking, request, request.name());
  if (!raw) return tl::unexpected(raw.error());
  Answer& answer = asking.answer;
  answer.finish = raw->finish;
  if (request.schema.empty()) {
    answer.text = std::move(raw->text);
    return answer;
  }
  auto checked = answer_by_schema(request.schema, raw->text);
  if (!checked) {
    Request repair = request;
    repair.messages.push_back({"assistant", shorten(raw->text, kRepairBytes)});
    repair.messages.push_back(
        {"user", fmt::format("That answer cannot be used: {}. Give the whole answer again: one "
                             "JSON value that fits the schema, and nothing else.",
                             printable(shorten(checked.error().message, 300)))});
    answer.repaired = true;
    auto again = question(member, asking, repair, request.name() + ".repair");
    if (!again) return tl::unexpected(again.error());
    answer.finish = again->finish;
    checked = answer_by_schema(request.schema, again->text);
    if (!checked) {
      return fault(
          Fault::kSchema,
          fmt::format("model {}: twice no answer of the form that was asked for: {}",
                      member.model.name, printable(shorten(checked.error().message, 300))));
    }
  }
  answer.text = std::move(*checked);
  return answer;
}

tl::expected<Raw, Failure> Chat::question(Member& member, Asking& asking, const Request& request,
                                          const std::string& name) {
  asking.prompt = prompt_text(request);
  if (resumed_ && log_ != nullptr) {
    auto found = log_->find(name, sha256_hex(asking.prompt));
    if (!found) return tl::unexpected(Failure{Fault::kSetup, found.error()});
    if (*found) {
      asking.answer.recorded = true;
      asking.answer.model = (*found)->model;
      Raw raw;
      raw.text = std::move((*found)->answer);
      raw.finish = "stop";
      raw.prompt_tokens = (*found)->prompt_tokens;
      raw.answer_tokens = (*found)->answer_tokens;
      asking.answer.prompt_tokens += raw.prompt_tokens;
      asking.answer.answer_tokens += raw.answer_tokens;
      asking.answer.usd += (*found)->usd;
      return raw;
    }
  }
  asking.answer.recorded = false;
  auto raw = attempts(member, asking, request, name);
  if (!raw)
    raw.error().error.message = fmt::format("question {}: {}", name, raw.error().error.message);
  return raw;
}

Status Chat::keep(const Member& member, const Asking& asking, const Request& request,
                  const std::string& name, const Raw& raw, double usd, std::string_view outcome) {
  if (log_ == nullptr) return {};
  Call call;
  call.role = request.role;
  call.model = member.model.name;
  call.question = name;
  call.prompt_tokens = raw.prompt_tokens;
  call.answer_tokens = raw.answer_tokens;
  call.usd = usd;
  call.prompt = asking.prompt;
  call.prompt_sha = sha256_hex(asking.prompt);
  call.answer = raw.text;
  call.outcome = outcome;
  return log_->add(call);
}

tl::expected<Raw, Failure> Chat::attempts(Member& member, Asking& asking, const Request& request,
                                          const std::string& name) {
  Question question;
  question.name = name;
  question.deadline_ns = asking.deadline_ns;
  question.max_answer_bytes = static_cast<uint64_t>(settings_.max_answer_bytes);
  int64_t waits = 0, bad_answers = 0;
  int retries = 0;
  Failure last = fault(Fault::kTimeout, "no time left").value();
  for (;; ++question.attempt) {
    // A server that asked one call to wait has asked all of them.
    const int64_t pause = member.health.paused_until() - clock_.now_ns();
    if (pause > 0 && !stop_.sleep(clock_, std::min(pause, asking.deadline_ns - clock_.now_ns())))
      return fault(Fault::kCancelled, "the run was stopped");
    if (stop_.fired()) return fault(Fault::kCancelled, "the run was stopped");
    if (member.health.down()) return tl::unexpected(member.health.why(member.model.name));
    if (clock_.now_ns() >= asking.deadline_ns) {
      if (question.attempt > 0)
        return fault(Fault::kTimeout,
                     fmt::format("the deadline passed after {} requests, the last: {}",
                                 question.attempt, last.error.message));
      return fault(Fault::kTimeout, "no time left to ask");
    }
    RawFailure lost;
    auto raw = send(member, asking, request, question, lost);
    if (raw) {
      member.health.good();
      return raw;
    }
    last = raw.error();
    const Fault kind = last.fault;
    if (lost.schema_unknown && member.schema_steps < 2) {
      ++member.schema_steps;
      continue;
    }
    member.health.bad(last, clock_.now_ns());
    if (member.health.down()) return tl::unexpected(member.health.why(member.model.name));
    if (kind == Fault::kMalformed || kind == Fault::kEncoding) {
      if (++bad_answers > 1) return raw;
    } else if (kind == Fault::kUnreachable || kind == Fault::kServer || kind == Fault::kHalf) {
      if (retries++ >= settings_.retries) return raw;
    } else if (kind != Fault::kRateLimited) {
      return raw;
    }
    double wait = std::min(60.0, std::ldexp(1.0, static_cast<int>(std::min<int64_t>(waits, 10))));
    const auto draw = fmt::format("{}/{}", name, question.attempt);
    wait *= 0.5 + 0.5 * Random(static_cast<uint64_t>(seed_), draw).unit();
    ++waits;
    if (std::isfinite(lost.retry_after_s) && lost.retry_after_s >= 0) {
      wait = std::max(wait, std::min(lost.retry_after_s, 1e6));
      member.health.pause(clock_.now_ns() +
                          static_cast<int64_t>(std::min(lost.retry_after_s, 300.0) * 1e9));
    }
    const auto wait_ns = static_cast<int64_t>(wait * 1e9);
    if (clock_.now_ns() + wait_ns >= asking.deadline_ns) {
      last.error.message +=
          fmt::format("; the next try in {:.0f} s would be after the deadline", wait);
      return tl::unexpected(std::move(last));
    }
    if (!stop_.sleep(clock_, wait_ns)) return fault(Fault::kCancelled, "the run was stopped");
  }
}

tl::expected<Raw, Failure> Chat::send(Member& member, Asking& asking, const Request& request,
                                      Question& question, RawFailure& lost) {
  // How JSON is asked for: by the backend's means, and one step plainer for each that the server
  // did not know.
  Request worded;
  question.request = &request;
  question.schema = SchemaMode::kNone;
  if (!request.schema.empty()) {
    question.schema = member.backend->schema_mode();
    for (int i = 0; i < member.schema_steps; ++i) {
      question.schema =
          question.schema == SchemaMode::kSchema ? SchemaMode::kObject : SchemaMode::kPrompt;
    }
    if (question.schema == SchemaMode::kPrompt || question.schema == SchemaMode::kObject) {
      worded = request;
      worded.messages.back().text += schema_words(request.schema);
      question.request = &worded;
    }
  }
  const uint64_t bytes = prompt_bytes(*question.request);
  const auto guess = [&](double bytes_per_token) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_token));
  };
  question.max_tokens =
      request.max_tokens > 0 ? std::min(request.max_tokens, member.max_tokens) : member.max_tokens;
  if (member.context > 0) {
    const int64_t prompt = guess(member.bytes_per_token), room = member.context - prompt;
    if (room < std::min<int64_t>(question.max_tokens, 256)) {
      return fault(Fault::kTooLong,
                   fmt::format("model {}: the prompt has about {} tokens, the context {}",
                               member.model.name, prompt, member.context),
                   "shorten the prompt, or set a model with a larger context");
    }
    question.max_tokens = std::min(question.max_tokens, room);
  }
  const int64_t worst_prompt = guess(2.0);
  const Cost worst{member.usd(worst_prompt, question.max_tokens),
                   worst_prompt + question.max_tokens};
  if (auto ok = budget_.reserve(worst, clock_, asking.deadline_ns, stop_); !ok)
    return tl::unexpected(ok.error());
  {
    const std::lock_guard lock(mutex_);
    ++usage_.sent;
  }
  ++asking.answer.attempts;
  auto reply = member.backend->ask(question, stop_);

  // What it cost: as the server says, else as far as can be told from what came.
  Raw seen = reply ? *reply : reply.error().partial;
  const bool said = seen.prompt_tokens >= 0 && seen.answer_tokens >= 0;
  const bool billed = reply.has_value() || reply.error().billed;
  if (!billed) {
    seen.prompt_tokens = seen.answer_tokens = 0;
  } else if (!said) {
    if (reply) asking.answer.estimated = true;
    const bool blind = !reply && !member.model.stream;  // it may have written all it was allowed to
    if (seen.prompt_tokens < 0) seen.prompt_tokens = guess(member.bytes_per_token);
    if (seen.answer_tokens < 0)
      seen.answer_tokens = blind ? question.max_tokens : estimate_tokens(seen.text, 3.2);
  }
  const double usd = member.usd(seen.prompt_tokens, seen.answer_tokens);
  budget_.settle(worst, {usd, seen.prompt_tokens + seen.answer_tokens});
  chooser_.paid(member.model.name, usd);
  asking.answer.prompt_tokens += seen.prompt_tokens;
  asking.answer.answer_tokens += seen.answer_tokens;
  asking.answer.usd += usd;
  {
    const std::lock_guard lock(mutex_);
    usage_.prompt_tokens += seen.prompt_tokens;
    usage_.answer_tokens += seen.answer_tokens;
    usage_.usd += usd;
  }
  if (reply && said && bytes > 2000 && seen.prompt_tokens > 0) {
    const double ratio = static_cast<double>(bytes) / static_cast<double>(seen.prompt_tokens);
    double known = member.bytes_per_token;
    while (ratio < known && ratio >= 1 &&
           !member.bytes_per_token.compare_exchange_weak(known, ratio)) {}
  }
  seen.text = secrets_.redact(std::move(seen.text));
  if (reply) {
    if (auto ok = keep(member, asking, request, question.name, seen, usd, "ok"); !ok)
      return tl::unexpected(Failure{Fault::kSetup, ok.error()});
    return seen;
  }
  lost = std::move(reply.error());
  if (billed) {
    if (!valid_utf8(seen.text)) seen.text.clear();
    if (auto ok =
            keep(member, asking, request, question.name, seen, usd, fault_name(lost.failure.fault));
        !ok) {
      return tl::unexpected(Failure{Fault::kSetup, ok.error()});
    }
  }
  return tl::unexpected(lost.failure);
}

}  // namespace sculler::llm
