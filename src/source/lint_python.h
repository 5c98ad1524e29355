// Static rules for candidates in Python (target external, docs/external.md). They explain early;
// what holds a candidate is the sandbox.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "source/lint.h"

namespace sculler::source {

struct PythonRules {
  std::string origin = "candidate.py";
  std::string_view parent{};         // as LintOptions::parent
  bool baseline = false;             // no evolve blocks needed
  std::vector<std::string> imports;  // modules that may be imported, by their dotted names
  std::string entry;                 // function that must be defined; empty: not checked
  Defines defines{};
};

// In order of lines; empty where the text passes. At most 100 findings.
[[nodiscard]] std::vector<Finding> lint_python(std::string_view text, const PythonRules& rules);

}  // namespace sculler::source
