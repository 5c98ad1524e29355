// Evolve blocks: what a proposer may change lies between comments EVOLVE-BLOCK-START and
// EVOLVE-BLOCK-END, each on a line of its own, behind "//" or (hash_lines.h) "#".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::source {

struct Block {
  std::size_t begin = 0, end = 0;     // of the text between the marker lines
  int first_line = 0, last_line = 0;  // of the markers
};

struct Blocks {
  std::vector<Block> blocks;
  // SHA-256 of everything outside, marker lines included, piece by piece.
  std::string frozen_sha256;
};

// Markers count only in comments that hold nothing else before them. kBadSource with "origin:line"
// where they are not balanced or nested, or where the text is larger than kMaxSourceBytes. No
// blocks at all is success with an empty list.
[[nodiscard]] Result<Blocks> find_blocks(std::string_view text, std::string_view origin);
// As above, and no blocks is an error too.
[[nodiscard]] Result<Blocks> need_blocks(std::string_view text, std::string_view origin);

// The text with the inner texts of its blocks replaced, one for each; frozen text stays byte for
// byte.
[[nodiscard]] Result<std::string> replace_blocks(std::string_view text,
                                                 const std::vector<std::string>& inner,
                                                 std::string_view origin);

// A piece of frozen text that differs: the first line in `text` that is not what `parent` has
// there; 0 where none.
[[nodiscard]] int first_frozen_difference(std::string_view text, std::string_view parent);

}  // namespace sculler::source
