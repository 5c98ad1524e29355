#include "steer/controller.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

namespace sculler::steer {

ThreadRunner::ThreadRunner() : thread_([this] { work(); }) {}

ThreadRunner::~ThreadRunner() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ThreadRunner::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || job_; });
    if (ending_) return;
    const auto job = std::exchange(job_, nullptr);
    lock.unlock();
    job();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void ThreadRunner::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    busy_ = true;
  }
  changed_.notify_all();
}

bool ThreadRunner::idle() {
  const std::lock_guard lock(mutex_);
  return !busy_;
}

void ThreadRunner::wait(int64_t ms) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return !busy_; };
  if (ms < 0) changed_.wait(lock, done);
  else changed_.wait_for(lock, std::chrono::milliseconds(ms), done);
}

Controller::Controller(std::unique_ptr<DecisionMaker> maker, const ControllerSettings& settings,
                       std::unique_ptr<Runner> runner, Clock& clock)
    : maker_(std::move(maker)),
      settings_(settings),
      runner_(std::move(runner)),
      clock_(clock),
      history_(settings.history, settings.window) {}

ControlCounts Controller::counts() const {
  ControlCounts out = counts_;
  out.pass = history_.pass_at_1();
  return out;
}

void Controller::step(Buffer& buffer, uint64_t epoch) {
  const uint64_t now = buffer.metrics().total().minibatches;
  history_.settle(now, buffer.metrics().window());
  if (open_ && runner_->idle()) take(buffer);
  if (open_ || now == 0 || now < next_ask_) return;
  ask(buffer, epoch);
  if (settings_.mode == Mode::kAsync) return;
  const int64_t begin = clock_.now_ns();
  runner_->wait(settings_.mode == Mode::kSync ? -1 : settings_.deadline_ms);
  counts_.waited_seconds += static_cast<double>(clock_.now_ns() - begin) * 1e-9;
  if (runner_->idle()) take(buffer);
}

void Controller::ask(Buffer& buffer, uint64_t epoch) {
  open_ = std::make_unique<Question>();
  open_->situation = situation_of(buffer, epoch);
  if (maker_->wants_text())
    open_->text = context_text(facts_, open_->situation, history_.outcomes());
  next_ask_ = open_->situation.minibatch + settings_.every;
  ++counts_.asked;
  runner_->start([this, question = open_.get()] {
    const int64_t begin = clock_.now_ns();
    try {
      question->answer = maker_->decide(question->situation, question->text);
    } catch (const std::exception& e) {  // a caller's function; training goes on
      question->answer = fail(ErrorCode::kModel, e.what());
    }
    question->seconds = static_cast<double>(clock_.now_ns() - begin) * 1e-9;
  });
}

void Controller::take(Buffer& buffer) {
  const auto question = std::move(open_);
  counts_.seconds += question->seconds;
  counts_.slowest_seconds = std::max(counts_.slowest_seconds, question->seconds);
  const auto& answer = *question->answer;
  if (!answer) {
    ++counts_.invalid;
    last_fault_ = answer.error().text();
    return;
  }
  if (!*answer) {
    ++counts_.unchanged;
    return;
  }
  const uint64_t now = buffer.metrics().total().minibatches;
  if (now - question->situation.minibatch > settings_.expire) {
    ++counts_.expired;
    return;
  }
  history_.applied(**answer, now, buffer.metrics().window());
  ++counts_.applied;
  apply(buffer, **answer);
}

void Controller::apply(Buffer& buffer, const Decision& decision) {
  // Everything was checked when the answer was parsed; a maker that skips that changes nothing.
  if (!decision.policy.empty() && decision.policy != buffer.policy())
    if (auto ok = buffer.set_policy(decision.policy); !ok) last_fault_ = ok.error().text();
  if (decision.rows || decision.decay) {
    Knobs knobs = buffer.knobs();
    if (decision.rows) knobs.rows = *decision.rows;
    if (decision.decay) knobs.decay = *decision.decay;
    if (auto ok = buffer.set_knobs(knobs); !ok) last_fault_ = ok.error().text();
  }
  if (decision.buffer && *decision.buffer >= 0 && *decision.buffer <= 1)
    buffer.set_limit(static_cast<uint64_t>(
        std::llround(*decision.buffer * static_cast<double>(buffer.capacity()))));
  if (decision.replace) buffer.replace();
}

}  // namespace sculler::steer
