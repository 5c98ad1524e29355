// The annotator of evolve blocks: puts marks around what may change, and proves that they are
// nothing but marks. A text with marks is accepted only where taking them out restores the text
// without marks byte for byte.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::source {

// Lines first..last (from 1, both included) that a block shall hold.
struct Lines {
  int first = 0, last = 0;
};

// The text with a marker line before and after each range. Ranges ascend and do not touch.
// kBadSource with "origin:line" where a marker would not stand in code (within a comment, a string
// or a preprocessor line that goes on) or where the text has marks already.
[[nodiscard]] Result<std::string> mark_blocks(std::string_view text,
                                              const std::vector<Lines>& ranges,
                                              std::string_view origin);

// The text without its marker lines: lines that hold one comment "// EVOLVE-BLOCK-START" or
// "// EVOLVE-BLOCK-END" and nothing else but blanks. Other markers stay.
[[nodiscard]] std::string without_marks(std::string_view text);

// Success where `marked` is `original` plus marker lines that are balanced, and nothing else:
// kBadSource names the first line of `marked` that differs. At least one block must be there.
[[nodiscard]] Status check_marks(std::string_view original, std::string_view marked,
                                 std::string_view origin);

}  // namespace sculler::source
