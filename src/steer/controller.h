// Asks a decision maker while training runs and applies what it says: without waiting (async),
// waiting for every answer (sync), or waiting a bounded time (deadline). Every decision carries the
// minibatch that it was based on and expires.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "steer/buffer.h"
#include "steer/history.h"
#include "steer/maker.h"

namespace sculler::steer {

// Runs one job at a time beside the trainer.
class Runner {
 public:
  virtual ~Runner() = default;
  // Only when idle().
  virtual void start(std::function<void()> job) = 0;
  [[nodiscard]] virtual bool idle() = 0;
  // Waits until idle, at most `ms` milliseconds (negative: as long as it takes).
  virtual void wait(int64_t ms) = 0;
};

// One worker thread. The destructor waits for the job in progress.
class ThreadRunner final : public Runner {
 public:
  ThreadRunner();
  ~ThreadRunner() override;
  void start(std::function<void()> job) override;
  [[nodiscard]] bool idle() override;
  void wait(int64_t ms) override;

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

// Runs the job at once, on the trainer's thread: for replays.
class InlineRunner final : public Runner {
 public:
  void start(std::function<void()> job) override { job(); }
  [[nodiscard]] bool idle() override { return true; }
  void wait(int64_t /*ms*/) override {}
};

enum class Mode { kAsync, kSync, kDeadline };

struct ControllerSettings {
  Mode mode = Mode::kAsync;
  uint64_t every = 1;        // minibatches between two questions, at least
  uint64_t expire = 64;      // minibatches after which a decision is not applied any more
  int64_t deadline_ms = 50;  // mode deadline: how long a minibatch waits
  uint64_t history = 5;      // decisions that a context shows
  uint64_t window = 32;      // the buffer's: minibatches after which an outcome is settled
};

struct ControlCounts {
  uint64_t asked = 0;
  uint64_t applied = 0;
  uint64_t unchanged = 0;                   // answers that nothing is to change
  uint64_t expired = 0;                     // came too late to be applied
  uint64_t invalid = 0;                     // no valid answer
  double seconds = 0, slowest_seconds = 0;  // of the answers
  double waited_seconds = 0;                // of the trainer
  PassAt1 pass{};
};

class Controller {
 public:
  Controller(std::unique_ptr<DecisionMaker> maker, const ControllerSettings& settings,
             std::unique_ptr<Runner> runner, Clock& clock);
  // The runner ends before what its job uses.
  ~Controller() { runner_.reset(); }
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Before every minibatch of `buffer`, by the trainer's thread.
  void step(Buffer& buffer, uint64_t epoch);
  void set_facts(const RunFacts& facts) { facts_ = facts; }
  [[nodiscard]] ControlCounts counts() const;
  // What was wrong with the last invalid answer.
  [[nodiscard]] const std::string& last_fault() const { return last_fault_; }

 private:
  struct Question {
    Situation situation;
    std::string text;
    std::optional<Result<std::optional<Decision>>> answer;
    double seconds = 0;
  };
  void ask(Buffer& buffer, uint64_t epoch);
  void take(Buffer& buffer);
  void apply(Buffer& buffer, const Decision& decision);

  std::unique_ptr<DecisionMaker> maker_;
  ControllerSettings settings_;
  std::unique_ptr<Runner> runner_;
  Clock& clock_;
  RunFacts facts_;
  History history_;
  ControlCounts counts_;
  std::string last_fault_;
  std::unique_ptr<Question> open_;  // the runner's while it is busy
  uint64_t next_ask_ = 0;
};

}  // namespace sculler::steer
