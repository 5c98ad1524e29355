// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"What a user calls: the library, in strict float32."}
//
// Baseline: Y[b] = X[b] W[b] by cuBLAS in float32.
#include "cublas.h"

namespace {
int run(void* state, const Call& call) {
  const int64_t batches = call.dim(0), m = call.dim(1), n = call.dim(2), k = call.dim(3);
  return blas_multiply(state, batches, m, n, k, {call.buffer(0), k, false, m * k},
                       {call.buffer(1), n, false, k * n}, 0.0f, call.buffer(2), n, m * n)
             ? SCULLER_OK
             : SCULLER_ERROR;
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_blas_state(rank, pool, 0, state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(state, blas_call(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_blas_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file cublas.h from ../../shared
