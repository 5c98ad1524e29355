// Marks in languages whose comments begin with '#': lines that hold one such comment. No C++ text
// holds them, since "# EVOLVE-BLOCK-START" and "# sculler:tune" are no preprocessor directives.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sculler::source {

struct HashLine {
  std::string_view body;  // behind '#', trimmed
  int line = 0;
  std::size_t begin = 0, end = 0;  // from the '#' to the end of the line
};

// The lines "# BODY" whose body begins with `word`.
[[nodiscard]] std::vector<HashLine> hash_lines(std::string_view text, std::string_view word);

}  // namespace sculler::source
