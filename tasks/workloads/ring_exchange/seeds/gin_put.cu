// sculler:directive {"backend":"gin","issuer":"thread","placement":"kernel_fused","sync":"peer","granularity":65536,"why":"The network carries each share straight into the right neighbour's Y; a signal behind it says that it is there, so nobody meets anybody else."}
//
// CTA b owns the same share of the payload on every rank, signal b, and context b modulo the number of contexts. Signals
// are never reset: the target moves on.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include "problem.h"

// sculler:tune CTAS in {1,2,4}
#ifndef CTAS
#define CTAS 4
#endif
// sculler:tune THREADS in {32,128}
#ifndef THREADS
#define THREADS 32
#endif

namespace {

// EVOLVE-BLOCK-START
// `before`: steps passed in earlier runs.
__global__ void __launch_bounds__(THREADS)
    pass_on(ncclWindow_t x, size_t x_offset, ncclWindow_t y, size_t y_offset, int64_t t, int64_t n,
            unsigned long long before, ncclDevComm comm) {
  ncclGin gin(comm, blockIdx.x);
  const ncclTeam world = ncclTeamWorld(comm);
  const int right = (world.rank + 1) % world.nRanks;
  const int64_t share = (n + CTAS - 1) / CTAS;
  const int64_t begin = min(n, share * static_cast<int64_t>(blockIdx.x)), end = min(n, begin + share);
  const size_t at = static_cast<size_t>(begin) * sizeof(float);
  const size_t bytes = static_cast<size_t>(end - begin) * sizeof(float);
  const size_t step = static_cast<size_t>(n) * sizeof(float);
  for (int64_t s = 0; s < t; ++s) {
    const size_t arrived = static_cast<size_t>(s) * step;
    if (threadIdx.x == 0) {
      gin.put(world, right, y, y_offset + arrived + at, s == 0 ? x : y,
              s == 0 ? x_offset + at : y_offset + arrived - step + at, bytes, ncclGin_SignalInc{blockIdx.x});
    }
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + static_cast<unsigned long long>(s) + 1);
  }
  gin.flush(ncclCoopCta());  // X and Y may be used again when the kernel has ended
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  ncclDevComm comm;
  unsigned long long steps = 0;  // passed so far
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool, {}};
  ncclDevCommRequirements requirements{};
  requirements.ginForceEnable = true;  // also where all ranks are on one node
  requirements.ginSignalCount = CTAS;
  RX_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  pass_on<<<CTAS, THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<ncclWindow_t>(buffer[RX_X].window), buffer[RX_X].offset,
      static_cast<ncclWindow_t>(buffer[RX_Y].window), buffer[RX_Y].offset, problem->dim[RX_DIM_T],
      problem->dim[RX_DIM_N], st->steps, st->comm);
  RX_TRY(cudaGetLastError());
  st->steps += static_cast<unsigned long long>(problem->dim[RX_DIM_T]);
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  RX_TRY(cudaDeviceSynchronize());
  RX_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  delete st;
  return SCULLER_OK;
}
