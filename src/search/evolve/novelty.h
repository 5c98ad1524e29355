// How alike two programs are, by their tokens: comments, blanks and line breaks do not count.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sculler::search {

struct Signature {
  uint64_t exact = 0;              // equal for equal tokens
  std::vector<uint64_t> shingles;  // the smallest hashes of five tokens each, sorted, each once
};

[[nodiscard]] Signature signature_of(std::string_view source);
// Jaccard, estimated from the smallest 512 hashes of both: shingles in common by shingles in all; 1
// for equal tokens.
[[nodiscard]] double likeness(const Signature& a, const Signature& b);

}  // namespace sculler::search
