// sculler:directive {"backend":"lsa","issuer":"cta","placement":"kernel_fused","sync":"peer","granularity":65536,"why":"One kernel for all steps: every CTA passes its own share to the right and meets the same CTA of all ranks at a barrier after each step."}
//
// CTA b owns the same share of the payload on every rank, so a barrier among the CTAs b orders all that step s + 1 reads.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

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

// EVOLVE-BLOCK-START
__global__ void __launch_bounds__(THREADS)
    pass_on(const float* x, const float* own, float* right, int64_t t, int64_t n, ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  for (int64_t s = 0; s < t; ++s) {
    const float* from = s == 0 ? x : own + (s - 1) * n;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += CTAS * THREADS)
      right[s * n + i] = from[i];
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
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
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool, {}};
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = CTAS;
  RX_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  const int right = (st->rank.rank + 1) % st->rank.n_ranks;
  if (buffer[RX_Y].peer[right] == nullptr) return SCULLER_UNSUPPORTED_PROBLEM;
  pass_on<<<CTAS, THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const float*>(buffer[RX_X].ptr), static_cast<const float*>(buffer[RX_Y].ptr),
      static_cast<float*>(buffer[RX_Y].peer[right]), problem->dim[RX_DIM_T], problem->dim[RX_DIM_N], st->comm);
  RX_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  RX_TRY(cudaDeviceSynchronize());
  RX_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  delete st;
  return SCULLER_OK;
}
