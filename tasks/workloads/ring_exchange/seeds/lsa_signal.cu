// sculler:directive {"backend":"lsa","issuer":"cta","placement":"kernel_fused","sync":"tile","granularity":65536,"why":"Only neighbours meet: a counter in a window of the candidate's own says how many steps of this share have arrived, so a slow rank holds back only those who need its payload."}
//
// CTA b of a rank adds one to counter b of its right neighbour after each step (release) and waits until its own counter
// has reached the number of steps passed so far in all runs (acquire): the counters are never reset, the target moves on.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cuda/atomic>

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

using Signal = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;

// EVOLVE-BLOCK-START
// `before`: steps passed in earlier runs.
__global__ void __launch_bounds__(THREADS)
    pass_on(const float* x, const float* own, float* right, int64_t t, int64_t n, ncclWindow_t window,
            int right_rank, unsigned before) {
  auto* arrived = static_cast<unsigned*>(ncclGetLocalPointer(window, 0)) + blockIdx.x;
  auto* tell = static_cast<unsigned*>(ncclGetLsaPointer(window, 0, right_rank)) + blockIdx.x;
  for (int64_t s = 0; s < t; ++s) {
    const float* from = s == 0 ? x : own + (s - 1) * n;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += CTAS * THREADS)
      right[s * n + i] = from[i];
    __syncthreads();
    if (threadIdx.x == 0) {
      Signal(*tell).fetch_add(1, cuda::memory_order_release);
      const unsigned target = before + static_cast<unsigned>(s) + 1;
      while (static_cast<int>(Signal(*arrived).load(cuda::memory_order_acquire) - target) < 0) {}
    }
    __syncthreads();
  }
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  unsigned steps = 0;  // passed so far
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  auto* st = new State{*rank, pool};
  const auto comm = static_cast<ncclComm_t>(rank->comm);
  const auto stream = static_cast<cudaStream_t>(rank->stream);
  RX_TRY(ncclMemAlloc(&st->memory, CTAS * sizeof(unsigned)));
  RX_TRY(cudaMemsetAsync(st->memory, 0, CTAS * sizeof(unsigned), stream));
  RX_TRY(cudaStreamSynchronize(stream));
  RX_TRY(ncclCommWindowRegister(comm, st->memory, CTAS * sizeof(unsigned), &st->window, NCCL_WIN_COLL_SYMMETRIC));
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
      static_cast<float*>(buffer[RX_Y].peer[right]), problem->dim[RX_DIM_T], problem->dim[RX_DIM_N], st->window,
      (st->rank.lsa_rank + 1) % st->rank.n_ranks, st->steps);
  RX_TRY(cudaGetLastError());
  st->steps += static_cast<unsigned>(problem->dim[RX_DIM_T]);
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  RX_TRY(cudaDeviceSynchronize());
  RX_TRY(ncclCommWindowDeregister(static_cast<ncclComm_t>(st->rank.comm), st->window));
  RX_TRY(ncclMemFree(st->memory));
  delete st;
  return SCULLER_OK;
}
