// Chat models behind one interface. ask() blocks, is called from many threads at once, keeps one
// deadline over all its retries and its repair, and ends at once when stop() is called. What a
// model says is hostile text: bounded, valid UTF-8, and nothing more is promised of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::llm {

struct Message {
  std::string role{};  // "system", "user" or "assistant"
  std::string text{};
};

// One question. (role, index, step) names it: the same triple has the same file name, the same
// place in a cassette and the same random choices, whatever order the threads run in.
struct Request {
  std::vector<Message> messages{};
  std::string role{};   // who asks: "mutator", "judge", "annotator", "meta" …; [a-z0-9_-], 1..32
  int64_t index = 0;    // of the proposal, from 0; a function of nothing but the run's plan
  int64_t step = 0;     // the n-th question of this role for this proposal, from 0
  std::string model{};  // a [[model]] name; empty: chosen among those that serve the role
  std::optional<double> temperature{};  // left out where the model takes none
  int64_t max_tokens = 0;               // of the answer; 0: the model's own bound
  std::string schema{};                 // JSON schema of the answer; empty: plain text is wanted
  int64_t deadline_ns = 0;  // on the run's clock (Clock::now_ns); 0: llm.timeout from now
  [[nodiscard]] std::string name() const;  // "000012-mutator", "000012-mutator-2" for step 2
};

struct Answer {
  std::string
      text{};  // valid UTF-8, at most llm.max_answer_bytes; JSON that validates if asked for
  std::string model{};        // the [[model]] name that answered
  int64_t prompt_tokens = 0;  // of all attempts that were billed, the repair's included
  int64_t answer_tokens = 0;
  double usd = 0;
  double latency_s = 0;    // from ask() to its return
  std::string finish{};    // "stop", "length", or what the server said
  bool estimated = false;  // tokens are counted from the text: the server gave no usage
  bool recorded = false;   // from a cassette or from the run's own store: nothing was spent now
  int attempts = 0;        // requests that were sent
  bool repaired = false;   // the first answer did not validate
};

enum class Fault {
  kTimeout,      // the deadline passed
  kCancelled,    // stop() was called
  kUnreachable,  // no connection, or it broke before an answer was whole
  kRateLimited,  // 429 until the deadline or the last retry
  kServer,       // 5xx until the deadline or the last retry
  kRefused,      // 401, 403, 404, a redirect: wrong key or model; no retry helps
  kRejected,     // another 4xx: this question is not taken, others may be
  kTooLong,      // the prompt does not fit the model's context; nothing was sent
  kTooBig,       // the answer went over llm.max_answer_bytes
  kHalf,         // the stream ended in the middle
  kEncoding,     // not UTF-8
  kMalformed,    // not the protocol's JSON, or without a text
  kSchema,       // does not validate, also after the repair
  kBudget,       // the next call could exceed the run's budget
  kDown,         // too many failures one after another: the endpoint counts as down
  kMismatch,     // cassette: another prompt than the recorded one, or no such question
  kSetup,        // this provider cannot work here: no program, no key, no model file
};
inline constexpr std::size_t kFaults = 17;
[[nodiscard]] std::string_view fault_name(Fault fault);  // "timeout", "rate_limited" …

struct Failure {
  Fault fault = Fault::kMalformed;
  Error error{};  // no key and no header ever stands in it
  // The run should end in order (its work so far is kept): asking again cannot help.
  [[nodiscard]] bool stops_run() const {
    return fault == Fault::kBudget || fault == Fault::kDown || fault == Fault::kMismatch ||
           fault == Fault::kRefused || fault == Fault::kSetup || fault == Fault::kCancelled;
  }
};

using Reply = tl::expected<Answer, Failure>;

struct Usage {
  int64_t asked = 0, answered = 0, in_flight = 0;
  int64_t sent = 0;  // requests, retries and repairs included
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double usd = 0;
  std::array<int64_t, kFaults> faults{};  // by Fault
};

class Provider {
 public:
  virtual ~Provider() = default;
  [[nodiscard]] virtual Reply ask(const Request& request) = 0;
  // Ends every ask() in progress (kCancelled) and every later one. Thread-safe, never blocks.
  virtual void stop() = 0;
  // What a proposal of this model was worth, in [0, 1]: for choose = "ucb". Unknown names are kept.
  virtual void reward(std::string_view model, double worth) = 0;
  // Of the whole run, what came before a resume included.
  [[nodiscard]] virtual Usage usage() const = 0;
  // Names of the models, in order of the file.
  [[nodiscard]] virtual std::vector<std::string> models() const = 0;
};

// Answers by a function, for tests of those who ask. The function may block and is called from the
// threads of ask(); after stop() it is not called any more.
class FakeProvider final : public Provider {
 public:
  using Script = std::function<Reply(const Request&)>;
  explicit FakeProvider(Script script) : script_(std::move(script)) {}
  [[nodiscard]] Reply ask(const Request& request) override;
  void stop() override { stopped_ = true; }
  void reward(std::string_view model, double worth) override;
  [[nodiscard]] Usage usage() const override;
  [[nodiscard]] std::vector<std::string> models() const override { return {"fake"}; }
  [[nodiscard]] std::vector<Request> asked() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> rewards() const;

 private:
  Script script_;
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;
  Usage usage_;
  std::vector<Request> asked_;
  std::vector<std::pair<std::string, double>> rewards_;
};

[[nodiscard]] tl::unexpected<Failure> fault(Fault kind, std::string message, std::string cure = {});

}  // namespace sculler::llm
