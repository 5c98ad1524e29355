// sculler:directive {"backend":"gin","issuer":"thread","placement":"kernel_fused","sync":"global","granularity":65536,"why":"One thread a destination puts its block and counts it there; every rank waits for as many blocks as there are ranks."}
//
// Thread d of the only CTA puts to rank rank + 1 + d. Signal 0 counts the blocks that have arrived, over all runs: it is
// never reset, the target moves on.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include "problem.h"

// sculler:tune THREADS in {32,64}
#ifndef THREADS
#define THREADS 32
#endif

namespace {

// EVOLVE-BLOCK-START
__global__ void __launch_bounds__(THREADS)
    push(ncclWindow_t x, size_t x_offset, ncclWindow_t y, size_t y_offset, size_t block,
         unsigned long long arrived, ncclDevComm comm) {
  ncclGin gin(comm, 0);
  const ncclTeam world = ncclTeamWorld(comm);
  for (int d = static_cast<int>(threadIdx.x); d < world.nRanks; d += THREADS) {
    const int to = (world.rank + 1 + d) % world.nRanks;
    gin.put(world, to, y, y_offset + static_cast<size_t>(world.rank) * block, x,
            x_offset + static_cast<size_t>(to) * block, block, ncclGin_SignalInc{0});
  }
  gin.waitSignal(ncclCoopCta(), 0, arrived);
  gin.flush(ncclCoopCta());  // X may be used again when the kernel has ended
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  ncclDevComm comm;
  unsigned long long arrived = 0;  // blocks so far
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != AA_N_DIMS || rank->n_ranks > AA_MAX_RANKS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool, {}};
  ncclDevCommRequirements requirements{};
  requirements.ginForceEnable = true;  // also where all ranks are on one node
  requirements.ginSignalCount = 1;
  AA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  st->arrived += static_cast<unsigned long long>(st->rank.n_ranks);
  push<<<1, THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<ncclWindow_t>(buffer[AA_X].window), buffer[AA_X].offset,
      static_cast<ncclWindow_t>(buffer[AA_Y].window), buffer[AA_Y].offset,
      static_cast<size_t>(problem->dim[AA_DIM_M] * problem->dim[AA_DIM_N]) * sizeof(uint16_t), st->arrived, st->comm);
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
