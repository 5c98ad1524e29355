// sculler:directive {"backend":"none","issuer":"warp","placement":"sequential","sync":"global","granularity":4096,"why":"One pass finds maximum and sum together: a row is read twice instead of three times."}
//
// A thread keeps (maximum, sum of exponentials relative to it); pairs are merged through shared memory.
#include <cuda_runtime.h>

#include "sculler/candidate.h"

// sculler:tune THREADS in {64,128,256,512}
#ifndef THREADS
#define THREADS 256
#endif

namespace {
struct State {
  sculler_rank rank;
  const sculler_pool* pool;
};

// EVOLVE-BLOCK-START
struct Running {
  float most, sum;
};
__device__ Running merge(Running a, Running b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

__global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, int64_t n) {
  __shared__ Running shared[THREADS];
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  Running own{-1e30f, 0.0f};
  for (int64_t j = threadIdx.x; j < n; j += THREADS) own = merge(own, {x[j], 1.0f});
  shared[threadIdx.x] = own;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = merge(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const Running all = shared[0];
  const float scale = 1.0f / all.sum;
  for (int64_t j = threadIdx.x; j < n; j += THREADS) y[j] = __expf(x[j] - all.most) * scale;
}
// EVOLVE-BLOCK-END
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  if (problem->n_dims != 2) return SCULLER_ERROR;
  *state = new State{*rank, pool};
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* st = static_cast<State*>(state);
  const sculler_buffer* buffer = st->pool->set[set].buffer;
  softmax<<<static_cast<unsigned>(problem->dim[0]), THREADS, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const float*>(buffer[0].ptr), static_cast<float*>(buffer[1].ptr), problem->dim[1]);
  return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
