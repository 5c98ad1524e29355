// What a run keeps of a candidate and its verdict, whoever leads the run.
#pragma once

#include <string>

#include "llm/tape.h"
#include "search/candidate.h"
#include "search/job.h"
#include "search/verdict.h"
#include "store/store.h"

namespace sculler::search {

// The candidate as the store has it, its text aside.
[[nodiscard]] store::Program program_of(const Candidate& candidate);
// A program of the store as a candidate of this run.
[[nodiscard]] Result<Candidate> candidate_of(store::Store& store, const store::Program& program,
                                             const std::string& file_name);
// Program and attempt, durable when it returns: written before the job is sent. Gives the program's
// id.
[[nodiscard]] Result<int64_t> keep_attempt(store::Store& store, const JobFrame& frame,
                                           const Candidate& candidate, const std::string& job);
// A verdict as the store has it; `text` is the evaluator's line.
[[nodiscard]] store::Evaluation evaluation_of(const Verdict& verdict, std::string text);
// Durable when it returns.
[[nodiscard]] Status keep_evaluation(store::Store& store, const store::Evaluation& evaluation);
// A cassette's verdict of a job, as the evaluator wrote it, labelled `"recorded": true`: whoever
// reads it later, wherever it went, sees that nothing was evaluated for it.
[[nodiscard]] Result<std::string> recorded_verdict(llm::Tape& tape, const std::string& job);

}  // namespace sculler::search
