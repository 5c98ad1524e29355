// sculler:directive {"backend":"hybrid","issuer":"cta","placement":"kernel_fused","sync":"peer","granularity":65536,"why":"Blocks for ranks of the own node are stored over NVLink while the network carries the others."}
//
// CTA 0 starts the puts to the other nodes, then all CTAs store to the ranks of their own. CTA b meets the CTAs b of its
// node at an LSA barrier; CTA 0 also waits until the blocks of the other nodes have been counted by signal 0, which is
// never reset.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include "problem.h"

// sculler:tune CTAS in {1,4,16}
#ifndef CTAS
#define CTAS 4
#endif
// sculler:tune THREADS in {128,256}
#ifndef THREADS
#define THREADS 128
#endif

namespace {

// EVOLVE-BLOCK-START
__global__ void __launch_bounds__(THREADS)
    push(ncclWindow_t x, size_t x_offset, ncclWindow_t y, size_t y_offset, int64_t block,
         unsigned long long arrived, ncclDevComm comm) {
  ncclGin gin(comm, 0);
  const ncclTeam world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm);
  const int first = world.rank - lsa.rank;  // of the own node
  const size_t bytes = static_cast<size_t>(block) * sizeof(uint16_t);
  if (blockIdx.x == 0) {
    for (int to = static_cast<int>(threadIdx.x); to < world.nRanks; to += THREADS) {
      if (to >= first && to < first + lsa.nRanks) continue;
      gin.put(world, to, y, y_offset + static_cast<size_t>(world.rank) * bytes, x,
              x_offset + static_cast<size_t>(to) * bytes, bytes, ncclGin_SignalInc{0});
    }
  }
  const auto* own = static_cast<const uint16_t*>(ncclGetLocalPointer(x, x_offset));
  for (int d = 0; d < lsa.nRanks; ++d) {
    const int to = (lsa.rank + 1 + d) % lsa.nRanks;
    auto* there = static_cast<uint16_t*>(ncclGetLsaPointer(y, y_offset, to));
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < block; i += CTAS * THREADS)
      there[world.rank * block + i] = own[(first + to) * block + i];
  }
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  if (blockIdx.x == 0) {
    gin.waitSignal(ncclCoopCta(), 0, arrived);
    gin.flush(ncclCoopCta());  // X may be used again when the kernel has ended
  }
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  ncclDevComm comm;
  unsigned long long arrived = 0;  // blocks of other nodes so far
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != AA_N_DIMS || rank->n_ranks > AA_MAX_RANKS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool, {}};
  ncclDevCommRequirements requirements{};
  requirements.ginForceEnable = true;
  requirements.ginSignalCount = 1;
  requirements.lsaBarrierCount = CTAS;
  AA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  st->arrived += static_cast<unsigned long long>(st->rank.n_ranks - st->comm.lsaSize);
  push<<<CTAS, THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<ncclWindow_t>(buffer[AA_X].window), buffer[AA_X].offset,
      static_cast<ncclWindow_t>(buffer[AA_Y].window), buffer[AA_Y].offset,
      problem->dim[AA_DIM_M] * problem->dim[AA_DIM_N], st->arrived, st->comm);
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
