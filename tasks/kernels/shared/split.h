// A float32 product on the tensor cores: each factor is the sum of two of lower precision, and
//   high * high + high * low + low * high
// are three tensor products. PRODUCT 0: TF32 (a relative error of about 1e-7), 1: bfloat16 (4e-6,
// twice as fast). Tensor cores round their sums towards zero, which over a long sum is a bias, so
// the sums of one tile of depth are added outside of them, rounded to nearest.
// Tunables are the first file's: TILE_M, TILE_N, TILE_K, STAGES, WARPS_M, WARPS_N, PRODUCT.
#pragma once

#include <cstdint>

#include "tensor.h"

namespace {

// EVOLVE-BLOCK-START
constexpr int kSplitThreads = WARPS_M * WARPS_N * 32;
constexpr int kRowsOf16 = TILE_M / WARPS_M / 16, kColumnsOf8 = TILE_N / WARPS_N / 8;
constexpr int kStep = PRODUCT == 0 ? 8 : 16;  // depth of an instruction
static_assert(TILE_M % (WARPS_M * 16) == 0 && TILE_N % (WARPS_N * 8) == 0 && TILE_K % 16 == 0);

// A tile of kRows rows and TILE_K of depth, as it lies in memory: rows of depth (kAlong), or depths
// of rows. The padding keeps a fragment's loads in different banks.
template <bool kAlong, int kRows>
struct Tile {
  static constexpr int kOuter = kAlong ? kRows : TILE_K, kInner = kAlong ? TILE_K : kRows;
  static constexpr int kStride = kInner + (kAlong == (PRODUCT == 0) ? 4 : 8);
  static constexpr int kFloats = kOuter * kStride;
};

// kWide: every row of the matrix in memory begins at a multiple of 16 bytes.
template <bool kAlong, int kRows, bool kWide>
__device__ inline void fetch(float* tile, const Matrix& a, int64_t row0, int64_t depth0,
                             int64_t rows, int64_t depths) {
  using T = Tile<kAlong, kRows>;
  constexpr int kPiece = kWide ? 4 : 1, kPieces = T::kInner / kPiece;
  const float* from = a.data + row0 * a.row + depth0 * a.column;
  const int64_t next = kAlong ? a.row : a.column;
  const int64_t outer = kAlong ? rows - row0 : depths - depth0,
                inner = kAlong ? depths - depth0 : rows - row0;
#pragma unroll 4
  for (int piece = static_cast<int>(threadIdx.x); piece < T::kOuter * kPieces;
       piece += kSplitThreads) {
    const int o = piece / kPieces, i = piece % kPieces * kPiece;
    const int64_t there = o < outer ? inner - i : 0;
    const int count = there >= kPiece ? kPiece : there > 0 ? static_cast<int>(there) : 0;
    copy_async<kWide>(tile + o * T::kStride + i, count > 0 ? from + o * next + i : a.data,
                      count * 4);
  }
}

// What a lane holds of row `row` and the first or second half of an instruction's depth.
template <bool kAlong, int kRows>
__device__ inline Halves fragment(const float* tile, int row, int depth, int half) {
  constexpr int kStride = Tile<kAlong, kRows>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 4;
  if constexpr (PRODUCT == 0) {
    const int k = depth + lane + half * 4;
    return split_tf32(tile[kAlong ? row * kStride + k : k * kStride + row]);
  } else {
    const int k = depth + lane * 2 + half * 8;
    if constexpr (kAlong) {
      const float2 both = *reinterpret_cast<const float2*>(tile + row * kStride + k);
      return split_bf16(both.x, both.y);
    }
    return split_bf16(tile[k * kStride + row], tile[(k + 1) * kStride + row]);
  }
}

__device__ inline void tensor_product(float (&c)[4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[2]) {
  if constexpr (PRODUCT == 0) mma_tf32(c, a, b);
  else mma_bf16(c, a, b);
}

using Sums = float[kRowsOf16][kColumnsOf8][4];

// sums += the products of one tile, for the warp whose part begins at (row0, column0).
template <bool kAAlong, bool kBAlong>
__device__ inline void multiply_tile(const float* tile_a, const float* tile_b, int row0,
                                     int column0, Sums& sums) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4;
  Sums part = {};
#pragma unroll
  for (int depth = 0; depth < TILE_K; depth += kStep) {
    uint32_t a[2][kRowsOf16][4], b[2][kColumnsOf8][2];
#pragma unroll
    for (int i = 0; i < kRowsOf16; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Halves x = fragment<kAAlong, TILE_M>(tile_a, row0 + i * 16 + r % 2 * 8 + group,
                                                   depth, r / 2);
        a[0][i][r] = x.high;
        a[1][i][r] = x.low;
      }
#pragma unroll
    for (int j = 0; j < kColumnsOf8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const Halves x = fragment<kBAlong, TILE_N>(tile_b, column0 + j * 8 + group, depth, r);
        b[0][j][r] = x.high;
        b[1][j][r] = x.low;
      }
    // The small ones first.
#pragma unroll
    for (int which = 0; which < 3; ++which)
#pragma unroll
      for (int i = 0; i < kRowsOf16; ++i)
#pragma unroll
        for (int j = 0; j < kColumnsOf8; ++j)
          tensor_product(part[i][j], a[which == 0][i], b[which == 1][j]);
  }
#pragma unroll
  for (int i = 0; i < kRowsOf16; ++i)
#pragma unroll
    for (int j = 0; j < kColumnsOf8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] += part[i][j][e];
}

// Two products of one shape are summed; the second may have depth 0.
struct Terms {
  Matrix a, b;  // b as it is multiplied: b.row from one depth to the next
  int64_t k;
};

template <bool kAAlong, bool kBAlong, bool kWide, class Finish>
__global__ void __launch_bounds__(kSplitThreads)
    split_product(int64_t m, int64_t n, Terms first, Terms second, Finish finish) {
  using TileA = Tile<kAAlong, TILE_M>;
  using TileB = Tile<kBAlong, TILE_N>;
  constexpr int kStage = TileA::kFloats + TileB::kFloats;
  extern __shared__ float4 shared4[];
  float* const shared = reinterpret_cast<float*>(shared4);

  // Eight rows of tiles at a time, so that what neighbours read stays in the second-level cache.
  constexpr int64_t kGroup = 8;
  const int64_t down = (m + TILE_M - 1) / TILE_M, across = (n + TILE_N - 1) / TILE_N;
  const int64_t group0 = blockIdx.x / (kGroup * across) * kGroup,
                rows = down - group0 < kGroup ? down - group0 : kGroup,
                within = blockIdx.x % (kGroup * across);
  const int64_t row0 = (group0 + within % rows) * TILE_M, column0 = within / rows * TILE_N;

  const int64_t batch = blockIdx.y;
  const auto placed = [&](Terms t) {
    t.a.data += batch * t.a.batch;
    t.b.data += batch * t.b.batch;
    t.b = {t.b.data, t.b.column, t.b.row, 0};  // rows of the tile are columns of b
    return t;
  };
  first = placed(first);
  second = placed(second);
  const int64_t tiles0 = (first.k + TILE_K - 1) / TILE_K,
                tiles = tiles0 + (second.k + TILE_K - 1) / TILE_K;
  const auto fetch_tile = [&](int64_t t) {
    if (t < tiles) {
      const Terms& from = t < tiles0 ? first : second;
      const int64_t depth0 = (t < tiles0 ? t : t - tiles0) * TILE_K;
      float* const stage = shared + t % STAGES * kStage;
      fetch<kAAlong, TILE_M, kWide>(stage, from.a, row0, depth0, m, from.k);
      fetch<kBAlong, TILE_N, kWide>(stage + TileA::kFloats, from.b, column0, depth0, n, from.k);
    }
    commit();
  };

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / WARPS_N * (TILE_M / WARPS_M),
            warp_column = warp % WARPS_N * (TILE_N / WARPS_N);
  Sums sums = {};
#pragma unroll
  for (int t = 0; t < STAGES - 1; ++t) fetch_tile(t);
  for (int64_t t = 0; t < tiles; ++t) {
    wait_for_all_but<STAGES - 2>();
    __syncthreads();
    fetch_tile(t + STAGES - 1);
    const float* stage = shared + t % STAGES * kStage;
    multiply_tile<kAAlong, kBAlong>(stage, stage + TileA::kFloats, warp_row, warp_column, sums);
  }
  finish(batch, row0 + warp_row, column0 + warp_column, m, n, sums);
}

// f(i, j, e, row, column) for each of a lane's sums; e and e + 1 (e even) are neighbours in a row.
template <class F>
__device__ inline void each_pair(int64_t row0, int64_t column0, F f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kRowsOf16; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kColumnsOf8; ++j)
        f(i, j, half * 2, row0 + i * 16 + half * 8 + lane / 4, column0 + j * 8 + lane % 4 * 2);
}

// y[batch][row][column] = value(batch, row, column, sum).
template <class Value>
struct StoreRows {
  float* y;
  int64_t row_floats, batch_floats;
  Value value;
  __device__ void operator()(int64_t batch, int64_t row0, int64_t column0, int64_t m, int64_t n,
                             const Sums& sums) const {
    const bool even = row_floats % 2 == 0 && reinterpret_cast<uintptr_t>(y) % 8 == 0;
    each_pair(row0, column0, [&](int i, int j, int e, int64_t row, int64_t column) {
      if (row >= m || column >= n) return;
      float* const to = y + batch * batch_floats + row * row_floats + column;
      const float v = value(batch, row, column, sums[i][j][e]);
      if (column + 1 >= n) {
        *to = v;
        return;
      }
      const float w = value(batch, row, column + 1, sums[i][j][e + 1]);
      if (even) *reinterpret_cast<float2*>(to) = make_float2(v, w);
      else to[0] = v, to[1] = w;
    });
  }
};
struct AsItIs {
  __device__ float operator()(int64_t, int64_t, int64_t, float sum) const { return sum; }
};
// EVOLVE-BLOCK-END

inline bool wide(const Matrix& a) {
  const int64_t across = a.column == 1 ? a.row : a.column;
  return reinterpret_cast<uintptr_t>(a.data) % 16 == 0 && across % 4 == 0 && a.batch % 4 == 0;
}

// a (m x k) times b (k x n) of each of a batch, and a second such product added to it. kAAlong: a's
// rows lie together in memory (else its columns do); kBAlong: b's columns do.
template <bool kAAlong, bool kBAlong, class Finish>
bool multiply(int64_t batches, int64_t m, int64_t n, Terms first, Terms second,
              cudaStream_t stream, Finish finish) {
  constexpr int kBytes =
      STAGES * (Tile<kAAlong, TILE_M>::kFloats + Tile<kBAlong, TILE_N>::kFloats) * 4;
  const bool all_wide = wide(first.a) && wide(first.b) &&
                        (second.k == 0 || (wide(second.a) && wide(second.b)));
  const dim3 grid(blocks_of(m, TILE_M) * blocks_of(n, TILE_N), static_cast<unsigned>(batches));
  auto* const kernel = all_wide ? split_product<kAAlong, kBAlong, true, Finish>
                                : split_product<kAAlong, kBAlong, false, Finish>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) !=
      cudaSuccess)
    return false;
  kernel<<<grid, kSplitThreads, kBytes, stream>>>(m, n, first, second, finish);
  return true;
}
template <bool kAAlong, bool kBAlong, class Finish>
bool multiply(int64_t batches, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
              cudaStream_t stream, Finish finish) {
  return multiply<kAAlong, kBAlong>(batches, m, n, Terms{a, b, k}, Terms{a, b, 0}, stream, finish);
}

}  // namespace
