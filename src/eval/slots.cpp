#include "eval/slots.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/guard.h"
#include "base/json.h"
#include "base/strings.h"
#include "eval/stopwatch.h"
#include "eval/verdict.h"

namespace sculler::eval {
namespace {

constexpr int64_t kPollMs = 1000;   // how often an idle slot is looked at
constexpr int64_t kGraceMs = 5000;  // for a slot to end by itself
constexpr int64_t kAskedMs = 3000;  // and when it was asked to
constexpr int kHopeless = 3;        // starts that fail for good before any slot greeted
using Millis = std::chrono::milliseconds;

std::string place_of(const SlotHello& hello) {
  return hello.step.empty() ? hello.node : hello.node + ", Slurm step " + hello.step;
}

}  // namespace

SlotPool::SlotPool(SlotStarter& starter, const SlotSettings& settings, Note note, Hopeless hopeless)
    : starter_(starter),
      settings_(settings),
      note_(std::move(note)),
      hopeless_(std::move(hopeless)) {
  for (int i = 0; i < settings_.slots; ++i) threads_.emplace_back([this, i] { keep(i); });
}

SlotPool::~SlotPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  const std::lock_guard lock(mutex_);
  for (auto* request : waiting_) {
    request->answer =
        internal_line(*request->job, "the evaluator ended before a slot was free", "");
    request->done = true;
  }
  waiting_.clear();
  answered_.notify_all();
}

SlotPool::Counts SlotPool::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool SlotPool::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

std::string SlotPool::run(const Job& job) {
  Request request;
  request.job = &job;
  std::unique_lock lock(mutex_);
  request.since_ms = now_ms();
  waiting_.push_back(&request);
  changed_.notify_all();
  answered_.wait(lock, [&] { return request.done; });
  return std::move(request.answer);
}

void SlotPool::finish(Request& request, std::string answer) {
  {
    const std::lock_guard lock(mutex_);
    request.answer = std::move(answer);
    request.done = true;
  }
  answered_.notify_all();
}

bool SlotPool::wait_for_work() {
  std::unique_lock lock(mutex_);
  // Not for what slots that start or idle will take.
  changed_.wait(lock, [&] { return stopping_ || waiting_.size() > ready_; });
  if (stopping_) return false;
  ++ready_;
  return true;
}

SlotPool::Request* SlotPool::take(const std::string& node, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto fitting = [&] {
    const int64_t now = now_ms();
    return std::find_if(waiting_.begin(), waiting_.end(), [&](const Request* r) {
      return !r->nodes.contains(node) || now - r->since_ms >= settings_.elsewhere_ms;
    });
  };
  auto found = waiting_.end();
  changed_.wait_for(lock, Millis(timeout_ms), [&] {
    found = fitting();
    return stopping_ || found != waiting_.end();
  });
  if (stopping_ || found == waiting_.end()) return nullptr;
  Request* request = *found;
  waiting_.erase(found);
  --ready_;
  return request;
}

void SlotPool::put_back(Request& request) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_front(&request);
    ++ready_;
  }
  changed_.notify_all();
}

void SlotPool::give_back(Request& request, const std::string& node, const std::string& why) {
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    request.failures.push_back(why);
    request.nodes.insert(node);
    request.since_ms = now_ms();
    again = request.failures.size() <= static_cast<std::size_t>(settings_.requeues);
    if (again) {
      ++counts_.requeued;
      waiting_.push_front(&request);  // it has waited longest
    } else {
      ++counts_.gave_up;
    }
  }
  note_("job " + request.job->id.substr(0, 10) + (again ? " is requeued: " : " is given up: ") +
        why);
  if (again) {
    changed_.notify_all();
    return;
  }
  finish(request, internal_line(*request.job,
                                std::to_string(request.failures.size()) +
                                    " job steps ended without this job's verdict: " +
                                    join(request.failures, "; "),
                                "Look at the nodes named; sculler resume asks for the job again."));
}

Result<std::string> SlotPool::check(const Request& request, const SlotHello& hello,
                                    const std::string& line) const {
  auto verdict = parse_json(line, "slot " + hello.node);
  if (!verdict || !verdict->is_object())
    return fail(ErrorCode::kProtocol,
                "it said what is no verdict: " + printable(shorten(line, 120)));
  const std::string status = string_or(*verdict, "status", "");
  if (string_or(*verdict, "job", "") != request.job->id || !is_status(status)) {
    const std::string message = string_or(*verdict, "message", line);
    return fail(ErrorCode::kProtocol,
                "it answered what was not asked: " + printable(shorten(message, 300)));
  }
  // The evaluator or its machine failed: another may not.
  if (status == "INTERNAL")
    return fail(ErrorCode::kChildFailed,
                "INTERNAL: " + printable(shorten(string_or(*verdict, "message", ""), 300)));
  auto& notes = (*verdict)["notes"];
  if (!notes.is_array()) notes = nlohmann::json::array();
  notes.push_back("ran on " + place_of(hello));
  for (const auto& failure : request.failures) notes.push_back("requeued: " + failure);
  return dump_json(*verdict);
}

Result<SlotHello> SlotPool::greet(int slot, SlotLink& link) {
  const int64_t begin = now_ms();
  bool said = false;
  for (;;) {
    if (stopping()) return fail(ErrorCode::kTimeout, "the evaluator ends");
    auto line = link.next(200);
    if (!line) return fail(line.error());
    if (*line) {
      auto hello = parse_hello(**line);
      if (!hello) return fail(hello.error());
      // Programs of the template may print something first.
      if (*hello) return std::move(**hello);
      continue;
    }
    const int64_t waited = now_ms() - begin;
    if (settings_.start_ms > 0 && waited > settings_.start_ms) {
      return fail(ErrorCode::kTimeout, "not started within " +
                                           std::to_string(settings_.start_ms / 1000) +
                                           " s: " + link.last_words());
    }
    if (!said && waited > 10'000) {
      note_("slot " + std::to_string(slot) + " waits for its step: " + link.last_words());
      said = true;
    }
  }
}

SlotPool::End SlotPool::serve(int slot, SlotLink& link, const SlotHello& hello, bool& answered,
                              bool& holding) {
  {
    const std::lock_guard lock(mutex_);
    greeted_ = true;
  }
  int64_t idle_since = now_ms();
  for (;;) {
    Request* request = take(hello.node, kPollMs);
    if (request == nullptr && stopping()) return End::kStopping;
    if (starter_.leaving(hello.node)) {
      if (request != nullptr) put_back(*request);
      note_("slot " + std::to_string(slot) + " leaves " + place_of(hello) +
            ": the node takes no more work");
      return End::kLeaving;
    }
    if (auto line = link.next(0); request == nullptr || !line || *line) {
      if (request != nullptr) put_back(*request);  // this slot was dead before it came
      if (!line || *line) {
        note_("slot " + std::to_string(slot) + " on " + place_of(hello) +
              " ended: " + (line ? "it spoke unasked" : line.error().message));
        return End::kFailed;
      }
      if (settings_.idle_ms > 0 && now_ms() - idle_since > settings_.idle_ms) return End::kIdle;
      continue;
    }
    holding = true;
    link.send(print_job(*request->job));
    const int64_t deadline = now_ms() + settings_.answer_ms;
    for (;;) {
      auto line = link.next(std::clamp<int64_t>(deadline - now_ms(), 0, 200));
      std::string why;
      if (!line) why = line.error().message;
      else if (!*line && now_ms() >= deadline)
        why = "no verdict within " + std::to_string(settings_.answer_ms / 1000) + " s";
      else if (!*line && !stopping()) continue;
      else if (!*line) why = "the evaluator ends";
      if (why.empty()) {
        auto verdict = check(*request, hello, **line);
        if (verdict) {
          {
            const std::lock_guard lock(mutex_);
            ++counts_.answered;
            ++ready_;
          }
          holding = false;
          finish(*request, std::move(*verdict));
          answered = true;
          idle_since = now_ms();
          break;
        }
        why = verdict.error().message;
      }
      give_back(*request, hello.node, place_of(hello) + ": " + why);
      return stopping() ? End::kStopping : End::kFailed;
    }
  }
}

void SlotPool::start_failed(int slot, const Error& error) {
  if (spawning_stopped()) return;  // everything is being ended
  note_("slot " + std::to_string(slot) + " did not start: " + error.message);
  bool hopeless = false;
  {
    const std::lock_guard lock(mutex_);
    if (greeted_ || stopping_) return;
    if (starter_.may_pass(error.message)) failed_starts_ = 0;
    else hopeless = ++failed_starts_ == kHopeless;
  }
  if (hopeless) hopeless_(error);
}

bool SlotPool::live(int slot) {
  {
    const std::lock_guard lock(mutex_);
    ++counts_.starts;
  }
  bool answered = false, holding = false;
  End end = End::kFailed;
  auto child = starter_.start(slot);
  if (!child) start_failed(slot, child.error());
  std::optional<SlotLink> link;
  std::optional<SlotHello> known;
  if (child) {
    link.emplace(std::move(*child), settings_.silence_ms);
    auto hello = greet(slot, *link);
    if (hello) {
      link->greeted();
      known = *hello;
      end = serve(slot, *link, *hello, answered, holding);
    } else {
      start_failed(slot, hello.error());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.ended;
    if (!holding) --ready_;
  }
  changed_.notify_all();
  if (link) link->finish(end == End::kFailed ? 0 : kGraceMs, kAskedMs);
  if (known && end == End::kFailed) starter_.failed(*known);
  return answered || end != End::kFailed;
}

void SlotPool::keep(int slot) {
  int64_t backoff = settings_.backoff_first_ms;
  while (wait_for_work()) {
    if (live(slot)) {
      backoff = settings_.backoff_first_ms;
      continue;
    }
    if (spawning_stopped()) return;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, Millis(backoff), [&] { return stopping_; });
    backoff = std::min(backoff * 2, settings_.backoff_most_ms);
  }
}

}  // namespace sculler::eval
