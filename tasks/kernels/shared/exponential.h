// Exponentials of vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "vectors.h"

namespace {

// EVOLVE-BLOCK-START
typedef int32_t Ints __attribute__((vector_size(WIDTH / 8), aligned(4)));

// exp(x), x clamped to [-87, 87]: 2^n * p(r) with the coefficients of Cephes' expf (2 ulp).
inline Floats exponential(Floats x) {
  const Floats most = Floats{} + 87.0f;
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Floats n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Floats p = Floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

// y[0, n) = exp(scale * (y - max)); returns the sum. What is 87 below the maximum counts nothing.
inline float exponentials(float* y, int64_t n, float scale) {
  float most = y[0];
  int64_t j = 0;
  Floats high = Floats{} + y[0];
  for (; j + kLanes <= n; j += kLanes) {
    const Floats v = load(y + j);
    high = v > high ? v : high;
  }
  for (int64_t i = 0; i < kLanes; ++i) most = std::max(most, high[i]);
  for (; j < n; ++j) most = std::max(most, y[j]);
  Floats sums = {};
  for (j = 0; j + kLanes <= n; j += kLanes) {
    const Floats x = (load(y + j) - most) * scale;
    const Floats e = x < Floats{} - 87.0f ? Floats{} : exponential(x);
    store(y + j, e);
    sums += e;
  }
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += sums[i];
  for (; j < n; ++j) sum += y[j] = std::exp((y[j] - most) * scale);
  return sum;
}
// EVOLVE-BLOCK-END

}  // namespace
