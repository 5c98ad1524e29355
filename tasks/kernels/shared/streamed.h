// Vector types of the compiler whose stores go past the caches. WIDTH, in bits, and STREAM, 0 or 1,
// are the first file's.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace {

// EVOLVE-BLOCK-START
typedef float Floats __attribute__((vector_size(WIDTH / 8), aligned(4)));
constexpr int64_t kLanes = WIDTH / 32;

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
// Past the caches where the address allows it: what is written is not read again.
inline void store(float* to, Floats value) {
#if STREAM && defined(__AVX512F__) && WIDTH == 512
  if (reinterpret_cast<uintptr_t>(to) % 64 == 0) {
    __m512 whole;
    std::memcpy(&whole, &value, sizeof whole);
    return _mm512_stream_ps(to, whole);
  }
#elif STREAM && defined(__SSE__)
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    for (int64_t i = 0; i < kLanes; i += 4) {
      __m128 part;
      std::memcpy(&part, reinterpret_cast<const char*>(&value) + i * 4, sizeof part);
      _mm_stream_ps(to + i, part);
    }
    return;
  }
#endif
  std::memcpy(to, &value, sizeof value);
}
inline void stored() {
#if STREAM && defined(__SSE__)
  _mm_sfence();
#endif
}
// EVOLVE-BLOCK-END

}  // namespace
