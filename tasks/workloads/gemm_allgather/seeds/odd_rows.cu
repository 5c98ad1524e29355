// sculler:directive {"backend":"lsa","issuer":"warp","placement":"tile_fused","sync":"global","granularity":2,"why":"The plainest correct program for any N: a warp owns a row of C and stores it element by element, since rows of odd length start at addresses that no wider store may use."}
//
// Slow on purpose, and right for every size: no tiling, no alignment. Neighbouring rows of C meet within one 4-byte word
// and are written by different warps, which is no race.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

#include "problem.h"

// sculler:tune WARPS in {1,2,4,8}
#ifndef WARPS
#define WARPS 4
#endif

namespace {

struct Peers {
  __nv_bfloat16* c[GA_MAX_RANKS];
};

// EVOLVE-BLOCK-START
__global__ void multiply_rows(const __nv_bfloat16* a, const __nv_bfloat16* b, Peers peers,
                              ga_shape shape) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
  if (row >= shape.rows) return;
  for (int64_t column = threadIdx.x % 32; column < shape.n; column += 32) {
    float sum = 0.0f;
    for (int64_t k = 0; k < shape.k; ++k)
      sum = fmaf(__bfloat162float(a[row * shape.k + k]), __bfloat162float(b[column * shape.k + k]),
                 sum);
    const __nv_bfloat16 value = __float2bfloat16_rn(sum);
    for (int r = 0; r < shape.n_ranks; ++r)
      peers.c[r][(shape.first_row + row) * shape.n + column] = value;
  }
}
// EVOLVE-BLOCK-END

__global__ void closing_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  std::vector<ga_buffers> sets;
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    st->sets.push_back(buffers);
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  Peers peers{};
  for (int r = 0; r < st->shape.n_ranks; ++r) peers.c[r] = static_cast<__nv_bfloat16*>(buffers.c[r]);
  const auto grid = static_cast<unsigned>((st->shape.rows + WARPS - 1) / WARPS);
  multiply_rows<<<grid, 32 * WARPS, 0, stream>>>(static_cast<const __nv_bfloat16*>(buffers.a),
                                                 static_cast<const __nv_bfloat16*>(buffers.b),
                                                 peers, st->shape);
  GA_TRY(cudaGetLastError());
  closing_barrier<<<1, 32, 0, stream>>>(st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  delete st;
  return SCULLER_OK;
}
