// Hash-seeded random numbers that are the same on every machine (std distributions are not).
#pragma once

#include <cstdint>
#include <string_view>

namespace sculler {

// SplitMix64: a stream of 64-bit numbers fixed by its seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  Random(uint64_t seed, std::string_view salt);
  uint64_t next();
  // Uniform in [0, bound), bound > 0, without bias.
  uint64_t below(uint64_t bound);
  // Uniform in [0, 1).
  double unit();

 private:
  uint64_t state_;
};

}  // namespace sculler
