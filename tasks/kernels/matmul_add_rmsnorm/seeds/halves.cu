// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three fp16 products of a warp group stand for one of float32; a warp copies tiles ahead."}
//
// Y = rmsnorm(X W + Z) G on Hopper's tensor cores, within the tolerance of float32.

// Columns of a block's tile, which has 128 rows.
// sculler:tune TILE_N in {128,256}
#ifndef TILE_N
#define TILE_N 256
#endif
// Tiles in shared memory: one is multiplied while the others arrive.
// sculler:tune STAGES in {2,3,4,6}
#ifndef STAGES
#define STAGES 4
#endif
// Blocks that fetch W together.
// sculler:tune CLUSTER in {1,2}
#ifndef CLUSTER
#define CLUSTER 2
#endif
// Blocks of a multiprocessor; two have TILE_N 128 and three stages.
// sculler:tune BLOCKS in {1,2}
#ifndef BLOCKS
#define BLOCKS 1
#endif
// Depth after which sums are added outside of the tensor cores, which round towards zero; 0: never.
// sculler:tune DEPTH in {0,1024,2048,4096}
#ifndef DEPTH
#define DEPTH 0
#endif
// 1: two stages are one that holds both halves of both factors; each is copied once.
// sculler:tune JOINT in {0,1}
#ifndef JOINT
#define JOINT 0
#endif
// Kernels are brought to the multiprocessors while the ones before them end.
// sculler:tune OVERLAP in {0,1}
#ifndef OVERLAP
#define OVERLAP 1
#endif
#include "entry.h"
#include "halves.h"

namespace {
// EVOLVE-BLOCK-START
struct Plan {
  Factor x, w;
  Product product;
  bool make(const sculler_problem& problem, Room& room) {
    const int64_t m = problem.dim[0], n = problem.dim[1], k = problem.dim[2];
    x = take_factor(room, 1, m, k, true);
    w = take_factor(room, 1, k, n, false);
    return make_product<true>(room, x, w, product);
  }
};

struct Plus {
  AsTheyAre z;
  bool wide;
  __device__ void operator()(const Place& p, int row, int column, float (&v)[4]) const {
    float w[4];
    if (wide) z.load<true>(0, row, column, p.n - column, w);
    else z.load<false>(0, row, column, p.n - column, w);
#pragma unroll
    for (int e = 0; e < 4; ++e) v[e] += w[e];
  }
};

// A block a row, in place; a row is read once where it has at most 128 * 4 * kPieces numbers.
constexpr int kPieces = 6;
template <bool kWide>
__global__ void __launch_bounds__(kRowHalving)
    norm_rows(float* y, const float* g, int64_t n, float epsilon) {
  behind_previous();
  float* const row = y + int64_t{gridDim.x - 1 - blockIdx.x} * n;
  const auto load = [&](int64_t j) {
    if (kWide && j + 4 <= n) return *reinterpret_cast<const float4*>(row + j);
    return float4{j < n ? row[j] : 0.0f, j + 1 < n ? row[j + 1] : 0.0f,
                  j + 2 < n ? row[j + 2] : 0.0f, j + 3 < n ? row[j + 3] : 0.0f};
  };
  const auto column = [](int piece) { return (int64_t{piece} * kRowHalving + threadIdx.x) * 4; };
  float4 kept[kPieces];
  float sum = 0;
  const auto add = [&](float4 v) { sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w); };
#pragma unroll
  for (int p = 0; p < kPieces; ++p) kept[p] = load(column(p));
#pragma unroll
  for (int p = 0; p < kPieces; ++p) add(kept[p]);
  const auto pieces = static_cast<int>((n + kRowHalving * 4 - 1) / (kRowHalving * 4));
  for (int p = kPieces; p < pieces; ++p) add(load(column(p)));
  const float scale = 1.0f / sqrtf(sum_of_block(sum) / static_cast<float>(n) + epsilon);
  const auto store = [&](int64_t j, float4 v) {
    if (j >= n) return;
    float gain[4];
    load_some<kWide>(g + j, n - j, gain);
    v = {v.x * scale * gain[0], v.y * scale * gain[1], v.z * scale * gain[2],
         v.w * scale * gain[3]};
    if (kWide && j + 4 <= n) {
      __stcs(reinterpret_cast<float4*>(row + j), v);
      return;
    }
    const float each[4] = {v.x, v.y, v.z, v.w};
    for (int e = 0; e < 4 && j + e < n; ++e) row[j + e] = each[e];
  };
#pragma unroll
  for (int p = 0; p < kPieces; ++p) store(column(p), kept[p]);
  for (int p = kPieces; p < pieces; ++p) store(column(p), load(column(p)));
}

int run(const Call& call, const Plan& plan) {
  Queue queue{call.stream, OVERLAP != 0};
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  float* const y = call.buffer(4);
  const float* g = call.buffer(3);
  const AsTheyAre z{call.buffer(2), n, 0};
  halves_of_rows(plan.x, AsTheyAre{call.buffer(0), k, 0}, queue);
  halves_of_columns(plan.w, AsTheyAre{call.buffer(1), n, 0}, queue);
  multiply<true>(plan.product, queue,
                 StoreTile<Plus, false>{{y, n, 0}, scales_of(plan.x, plan.w), {z, z.wide()}});
  // 33 MB at the published size, the last rows first: most are still in the second-level cache.
  const bool wide = AsTheyAre{y, n, 0}.wide() && AsTheyAre{g, n, 0}.wide();
  queue.launch(wide ? norm_rows<true> : norm_rows<false>, static_cast<unsigned>(m), kRowHalving, 0, y,
               g, n, 1e-5f);
  return queue.end();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_planned<Plan>(rank, problem, pool, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(planned_call<Plan>(state, problem, set), plan_of<Plan>(state));
}

extern "C" int sculler_teardown(void* state) { return end_planned<Plan>(state); }
// sculler:file entry.h from ../../shared
// sculler:file hopper.h from ../../shared
// sculler:file wgmma.h from ../../shared
// sculler:file halves.h from ../../shared
