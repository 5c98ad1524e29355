// Elementwise kernels that stream: each thread asks for all of its 16-byte pieces before it
// computes the first. THREADS, UNROLL, PERSISTENT, BACKWARD, LOADS and STORES are the first file's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "entry.h"
#include "pieces.h"

namespace {

template <int kN>
struct Pointers {
  float* at[kN];
};

// EVOLVE-BLOCK-START
// f(first) for the first element of each of this block's shares: one, or, where PERSISTENT, every
// so many. BACKWARD: the last elements come first: what another program wrote last is what the
// second-level cache still has.
template <class F>
__device__ inline void shares(int64_t n, F f) {
  constexpr int64_t kShare = int64_t{4} * UNROLL * THREADS;
  const int64_t all = (n + kShare - 1) / kShare;
  const auto one = [&](int64_t i) { f((BACKWARD ? all - 1 - i : i) * kShare); };
  if constexpr (PERSISTENT == 0) one(blockIdx.x);
  else
    for (int64_t i = blockIdx.x; i < all; i += gridDim.x) one(i);
}

// All pointers are aligned to 16 bytes; f(x, y) gives the outputs y of one element's inputs x.
template <int kIn, int kOut, class F>
__global__ void __launch_bounds__(THREADS)
    elementwise4(Pointers<kIn> in, Pointers<kOut> out, int64_t n, F f) {
  union Four {
    float4 all;
    float one[4];
  };
  shares(n, [&](int64_t share) {
    const int64_t first = share + threadIdx.x * 4;
    Four x[UNROLL][kIn];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t i = first + static_cast<int64_t>(u) * THREADS * 4;
      if (i + 4 > n) continue;
#pragma unroll
      for (int j = 0; j < kIn; ++j) x[u][j].all = load4(in.at[j] + i);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t i = first + static_cast<int64_t>(u) * THREADS * 4;
      if (i + 4 <= n) {
        Four y[kOut];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float from[kIn], to[kOut];
#pragma unroll
          for (int j = 0; j < kIn; ++j) from[j] = x[u][j].one[e];
          f(from, to);
#pragma unroll
          for (int j = 0; j < kOut; ++j) y[j].one[e] = to[j];
        }
#pragma unroll
        for (int j = 0; j < kOut; ++j) store4(out.at[j] + i, y[j].all);
      } else {
        for (int64_t rest = i; rest < n; ++rest) {
          float from[kIn], to[kOut];
          for (int j = 0; j < kIn; ++j) from[j] = in.at[j][rest];
          f(from, to);
          for (int j = 0; j < kOut; ++j) out.at[j][rest] = to[j];
        }
      }
    }
  });
}

// Any alignment: neighbours of a warp still lie side by side.
template <int kIn, int kOut, class F>
__global__ void __launch_bounds__(THREADS)
    elementwise1(Pointers<kIn> in, Pointers<kOut> out, int64_t n, F f) {
  shares(n, [&](int64_t share) {
#pragma unroll
    for (int u = 0; u < UNROLL * 4; ++u) {
      const int64_t i = share + threadIdx.x + static_cast<int64_t>(u) * THREADS;
      if (i >= n) return;
      float from[kIn], to[kOut];
#pragma unroll
      for (int j = 0; j < kIn; ++j) from[j] = in.at[j][i];
      f(from, to);
#pragma unroll
      for (int j = 0; j < kOut; ++j) out.at[j][i] = to[j];
    }
  });
}

template <int kIn, int kOut, class F>
void elementwise(Pointers<kIn> in, Pointers<kOut> out, int64_t n, cudaStream_t stream, F f) {
  uintptr_t bits = 0;
  for (const auto* at : in.at) bits |= reinterpret_cast<uintptr_t>(at);
  for (const auto* at : out.at) bits |= reinterpret_cast<uintptr_t>(at);
  unsigned blocks = blocks_of(n, int64_t{4} * UNROLL * THREADS);
  if (PERSISTENT != 0) blocks = std::min(blocks, processors() * (2048 / THREADS));
  if (bits % 16 == 0) elementwise4<<<blocks, THREADS, 0, stream>>>(in, out, n, f);
  else elementwise1<<<blocks, THREADS, 0, stream>>>(in, out, n, f);
}
// EVOLVE-BLOCK-END

}  // namespace
