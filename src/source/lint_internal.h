// Shared by the files of the lint.
#pragma once

#include <string>
#include <string_view>
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
  // What a reader of a part of the source said, with the line that its file names.
  void add(const Error& error, std::string rule);
  [[nodiscard]] std::vector<Finding> take() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
};

// Rules that hold for every language. Evolve blocks, which a program of a proposer (no baseline)
// must have, and text outside of them that differs from `parent`'s (empty: not checked). False
// where the blocks cannot be read.
bool lint_blocks(std::string_view text, std::string_view origin, bool baseline,
                 std::string_view parent, Report& report);
// Tunables and the values given to them.
void lint_tunables(std::string_view text, std::string_view origin, const Defines& defines,
                   Report& report);

// Constant indices of LSA barriers and GIN signals against the counts that the source asks for.
void lint_barriers(const std::vector<Token>& code, const LintOptions& options, Report& report);

}  // namespace sculler::source
