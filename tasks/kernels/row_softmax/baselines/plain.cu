// sculler:directive {"backend":"none","issuer":"cta","placement":"sequential","sync":"global","granularity":4096,"why":"The kernel as one would write it: three passes over the row, one block each."}
//
// Baseline: maximum, sum, quotient, each a pass over the row.
#include <cuda_runtime.h>

#include "sculler/candidate.h"

namespace {
constexpr int kThreads = 256;

struct State {
  sculler_rank rank;
  const sculler_pool* pool;
};

template <class Op>
__device__ float reduce(float value, float* shared, Op op) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = op(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  value = shared[0];
  __syncthreads();
  return value;
}

__global__ void __launch_bounds__(kThreads) softmax(const float* x, float* y, int64_t n) {
  __shared__ float shared[kThreads];
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float most = -3.4e38f, sum = 0;
  for (int64_t j = threadIdx.x; j < n; j += kThreads) most = fmaxf(most, x[j]);
  most = reduce(most, shared, [](float a, float b) { return fmaxf(a, b); });
  for (int64_t j = threadIdx.x; j < n; j += kThreads) sum += expf(x[j] - most);
  sum = reduce(sum, shared, [](float a, float b) { return a + b; });
  for (int64_t j = threadIdx.x; j < n; j += kThreads) y[j] = expf(x[j] - most) / sum;
}
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
  softmax<<<static_cast<unsigned>(problem->dim[0]), kThreads, 0, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const float*>(buffer[0].ptr), static_cast<float*>(buffer[1].ptr), problem->dim[1]);
  return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
}

extern "C" int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
