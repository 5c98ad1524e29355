// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three fp16 products of a warp group stand for one of float32; a warp copies tiles ahead."}
//
// Y[b] = X[b] W[b] on Hopper's tensor cores, within the tolerance of float32.

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
    const int64_t batches = problem.dim[0], m = problem.dim[1], n = problem.dim[2],
                  k = problem.dim[3];
    x = take_factor(room, batches, m, k, true);
    w = take_factor(room, batches, k, n, false);
    return make_product<true>(room, x, w, product);
  }
};

int run(const Call& call, const Plan& plan) {
  Queue queue{call.stream, OVERLAP != 0};
  const int64_t m = call.dim(1), n = call.dim(2), k = call.dim(3);
  halves_of_rows(plan.x, AsTheyAre{call.buffer(0), k, m * k}, queue);
  halves_of_columns(plan.w, AsTheyAre{call.buffer(1), n, k * n}, queue);
  multiply<true>(plan.product, queue,
                 StoreTile<AsItIs>{{call.buffer(2), n, m * n}, scales_of(plan.x, plan.w), {}});
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
