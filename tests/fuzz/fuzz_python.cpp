// Any bytes as a candidate in Python: linted in bounded time; blocks and tunables agree with the
// lint about what is there.
#include <cstdlib>
#include <string_view>

#include "source/blocks.h"
#include "source/lint_python.h"
#include "source/tunables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::source;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  PythonRules rules;
  rules.imports = {"math"};
  rules.entry = "run";
  const auto findings = lint_python(text, rules);
  if (findings.size() > 100) std::abort();
  int last = 0;
  for (const auto& finding : findings) {
    if (finding.line < last || finding.rule.empty() || finding.message.empty()) std::abort();
    last = finding.line;
  }
  const auto blocks = find_blocks(text, "candidate.py");
  if (findings.empty() && (!blocks || blocks->blocks.empty())) std::abort();
  if (findings.empty() && !find_tunables(text, "candidate.py")) std::abort();
  // The text is its own parent.
  rules.parent = text;
  for (const auto& finding : lint_python(text, rules))
    if (finding.rule == "frozen-text" && blocks) std::abort();
  return 0;
}
