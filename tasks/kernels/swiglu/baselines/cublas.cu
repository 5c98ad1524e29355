// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"What a user calls: the library, in strict float32."}
//
// Baseline: Y = (silu(X GATE) (X UP)) DOWN by cuBLAS in float32.
#include "cublas.h"

namespace {
__global__ void gate(float* h, const float* g, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) h[i] *= g[i] / (1.0f + expf(-g[i]));
}

int run(void* state, const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  const Operand x{call.buffer(0), k, false, 0};
  float *const h = call.space, *const g = call.space + m * n;
  if (!blas_multiply(state, 1, m, n, k, x, {call.buffer(1), n, false, 0}, 0.0f, h, n, 0) ||
      !blas_multiply(state, 1, m, n, k, x, {call.buffer(3), n, false, 0}, 0.0f, g, n, 0))
    return SCULLER_ERROR;
  gate<<<blocks_of(m * n, 256), 256, 0, call.stream>>>(h, g, m * n);
  if (!blas_multiply(state, 1, m, k, n, {h, n, false, 0}, {call.buffer(2), k, false, 0}, 0.0f,
                     call.buffer(4), k, 0))
    return SCULLER_ERROR;
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_blas_state(rank, pool, 2 * problem->dim[0] * problem->dim[1], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(state, blas_call(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_blas_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file cublas.h from ../../shared
