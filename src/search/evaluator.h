// Where jobs go and verdicts come from: a child process in earnest, a function in tests.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"

namespace sculler::search {

struct Answer {
  std::string job;
  std::string verdict;  // the line as it came
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // `line` holds the job `id`. Returns once it is on its way.
  [[nodiscard]] virtual Status submit(const std::string& id, std::string line) = 0;
  // The next verdict; empty after `timeout_ms` without one. Fails where the evaluator cannot go on.
  [[nodiscard]] virtual Result<std::optional<Answer>> next(int64_t timeout_ms) = 0;
  // next() ends early, without a verdict, while this descriptor is readable; -1: none.
  virtual void set_wake_fd(int /*fd*/) {}
};

// Answers at the next call of next(), in order of submission.
class FakeEvaluator final : public Evaluator {
 public:
  using Judge = std::function<std::string(const std::string& id, const std::string& line)>;
  explicit FakeEvaluator(Judge judge) : judge_(std::move(judge)) {}
  [[nodiscard]] Status submit(const std::string& id, std::string line) override;
  [[nodiscard]] Result<std::optional<Answer>> next(int64_t timeout_ms) override;
  [[nodiscard]] int submitted() const { return submitted_; }

 private:
  Judge judge_;
  std::deque<std::pair<std::string, std::string>> queue_;
  int submitted_ = 0;
};

// A child that reads job lines and writes verdict lines. Where it dies it is started again and gets
// its open jobs anew (those with a spooled verdict are answered from there); three deaths without a
// verdict in between end the run.
class ProcessEvaluator final : public Evaluator {
 public:
  // `command` is spawned with the environment given; its stderr goes to `log_path`.
  ProcessEvaluator(Processes& processes, Clock& clock, SpawnOptions command, std::string log_path);
  ~ProcessEvaluator() override;
  [[nodiscard]] Status submit(const std::string& id, std::string line) override;
  [[nodiscard]] Result<std::optional<Answer>> next(int64_t timeout_ms) override;
  void set_wake_fd(int fd) override { wake_fd_ = fd; }
  // An evaluator that owes verdicts and gives none for this long counts as dead.
  void set_stall_ms(int64_t ms) { stall_ms_ = ms; }
  [[nodiscard]] int restarts() const { return restarts_; }
  [[nodiscard]] int pid() const { return child_ ? child_->pid() : -1; }

 private:
  [[nodiscard]] Status ensure_started();
  void died();
  void pump_out();  // writes what the pipe takes
  void take_in();   // reads what is there
  [[nodiscard]] std::string last_words() const;

  Processes& processes_;
  Clock& clock_;
  SpawnOptions command_;
  std::string log_path_;
  std::unique_ptr<Child> child_;
  int wake_fd_ = -1;
  std::map<std::string, std::string> open_;  // job → line
  std::deque<std::string> order_;            // of open jobs, for sending anew
  std::string out_, in_;
  std::size_t out_at_ = 0;
  std::deque<Answer> answers_;
  std::optional<Error> broken_;
  int64_t stall_ms_ = 3'600'000, last_sign_ns_ = 0;
  int restarts_ = 0, deaths_in_a_row_ = 0;
};

}  // namespace sculler::search
