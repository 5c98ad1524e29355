// A block a row: sums and maxima over it, by shuffles within warps and once through shared memory.
#pragma once

#include <cstdint>

#include "entry.h"

namespace {

constexpr int kRowThreads = 256, kRowWarps = kRowThreads / 32;

template <class Op>
__device__ inline float over_block(float value, Op op) {
  __shared__ float part[kRowWarps];
  for (int far = 16; far > 0; far /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, far));
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
  for (int i = 1; i < kRowWarps; ++i) value = op(value, part[i]);
  return value;
}
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// f(row) by a block for each row.
template <class F>
__global__ void __launch_bounds__(kRowThreads) rows_kernel(F f) {
  f(static_cast<int64_t>(blockIdx.x));
}
template <class F>
void each_row(int64_t rows, cudaStream_t stream, F f) {
  rows_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(f);
}

// f(j) for the columns of this thread, neighbours side by side.
template <class F>
__device__ inline void columns(int64_t n, F f) {
  for (int64_t j = threadIdx.x; j < n; j += kRowThreads) f(j);
}

// y = softmax(scale * y) of each row of n, in place.
struct SoftmaxRow {
  float* y;
  int64_t n;
  float scale;
  __device__ void operator()(int64_t row) const {
    float* to = y + row * n;
    float most = -3.4e38f, sum = 0;
    columns(n, [&](int64_t j) { most = fmaxf(most, to[j]); });
    most = over_block(most, Largest{});
    columns(n, [&](int64_t j) { sum += to[j] = expf((to[j] - most) * scale); });
    const float quotient = 1.0f / over_block(sum, Sum{});
    columns(n, [&](int64_t j) { to[j] *= quotient; });
  }
};

// to = (x + z) / sqrt(mean((x + z)^2) + epsilon) * g of each row of k; z and g may be missing.
struct NormRow {
  const float *x, *z, *g;
  float* to;
  int64_t k;
  float epsilon;
  __device__ void operator()(int64_t row) const {
    const float* from = x + row * k;
    const float* more = z == nullptr ? nullptr : z + row * k;
    float* out = to + row * k;
    float sum = 0;
    columns(k, [&](int64_t j) {
      const float v = from[j] + (more == nullptr ? 0.0f : more[j]);
      out[j] = v;
      sum += v * v;
    });
    const float scale =
        1.0f / sqrtf(over_block(sum, Sum{}) / static_cast<float>(k) + epsilon);
    columns(k, [&](int64_t j) { out[j] *= scale * (g == nullptr ? 1.0f : g[j]); });
  }
};

}  // namespace
