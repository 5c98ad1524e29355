// Decides what to try next. Given the same seed, the same verdicts and the same answers of models
// in the same order it proposes the same candidates in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/candidate.h"

namespace sculler::search {

struct Outcome {
  int64_t program = 0;
  Candidate candidate;
  bool passed = false;
  std::string status;
  double score = 0;            // higher is better; 0 where it did not pass
  std::string_view verdict{};  // the evaluator's line; valid during the call
  bool confirmation = false;   // on fresh seeds, because the strategy asked for it
  bool measured = false;       // on GPUs, where the run's own times are predicted
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // At most `limit` new candidates. Empty: it waits for verdicts or answers, or is at its end.
  [[nodiscard]] virtual std::vector<Candidate> propose(std::size_t limit) = 0;
  virtual void told(const Outcome& outcome) = 0;
  // Nothing more will be proposed, whatever it is told.
  [[nodiscard]] virtual bool exhausted() const = 0;

  // For strategies that ask others.
  // Latencies of the baselines, before the first propose().
  virtual void begin(const std::map<std::string, double>& /*baseline_us*/) {}
  // Once a turn of the loop, before propose(): asks as much as may be asked.
  [[nodiscard]] virtual Status advance() { return {}; }
  // Answers are awaited: nothing proposed is no end.
  [[nodiscard]] virtual bool waiting() const { return false; }
  // Takes one answer in, waiting for it at most so long; the one of that name where one is given.
  // False where none came.
  [[nodiscard]] virtual Result<bool> take(int64_t /*timeout_ms*/, std::string_view /*name*/) {
    return false;
  }
  // Readable while an answer is there; -1: there are never any.
  [[nodiscard]] virtual int wake_fd() const { return -1; }
  // What is awaited needs no more candidates: a run whose budget is spent waits for it all the
  // same.
  [[nodiscard]] virtual bool settling() const { return false; }
  // Ends what is being asked and waits for it. Nothing may be called afterwards but what looks at
  // the state; whoever is asked is not needed any more.
  virtual void finish() {}
  // What made it end early, where something did.
  [[nodiscard]] virtual std::optional<Error> stopped_by() const { return std::nullopt; }
  // What asking has cost so far.
  [[nodiscard]] virtual double usd() const { return 0; }
  // Why it is at its end.
  [[nodiscard]] virtual std::string why() const { return "space used up"; }
};

}  // namespace sculler::search
