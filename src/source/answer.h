// What a model answered, taken apart: fenced code, search/replace blocks, whole files, the
// directive as JSON. The text is hostile: any bytes up to kMaxAnswerBytes are looked at in linear
// time, and what cannot be one thing only is refused with its line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::source {

inline constexpr std::size_t kMaxAnswerBytes = std::size_t{10} << 20;
inline constexpr std::size_t kMaxEdits = 4096;

// One change. Line ends are '\n' alone; `apply` writes those of the file.
struct Edit {
  enum class Kind { kReplace, kRewrite };
  Kind kind = Kind::kReplace;
  std::string file{};    // empty: the candidate's first file
  std::string search{};  // whole lines; kReplace only
  std::string text{};    // whole lines
  int line = 0;          // of the answer, where the change begins
};

struct ModelAnswer {
  std::string directive{};  // the JSON text, as written; empty where there is none
  int directive_line = 0;
  std::vector<Edit> edits{};  // in order of the answer
  std::string prose{};        // what stands outside of code, at most 4,000 bytes
};

// Understood are
// - search/replace blocks, within a fence or bare:
//     <<<<<<< SEARCH / ======= / >>>>>>> REPLACE, each on a line of its own;
// - fences ``` and ~~~ (CommonMark: closed by at least as many of the same character), whose text
//   is a whole file, or the text of its evolve blocks. A file is named by the fence's info string
//   ("```cpp halo.cuh"), or by the line above it when that is a name alone ("**halo.cuh**");
// - a fence `json`, or a bare object at the begin of the answer, that holds the key "backend" or
//   "directive": the directive.
// A leading <think>…</think> is not looked at. kBadSource with "answer:LINE" where a block or a
// fence has no end ("half an answer"), markers are out of order, or a bound is passed.
[[nodiscard]] Result<ModelAnswer> parse_answer(std::string_view answer);

}  // namespace sculler::source
