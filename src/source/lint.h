// Static rules, before a compiler sees the text: each finding names line, rule and cure. Lint
// explains early; what holds a candidate is the sandbox, which needs no cooperation of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "directive/directive.h"
#include "source/tunables.h"

namespace sculler::source {

struct Finding {
  int line = 0;      // 0: the file as a whole
  std::string rule;  // stable name: docs/lint.md
  std::string message;
  std::string cure;
};

struct LintOptions {
  std::string origin = "candidate.cu";
  const directive::Directive* directive = nullptr;  // null: the source's own, or none
  std::string_view parent{};  // the seed whose frozen text must be kept; empty: not checked
  bool baseline = false;      // the task's own program: no evolve blocks needed
  bool unit = true;           // the translation unit: entry points and tunables are here
  bool multicast = false;     // the hardware profile allows multimem and multicast
  bool device_code = true;    // false on the cpu target: no directive, no CUDA
  Defines defines{};          // values of tunables, for constant indices
};

// In order of lines; empty where the text passes. At most 100 findings.
[[nodiscard]] std::vector<Finding> lint(std::string_view text, const LintOptions& options);

// Where NCCL's host collectives are named: calls, addresses, bodies of macros, in order of lines.
struct HostCall {
  int line = 0;
  std::string name;  // "ncclAllGather"
};
[[nodiscard]] std::vector<HostCall> host_collectives(std::string_view text);
// A word that the code holds: not a comment's, not a string's.
[[nodiscard]] bool names_word(std::string_view text, std::string_view word);

// "candidate.cu:12: banned-call: dlopen … (cure)".
[[nodiscard]] std::string print(const Finding& finding, std::string_view origin);

}  // namespace sculler::source
