// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three fp16 products of a warp group stand for one of float32; a warp copies tiles ahead."}
//
// Y = X W + (X A) B on Hopper's tensor cores, within the tolerance of float32.

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
// One product of [X | T] and [W ; B], T = X A. T is not known when X is scaled, but its sums are: a row
// of X and a column of A are at most 2^15, so those of T times 2^-q are, where 2^q = 2^15 K or more.
struct Plan {
  Factor x, a, w;
  float* sums;  // of T, of each part of the depth
  int splits;
  float power;  // 2^q
  Product low, product;
  bool make(const sculler_problem& problem, Room& room) {
    const int64_t m = problem.dim[0], n = problem.dim[1], k = problem.dim[2], l = problem.dim[3];
    x = take_factor(room, 1, m, k + l, true);
    a = take_factor(room, 1, k, l, false);
    w = take_factor(room, 1, k + l, n, false);
    w.tail = l;
    splits = k >= 1024 ? 4 : 1;
    sums = room.take<float>(splits * m * l);
    power = 32768.0f;
    while (power < 32768.0f * static_cast<float>(k)) power *= 2;
    return make_product<true>(room, left(k), a, low, splits) &&
           make_product<true>(room, x, w, product);
  }
  [[nodiscard]] Factor left(int64_t k) const {
    Factor out = x;
    out.inner = k;
    return out;
  }
};

// The sums of a tile as they are.
struct StoreSums {
  Output to;
  __device__ void operator()(const Place& p, const float (&sums)[kSums]) const {
    const bool wide = to.wide();
    each_four<false>(p, {}, sums, [&](int row, int column, const float(&v)[4]) {
      to.store<false>(wide, p, row, column, v);
    });
  }
};
// T behind X.
__global__ void __launch_bounds__(256)
    halve_sums(Factor x, int64_t k, const float* sums, int64_t m, int64_t l, int splits, float scale) {
  behind_previous();
  const int64_t at = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (at >= m * l) return;
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += sums[s * m * l + at];
  __half* const high = x.halves + at / l * x.pitch + k + at % l;
  halve(sum, scale, high[0], high[x.outer * x.pitch]);
}
// W, and below it the rows of B, each with what T is short of.
struct Stacked {
  static constexpr bool kInput = false;
  AsTheyAre w, b;
  const float* inverse_a;
  int64_t k;
  float power;
  template <bool kWide, int kN>
  __device__ void load(int64_t, int64_t i, int64_t j, int64_t there, float (&v)[kN]) const {
    if (i < k) {
      w.load<kWide>(0, i, j, there, v);
      return;
    }
    b.load<kWide>(0, i - k, j, there, v);
    // Not by __ldg, which the compiler may move before the wait for the kernel that writes it.
    const float factor = there > 0 ? inverse_a[i - k] * power : 0.0f;
#pragma unroll
    for (int e = 0; e < kN; ++e) v[e] *= factor;
  }
  [[nodiscard]] bool wide() const { return w.wide() && b.wide(); }
};

int run(const Call& call, const Plan& plan) {
  Queue queue{call.stream, OVERLAP != 0};
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2), l = call.dim(3);
  halves_of_rows(plan.left(k), AsTheyAre{call.buffer(0), k, 0}, queue);
  halves_of_columns(plan.a, AsTheyAre{call.buffer(2), l, 0}, queue);
  multiply<true>(plan.low, queue, StoreSums{{plan.sums, l, m * l}});
  queue.launch(halve_sums, blocks_of(m * l, 256), 256, 0, plan.x, k, plan.sums, m, l, plan.splits,
               1.0f / plan.power);
  const Stacked stacked{{call.buffer(1), n, 0}, {call.buffer(3), n, 0}, plan.a.inverse, k,
                        plan.power};
  halves_of_columns(plan.w, stacked, queue);
  multiply<true>(plan.product, queue,
                 StoreTile<AsItIs>{{call.buffer(4), n, 0}, scales_of(plan.x, plan.w), {}});
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
