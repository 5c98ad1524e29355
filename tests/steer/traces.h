// Random traces for tests: minibatches of distinct ids, some wanted far more often than others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/random.h"

namespace sculler::test {

using Trace = std::vector<std::vector<uint64_t>>;

// Ids below `ids`, skewed; from the middle on the favourites are others where `drift` is set.
inline Trace random_trace(uint64_t seed, size_t minibatches, size_t size, uint64_t ids,
                          bool drift = false) {
  Random random(seed);
  Trace trace;
  for (size_t b = 0; b < minibatches; ++b) {
    std::set<uint64_t> one;
    const size_t n = 1 + random.below(size);
    for (size_t i = 0; i < n; ++i) {
      const double u = random.unit();
      auto id = static_cast<uint64_t>(u * u * u * static_cast<double>(ids));
      if (drift && b >= minibatches / 2) id = ids - 1 - id;
      one.insert(id * 0x1'0000'0001 % (uint64_t{1} << 63));  // far apart, above 2^32 too
    }
    std::vector<uint64_t> list(one.begin(), one.end());
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
    trace.push_back(std::move(list));
  }
  return trace;
}

}  // namespace sculler::test
