// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Scores never leave the multiprocessor: keys and values stream by, the softmax is kept up to date."}
//
// Attention in one kernel on the tensor cores: a warp has 16 queries; for each tile of keys scores,
// a new maximum, and the products with V, which are added to what was kept, scaled. Products are
// three of TF32, so that arguments of the exponential are right to float32.
#include <cmath>

#include "entry.h"

// Warps of a block, 16 queries each.
// sculler:tune WARPS in {4,8}
#ifndef WARPS
#define WARPS 8
#endif
// Keys of a tile.
// sculler:tune KEYS in {32,64}
#ifndef KEYS
#define KEYS 32
#endif
// Tiles of keys and values in shared memory.
// sculler:tune STAGES in {1,2}
#ifndef STAGES
#define STAGES 2
#endif
#include "tensor.h"

namespace {
// EVOLVE-BLOCK-START
constexpr int kThreads = WARPS * 32, kQueries = WARPS * 16;

struct Heads {
  const float *q, *k, *v;
  float* y;
  int64_t n, kh, qh, d;
  float scale;  // of scores, times log2 e
};

// Rows first to first + kRows of a matrix of n rows, `next` floats apart, d columns of kHead.
template <int kRows, int kHead, bool kWide>
__device__ inline void fetch(float* tile, const float* from, int64_t first, int64_t n, int64_t next,
                             int64_t d) {
  constexpr int kPiece = kWide ? 4 : 1, kPieces = kHead / kPiece;
#pragma unroll 4
  for (int piece = static_cast<int>(threadIdx.x); piece < kRows * kPieces; piece += kThreads) {
    const int row = piece / kPieces, column = piece % kPieces * kPiece;
    const bool there = first + row < n && column < d;
    copy_async<kWide>(tile + row * (kHead + 4) + column,
                      there ? from + (first + row) * next + column : from, there ? kPiece * 4 : 0);
  }
}

template <int kHead, bool kWide>
__global__ void __launch_bounds__(kThreads) flash(Heads of) {
  constexpr int kStride = kHead + 4, kTile = KEYS * kStride;
  extern __shared__ float4 shared4[];
  float* const queries = reinterpret_cast<float*>(shared4);
  float* const stages = queries + kQueries * kStride;  // each: keys, values
  const int64_t b = blockIdx.y / of.qh, head = blockIdx.y % of.qh, group = head / (of.qh / of.kh);
  const int64_t query0 = static_cast<int64_t>(blockIdx.x) * kQueries;
  const float* k = of.k + (b * of.n * of.kh + group) * of.d;
  const float* v = of.v + (b * of.n * of.kh + group) * of.d;
  const int64_t tiles = (of.n + KEYS - 1) / KEYS;
  const auto fetch_tile = [&](int64_t t) {
    if (t < tiles) {
      float* const to = stages + t % STAGES * 2 * kTile;
      fetch<KEYS, kHead, kWide>(to, k, t * KEYS, of.n, of.kh * of.d, of.d);
      fetch<KEYS, kHead, kWide>(to + kTile, v, t * KEYS, of.n, of.kh * of.d, of.d);
    }
    commit();
  };
  fetch<kQueries, kHead, kWide>(queries, of.q + (b * of.n * of.qh + head) * of.d, query0, of.n,
                                of.qh * of.d, of.d);
#pragma unroll
  for (int t = 0; t < STAGES - 1; ++t) fetch_tile(t);

  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t4 = lane % 4;
  const float* own = queries + (static_cast<int>(threadIdx.x) / 32 * 16 + g) * kStride;
  float out[kHead / 8][4] = {};
  float most[2] = {-1e30f, -1e30f}, sum[2] = {0.0f, 0.0f};
  for (int64_t t = 0; t < tiles; ++t) {
    if (STAGES == 1) fetch_tile(t);
    wait_for_all_but<STAGES == 1 ? 0 : STAGES - 2>();
    __syncthreads();
    if (STAGES > 1) fetch_tile(t + STAGES - 1);
    const float* keys = stages + t % STAGES * 2 * kTile;
    const float* values = keys + kTile;
    float score[KEYS / 8][4] = {};
#pragma unroll 2
    for (int depth = 0; depth < kHead; depth += 8) {
      uint32_t a[2][4];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Halves x = split_tf32(own[r % 2 * 8 * kStride + depth + r / 2 * 4 + t4]);
        a[0][r] = x.high;
        a[1][r] = x.low;
      }
      uint32_t of_k[2][KEYS / 8][2];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const Halves x = split_tf32(keys[(j * 8 + g) * kStride + depth + r * 4 + t4]);
          of_k[0][j][r] = x.high;
          of_k[1][j][r] = x.low;
        }
#pragma unroll
      for (int which = 0; which < 3; ++which)
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j)
          mma_tf32(score[j], a[which == 0], of_k[which == 1][j]);
    }
    // A lane's scores: rows g and g + 8, keys 8 j + 2 t4 and the next one.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = most[half];
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& s = score[j][half * 2 + e];
          s = t * KEYS + j * 8 + t4 * 2 + e < of.n ? s : -1e30f;
          now = fmaxf(now, s);
        }
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      const float kept = exp2f((most[half] - now) * of.scale);
      most[half] = now;
      sum[half] *= kept;
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& s = score[j][half * 2 + e];
          s = exp2f((s - now) * of.scale);
          sum[half] += s;
        }
#pragma unroll
      for (int c = 0; c < kHead / 8; ++c) {
        out[c][half * 2] *= kept;
        out[c][half * 2 + 1] *= kept;
      }
    }
    // The order of the keys within eight is free: depth t4 of the instruction is key 2 t4, depth t4 +
    // 4 the next one, so that scores are its left factor as they are.
    uint32_t p[2][KEYS / 8][4];
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Halves x = split_tf32(score[j][r % 2 * 2 + r / 2]);
        p[0][j][r] = x.high;
        p[1][j][r] = x.low;
      }
#pragma unroll
    for (int c = 0; c < kHead / 8; ++c) {
      float part[4] = {};
#pragma unroll
      for (int j = 0; j < KEYS / 8; ++j) {
        uint32_t of_v[2][2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const Halves x = split_tf32(values[(j * 8 + t4 * 2 + r) * kStride + c * 8 + g]);
          of_v[0][r] = x.high;
          of_v[1][r] = x.low;
        }
#pragma unroll
        for (int which = 0; which < 3; ++which) mma_tf32(part, p[which == 0][j], of_v[which == 1]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) out[c][e] += part[e];
    }
    if (STAGES == 1) __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
    sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    const float quotient = 1.0f / sum[half];
    const int64_t row = query0 + static_cast<int>(threadIdx.x) / 32 * 16 + half * 8 + g;
    if (row >= of.n) continue;
    float* const to = of.y + (blockIdx.y * of.n + row) * of.d;
#pragma unroll
    for (int c = 0; c < kHead / 8; ++c)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = c * 8 + t4 * 2 + e;
        if (column < of.d) to[column] = out[c][half * 2 + e] * quotient;
      }
  }
}

template <int kHead>
bool launch(const Call& call, const Heads& of, int64_t batches) {
  constexpr int kBytes = (kQueries + STAGES * 2 * KEYS) * (kHead + 4) * 4;
  const bool wide = of.d % 4 == 0;
  auto* const kernel = wide ? flash<kHead, true> : flash<kHead, false>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) !=
      cudaSuccess)
    return false;
  kernel<<<dim3(blocks_of(of.n, kQueries), static_cast<unsigned>(batches * of.qh)), kThreads,
           kBytes, call.stream>>>(of);
  return true;
}

int run(const Call& call) {
  const int64_t d = call.dim(4);
  const Heads of{call.buffer(0), call.buffer(1), call.buffer(2), call.buffer(3), call.dim(1),
                 call.dim(2),    call.dim(3),    d,
                 static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(d)))};
  // A head of more than 128 does not fit beside its sums.
  if (d > 128) return SCULLER_UNSUPPORTED_PROBLEM;
  if (!(d <= 64 ? launch<64>(call, of, call.dim(0)) : launch<128>(call, of, call.dim(0))))
    return SCULLER_ERROR;
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, 0, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file tensor.h from ../../shared
