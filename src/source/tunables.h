// Tunables: constants with a value set, declared in the source by
//   // sculler:tune TILE_M in {64,128,256}
//   #ifndef TILE_M
//   #define TILE_M 128
//   #endif
// or, where comments begin with '#',
//   # sculler:tune BLOCK in {64,128,256}
//   BLOCK = 128
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler::source {

struct Tunable {
  std::string name;
  std::vector<std::string> values;  // as written, each once
  std::size_t usual = 0;            // index of the value in the #define, or of the nearest number
  int line = 0;
  bool from_define = false;  // the #define's value is among the values
};

// (name, value) in order of declaration: what is passed as -Dname=value.
using Defines = std::vector<std::pair<std::string, std::string>>;

// kBadSource with "origin:line" for a declaration that does not parse, is empty, occurs twice or
// has no #ifndef NAME in the following lines. At most 32 tunables with 64 values each.
[[nodiscard]] Result<std::vector<Tunable>> find_tunables(std::string_view text,
                                                         std::string_view origin);

// Number of points of the space, saturating at 2^62.
[[nodiscard]] uint64_t space_size(const std::vector<Tunable>& tunables);
// The point with this index (mixed radix, the last tunable fastest).
[[nodiscard]] Defines point(const std::vector<Tunable>& tunables,
                            const std::vector<std::size_t>& choice);
[[nodiscard]] std::vector<std::size_t> usual_choice(const std::vector<Tunable>& tunables);
// "TILE_M=128 STAGES=3".
[[nodiscard]] std::string print(const Defines& defines);
// Every name is a tunable, every value in its set.
[[nodiscard]] Status check_defines(const std::vector<Tunable>& tunables, const Defines& defines,
                                   std::string_view origin);

// Words of "// sculler:requires cutlass": parts of the environment that the source needs.
[[nodiscard]] std::vector<std::string> requirements(std::string_view text);

}  // namespace sculler::source
