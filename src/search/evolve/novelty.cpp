#include "search/evolve/novelty.h"

#include <algorithm>

#include "source/token.h"

namespace sculler::search {
namespace {

constexpr std::size_t kTokens = 5, kMost = 512;

uint64_t mix(uint64_t h, uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdULL;
  return h ^ (h >> 33);
}

uint64_t hash_of(std::string_view text) {
  uint64_t h = 1469598103934665603ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return h;
}

}  // namespace

Signature signature_of(std::string_view source) {
  std::vector<uint64_t> tokens;
  for (const auto& token : source::tokenize(source)) tokens.push_back(hash_of(token.text));
  Signature out;
  for (const uint64_t token : tokens) out.exact = mix(out.exact, token);
  for (std::size_t i = 0; i + kTokens <= tokens.size(); ++i) {
    uint64_t h = 0;
    for (std::size_t k = 0; k < kTokens; ++k) h = mix(h, tokens[i + k]);
    out.shingles.push_back(h);
  }
  std::sort(out.shingles.begin(), out.shingles.end());
  out.shingles.erase(std::unique(out.shingles.begin(), out.shingles.end()), out.shingles.end());
  // The smallest hashes are as good a sample as any, and the same one for both sides.
  if (out.shingles.size() > kMost) out.shingles.resize(kMost);
  return out;
}

double likeness(const Signature& a, const Signature& b) {
  if (a.exact == b.exact) return 1;
  if (a.shingles.empty() || b.shingles.empty()) return 0;
  // The smallest of both together are a fair sample of the union.
  std::size_t common = 0, all = 0, i = 0, j = 0;
  while (all < kMost && (i < a.shingles.size() || j < b.shingles.size())) {
    ++all;
    if (j == b.shingles.size() || (i < a.shingles.size() && a.shingles[i] < b.shingles[j])) {
      ++i;
    } else if (i == a.shingles.size() || b.shingles[j] < a.shingles[i]) {
      ++j;
    } else {
      ++common;
      ++i;
      ++j;
    }
  }
  return static_cast<double>(common) / static_cast<double>(all);
}

}  // namespace sculler::search
