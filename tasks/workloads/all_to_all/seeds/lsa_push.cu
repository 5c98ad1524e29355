// sculler:directive {"backend":"lsa","issuer":"cta","placement":"kernel_fused","sync":"peer","granularity":65536,"why":"One kernel stores every block straight into the peers' windows, the nearest neighbour first, and closes with one barrier among equal CTAs."}
//
// CTA b stores the same share of every block on every rank, and meets only the CTAs b of its peers at the end.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include "problem.h"

// sculler:tune CTAS in {1,4,16,64}
#ifndef CTAS
#define CTAS 4
#endif
// sculler:tune THREADS in {128,256,512}
#ifndef THREADS
#define THREADS 128
#endif

namespace {

struct Peers {
  uint16_t* y[AA_MAX_RANKS];
};

// EVOLVE-BLOCK-START
__global__ void __launch_bounds__(THREADS)
    push(const uint16_t* x, Peers peers, int rank, int n_ranks, int64_t block, ncclDevComm comm) {
  for (int d = 0; d < n_ranks; ++d) {
    const int to = (rank + 1 + d) % n_ranks;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < block; i += CTAS * THREADS)
      peers.y[to][rank * block + i] = x[to * block + i];
  }
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  ncclDevComm comm;
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != AA_N_DIMS || rank->n_ranks > AA_MAX_RANKS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool, {}};
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = CTAS;
  AA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  Peers peers{};
  for (int r = 0; r < st->rank.n_ranks; ++r) {
    peers.y[r] = static_cast<uint16_t*>(buffer[AA_Y].peer[r]);
    if (peers.y[r] == nullptr) return SCULLER_UNSUPPORTED_PROBLEM;
  }
  push<<<CTAS, THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const uint16_t*>(buffer[AA_X].ptr), peers, st->rank.rank, st->rank.n_ranks,
      problem->dim[AA_DIM_M] * problem->dim[AA_DIM_N], st->comm);
  AA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  AA_TRY(cudaDeviceSynchronize());
  AA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  delete st;
  return SCULLER_OK;
}
