// Random numbers by position, not by order: the same on every machine, for any number of threads
// and ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sculler/fill.h"

namespace sculler::gnn {

// What a draw is for, so that equal positions of different uses differ.
enum class Use : uint64_t {
  kEdge = 1,
  kLabel,
  kEpoch,
  kNeighbour,
  kTrain,
  kPartition,
  kFeature,
  kWeight
};

// 64 uniform bits of the position (a, b, c, d) of a use.
inline uint64_t draw(uint64_t seed, Use use, uint64_t a, uint64_t b = 0, uint64_t c = 0,
                     uint64_t d = 0) {
  uint64_t x = sculler_mix(seed + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(use));
  x = sculler_mix(x ^ (a + 0x9E3779B97F4A7C15u));
  x = sculler_mix(x ^ (b + 0xD1B54A32D192ED03u));
  x = sculler_mix(x ^ (c + 0x8CB92BA72F3D8DD7u));
  return sculler_mix(x ^ (d + 0xAEF17502108EF2D9u));
}

// Uniform in [0, 1).
inline double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
// Uniform in [0, bound), but for a bias of bound / 2^64.
inline uint64_t below(uint64_t bits, uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{bits} * bound) >> 64);
}

// The nodes in the order of drawn(node), which is computed once a node; by number where it is
// equal.
template <class Drawn>
std::vector<uint32_t> shuffled(std::span<const uint32_t> nodes, Drawn&& drawn) {
  std::vector<std::pair<uint64_t, uint32_t>> keyed;
  keyed.reserve(nodes.size());
  for (const uint32_t v : nodes) keyed.emplace_back(drawn(v), v);
  std::sort(keyed.begin(), keyed.end());
  std::vector<uint32_t> out;
  out.reserve(keyed.size());
  for (const auto& [key, v] : keyed) out.push_back(v);
  return out;
}

}  // namespace sculler::gnn
