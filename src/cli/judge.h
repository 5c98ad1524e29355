// One job, asked and answered.
#pragma once

#include <string>

#include "cli/app.h"
#include "search/evaluator.h"
#include "search/job.h"
#include "search/verdict.h"

namespace sculler::cli {

struct Judged {
  search::Verdict verdict;
  std::string text;  // the evaluator's answer, JSON
};
// One job from its submission to its verdict. kTimeout where the user interrupts it.
[[nodiscard]] Result<Judged> judge(const App& app, search::Evaluator& evaluator,
                                   const search::JobFrame& frame,
                                   const search::Candidate& candidate);

}  // namespace sculler::cli
