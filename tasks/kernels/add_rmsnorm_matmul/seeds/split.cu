// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Three tensor products stand for one of float32; tiles arrive while others are multiplied."}
//
// Y = (rmsnorm(X + Z) G) W on the tensor cores, within the tolerance of float32.
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
// What a product of float32 is made of: three of TF32 (0), or of bfloat16 (1), twice as fast but not
// right for all families of inputs (docs/kernels.md).
// sculler:tune PRODUCT in {0,1}
#ifndef PRODUCT
#define PRODUCT 0
#endif
#include "split.h"
#include "rows.h"

namespace {
// EVOLVE-BLOCK-START
int run(const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  each_row(m, call.stream,
           NormRow{call.buffer(0), call.buffer(2), call.buffer(3), call.space, k, 1e-5f});
  if (!multiply<true, false>(1, m, n, k, {call.space, k, 1, 0}, {call.buffer(1), n, 1, 0},
                             call.stream, StoreRows<AsItIs>{call.buffer(4), n, 0, {}}))
    return SCULLER_ERROR;
  return launched();
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, problem->dim[0] * problem->dim[2], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file rows.h from ../../shared
// sculler:file tensor.h from ../../shared
// sculler:file split.h from ../../shared
