// What the annotator answers, proved: marks and nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::search {

// The text with the number of each line before it, "  12| …".
[[nodiscard]] std::string numbered(std::string_view text);

struct Marking {
  std::string text;                  // with marks
  std::vector<std::string> reasons;  // of the blocks, where they were given
};
// `answer` is either JSON {"blocks":[{"first":12,"last":80,"reason":"…"}]} with lines of `text`, or
// the whole text with marker lines in one fence. kBadSource or kModel says why it is refused;
// what is taken gives `text` again, byte for byte, when its marks are taken out.
[[nodiscard]] Result<Marking> read_marking(std::string_view answer, std::string_view text,
                                           std::string_view name);

}  // namespace sculler::search
