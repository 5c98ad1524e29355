// The lint stage: src/source's rules applied to a job.
#pragma once

#include "eval/cascade.h"

namespace sculler::eval {

class SourceLinter final : public Linter {
 public:
  [[nodiscard]] std::optional<LintProblem> lint(const Job& job, const task::Task& task,
                                                const task::Profile* profile) override;
};

}  // namespace sculler::eval
