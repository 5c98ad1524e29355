// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three tensor products stand for one of float32; tiles arrive while others are multiplied."}
//
// Y[b] = softmax(X[b] W[b]) on the tensor cores, within the tolerance of float32.
#include "entry.h"

// Tile of a block: rows, columns, depth.
// sculler:tune TILE_M in {64,128}
#ifndef TILE_M
#define TILE_M 128
#endif
// sculler:tune TILE_N in {64,128}
#ifndef TILE_N
#define TILE_N 128
#endif
// sculler:tune TILE_K in {16,32}
#ifndef TILE_K
#define TILE_K 32
#endif
// Tiles in shared memory: one is multiplied while the others arrive.
// sculler:tune STAGES in {2,3,4}
#ifndef STAGES
#define STAGES 3
#endif
// Warps of a block, down and across the tile.
// sculler:tune WARPS_M in {2,4}
#ifndef WARPS_M
#define WARPS_M 2
#endif
// sculler:tune WARPS_N in {2,4}
#ifndef WARPS_N
#define WARPS_N 4
#endif
// Three products of TF32 (0); of bfloat16 (1) arguments of the exponential are not right enough.
// sculler:tune PRODUCT in {0,1}
#ifndef PRODUCT
#define PRODUCT 0
#endif
#include "split.h"

namespace {
// EVOLVE-BLOCK-START
// Twice the product, once the output: the first one keeps of each row of each warp's part only the
// maximum and the sum of exponentials.
constexpr int kPart = TILE_N / WARPS_N;  // columns of a warp
int64_t parts_of(int64_t n) { return blocks_of(n, TILE_N) * int64_t{WARPS_N}; }
// Floats between the two: a pair a part, and a pair a row.
int64_t tiles_space(int64_t batches, int64_t m, int64_t n) {
  return batches * m * (parts_of(n) + 1) * 2;
}

__device__ inline float2 merged(float2 a, float2 b) {
  const float most = fmaxf(a.x, b.x);
  return make_float2(most, a.y * __expf(a.x - most) + b.y * __expf(b.x - most));
}

struct KeepParts {
  float2* parts;  // [batch][row][part]
  int64_t count;
  __device__ void operator()(int64_t batch, int64_t row0, int64_t column0, int64_t m, int64_t n,
                             const Sums& sums) const {
    float2 of[kRowsOf16][2];
    for (auto& pair : of)
      for (auto& one : pair) one = make_float2(-1e30f, 0.0f);
    each_pair(row0, column0, [&](int i, int j, int e, int64_t, int64_t column) {
      float2& to = of[i][e / 2];
      if (column < n) to.x = fmaxf(to.x, sums[i][j][e]);
      if (column + 1 < n) to.x = fmaxf(to.x, sums[i][j][e + 1]);
    });
    each_pair(row0, column0, [&](int i, int j, int e, int64_t, int64_t column) {
      float2& to = of[i][e / 2];
      if (column < n) to.y += __expf(sums[i][j][e] - to.x);
      if (column + 1 < n) to.y += __expf(sums[i][j][e + 1] - to.x);
    });
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = 0; i < kRowsOf16; ++i)
      for (int half = 0; half < 2; ++half) {
        float2 one = of[i][half];
        for (int far = 1; far < 4; far *= 2)
          one = merged(one, make_float2(__shfl_xor_sync(0xffffffffu, one.x, far),
                                        __shfl_xor_sync(0xffffffffu, one.y, far)));
        const int64_t row = row0 + i * 16 + half * 8 + lane / 4;
        if (lane % 4 == 0 && row < m) parts[(batch * m + row) * count + column0 / kPart] = one;
      }
  }
};

// A warp a row: (maximum, 1 / sum).
__global__ void __launch_bounds__(256)
    merge_parts(const float2* parts, float2* rows, int64_t n_rows, int64_t count) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= n_rows) return;
  float2 all = make_float2(-1e30f, 0.0f);
  for (int64_t p = threadIdx.x % 32; p < count; p += 32) all = merged(all, parts[row * count + p]);
  for (int far = 16; far > 0; far /= 2)
    all = merged(all, make_float2(__shfl_xor_sync(0xffffffffu, all.x, far),
                                  __shfl_xor_sync(0xffffffffu, all.y, far)));
  if (threadIdx.x % 32 == 0) rows[row] = make_float2(all.x, 1.0f / all.y);
}

struct Quotient {
  const float2* rows;
  int64_t m;
  __device__ float operator()(int64_t batch, int64_t row, int64_t, float sum) const {
    const float2 of = __ldg(rows + batch * m + row);
    return __expf(sum - of.x) * of.y;
  }
};

int run(const Call& call) {
  const int64_t batches = call.dim(0), m = call.dim(1), n = call.dim(2), k = call.dim(3);
  const Matrix x{call.buffer(0), k, 1, m * k}, w{call.buffer(1), n, 1, k * n};
  auto* const parts = reinterpret_cast<float2*>(call.space);
  const int64_t count = parts_of(n);
  float2* const rows = parts + batches * m * count;
  if (!multiply<true, false>(batches, m, n, k, x, w, call.stream, KeepParts{parts, count}))
    return SCULLER_ERROR;
  merge_parts<<<blocks_of(batches * m, 8), 256, 0, call.stream>>>(parts, rows, batches * m, count);
  if (!multiply<true, false>(batches, m, n, k, x, w, call.stream,
                             StoreRows<Quotient>{call.buffer(2), n, m * n, {rows, m}}))
    return SCULLER_ERROR;
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, tiles_space(problem->dim[0], problem->dim[1], problem->dim[2]), state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file tensor.h from ../../shared
// sculler:file split.h from ../../shared
