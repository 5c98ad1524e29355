// Shared by the files of the lint.
#pragma once

#include <string>
#include <vector>

#include "source/lint.h"
#include "source/token.h"

namespace sculler::source {

class Report {
 public:
  void add(int line, std::string rule, std::string message, std::string cure) {
    if (findings_.size() < 100)
      findings_.push_back({line, std::move(rule), std::move(message), std::move(cure)});
  }
  [[nodiscard]] std::vector<Finding> take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

// Constant indices of LSA barriers and GIN signals against the counts that the source asks for.
void lint_barriers(const std::vector<Token>& code, const LintOptions& options, Report& report);

}  // namespace sculler::source
