// A float32 product on the ordinary cores, as one writes it first: 128 x 128 tiles through shared
// memory, 8 x 8 sums a thread, the next tile's loads issued before this one's arithmetic.
#pragma once

#include <cstdint>

#include "entry.h"

namespace {

constexpr int kTile = 128, kDepth = 8, kSide = 16, kEach = 8, kThreads = kSide * kSide;

// Four elements of the tile: kAlongDepth says which index lies together in memory. Zeros outside.
template <bool kAlongDepth>
__device__ inline void fetch(Matrix a, int64_t row0, int64_t depth0, int64_t rows, int64_t depths,
                             float (&four)[4]) {
  // Along the depth: two threads a row. Along the rows: 32 threads a depth.
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = row0 + (kAlongDepth ? thread / 2 : thread % 32 * 4);
  const int64_t depth = depth0 + (kAlongDepth ? thread % 2 * 4 : thread / 32);
  const float* from = a.data + row * a.row + depth * a.column;
  const bool inside = kAlongDepth ? row < rows && depth + 4 <= depths
                                  : depth < depths && row + 4 <= rows;
  if (inside && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool there = kAlongDepth ? row < rows && depth + i < depths
                                   : depth < depths && row + i < rows;
    four[i] = there ? from[i] : 0.0f;
  }
}
template <bool kAlongDepth>
__device__ inline void keep(float (&tile)[kDepth][kTile + 4], const float (&four)[4]) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (kAlongDepth) tile[thread % 2 * 4 + i][thread / 2] = four[i];
    else tile[thread / 32][thread % 32 * 4 + i] = four[i];
  }
}

// finish(batch, row, column, sum) for each element of a (m x k) times b (k x n).
template <bool kAAlongDepth, bool kBAlongDepth, class Finish>
__global__ void __launch_bounds__(kThreads)
    simt_product(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, Finish finish) {
  __shared__ float tile_a[2][kDepth][kTile + 4], tile_b[2][kDepth][kTile + 4];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile,
                column0 = static_cast<int64_t>(blockIdx.x) * kTile, batch = blockIdx.z;
  a.data += batch * a.batch;
  b.data += batch * b.batch;
  const Matrix b_turned{b.data, b.column, b.row, b.batch};
  const int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  float sum[kEach][kEach] = {}, next_a[4], next_b[4];
  fetch<kAAlongDepth>(a, row0, 0, m, k, next_a);
  fetch<kBAlongDepth>(b_turned, column0, 0, n, k, next_b);
  keep<kAAlongDepth>(tile_a[0], next_a);
  keep<kBAlongDepth>(tile_b[0], next_b);
  __syncthreads();
  int now = 0;
  for (int64_t l = 0; l < k; l += kDepth, now ^= 1) {
    const bool more = l + kDepth < k;
    if (more) {
      fetch<kAAlongDepth>(a, row0, l + kDepth, m, k, next_a);
      fetch<kBAlongDepth>(b_turned, column0, l + kDepth, n, k, next_b);
    }
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      float fa[kEach], fb[kEach];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto qa = *reinterpret_cast<const float4*>(&tile_a[now][depth][half * 64 + ty * 4]);
        const auto qb = *reinterpret_cast<const float4*>(&tile_b[now][depth][half * 64 + tx * 4]);
        fa[half * 4] = qa.x, fa[half * 4 + 1] = qa.y, fa[half * 4 + 2] = qa.z,
                 fa[half * 4 + 3] = qa.w;
        fb[half * 4] = qb.x, fb[half * 4 + 1] = qb.y, fb[half * 4 + 2] = qb.z,
                 fb[half * 4 + 3] = qb.w;
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(fa[i], fb[j], sum[i][j]);
    }
    if (more) {
      keep<kAAlongDepth>(tile_a[now ^ 1], next_a);
      keep<kBAlongDepth>(tile_b[now ^ 1], next_b);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + i / 4 * 64 + ty * 4 + i % 4,
                    column = column0 + j / 4 * 64 + tx * 4 + j % 4;
      if (row < m && column < n) finish(batch, row, column, sum[i][j]);
    }
}

// kAAlong: a's rows lie together in memory (else its columns do); kBAlong: b's columns do.
template <bool kAAlong, bool kBAlong, class Finish>
void multiply(int64_t batches, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
              cudaStream_t stream, Finish finish) {
  const dim3 grid(blocks_of(n, kTile), blocks_of(m, kTile), static_cast<unsigned>(batches));
  simt_product<kAAlong, kBAlong><<<grid, kThreads, 0, stream>>>(m, n, k, a, b, finish);
}

// The finish that stores rows of n columns.
struct Store {
  float* y;
  int64_t n, batch;
  __device__ void operator()(int64_t b, int64_t row, int64_t column, float sum) const {
    y[b * batch + row * n + column] = sum;
  }
};

}  // namespace
