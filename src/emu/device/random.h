// xorshift64*: small, seeded, the same everywhere.
#pragma once

#include <cstdint>

namespace sculler::emu {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dull;
  }
  uint64_t below(uint64_t n) { return (next() >> 11) % n; }

 private:
  uint64_t state_;
};

}  // namespace sculler::emu
