// Vector types of the compiler, so that one source serves AVX2, AVX-512 and machines that have
// neither. WIDTH, in bits, is the first file's.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

// EVOLVE-BLOCK-START
typedef float Floats __attribute__((vector_size(WIDTH / 8), aligned(4)));
constexpr int64_t kLanes = WIDTH / 32;

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof value); }
// EVOLVE-BLOCK-END

}  // namespace
