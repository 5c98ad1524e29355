// One candidate after the other through the evaluator, each kept in the store before it is sent and
// when it is judged. What the store knows already is not asked again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "llm/tape.h"
#include "search/evaluator.h"
#include "search/job.h"
#include "search/verdict.h"
#include "store/store.h"

namespace sculler::search {

class Trial {
 public:
  Trial(store::Store& store, Clock& clock, Evaluator& evaluator, JobFrame frame)
      : store_(store), clock_(clock), evaluator_(evaluator), frame_(std::move(frame)) {}

  struct Judged {
    int64_t program = 0;
    std::string job;
    Verdict verdict;
    std::string text;  // the evaluator's line
  };
  // kTimeout where the user interrupts or `end_ns` passes, kChildFailed where the machine failed
  // twice (INTERNAL): then nothing is known of the candidate.
  [[nodiscard]] Result<Judged> judge(const Candidate& candidate);

  llm::Tape* tape = nullptr;  // recorded or replayed
  const std::atomic<bool>* interrupted = nullptr;
  int64_t end_ns = 0;  // on the clock; 0: none

 private:
  [[nodiscard]] Result<std::string> ask(const std::string& job, const Candidate& candidate);

  store::Store& store_;
  Clock& clock_;
  Evaluator& evaluator_;
  JobFrame frame_;
};

}  // namespace sculler::search
