// What g++ says about the loops of a cpu candidate, and what its assembly shows: for those who
// decide what to try next.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::eval {

struct VectorReport {
  // loops_vectorised, loops_scalar: by the compiler, in the candidate's own files; vector_bits: the
  // widest registers that occur; vector_spills: stores of vector registers to the stack.
  std::map<std::string, int64_t> facts{};
  std::vector<std::string> remarks{};  // "candidate.cpp:39: vectorised, 512 bits", by line, bounded
};

// `remarks`: the file of -fopt-info-vec-optimized-missed; `assembly`: the .s file. Either may be
// empty or cut off.
[[nodiscard]] VectorReport read_vector_report(std::string_view remarks, std::string_view assembly);

}  // namespace sculler::eval
