// Root mean squares of rows.
#pragma once

#include <cmath>
#include <cstdint>

namespace {

// EVOLVE-BLOCK-START
// 1 / sqrt(mean of the squares of x[0, n) + epsilon).
inline float inverse_rms(const float* x, int64_t n, float epsilon) {
  float sums[16] = {};
  int64_t l = 0;
  for (; l + 16 <= n; l += 16) {
    for (int64_t i = 0; i < 16; ++i) sums[i] += x[l + i] * x[l + i];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; l < n; ++l) sum += x[l] * x[l];
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + epsilon);
}
// EVOLVE-BLOCK-END

}  // namespace
