// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"What a user calls: the library, in strict float32."}
//
// Baseline: Y = (rmsnorm(X + Z) G) W by cuBLAS in float32.
#include "cublas.h"
#include "rows.h"

namespace {
int run(void* state, const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2);
  each_row(m, call.stream,
           NormRow{call.buffer(0), call.buffer(2), call.buffer(3), call.space, k, 1e-5f});
  if (!blas_multiply(state, 1, m, n, k, {call.space, k, false, 0}, {call.buffer(1), n, false, 0},
                     0.0f, call.buffer(4), n, 0))
    return SCULLER_ERROR;
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_blas_state(rank, pool, problem->dim[0] * problem->dim[2], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(state, blas_call(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_blas_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file cublas.h from ../../shared
// sculler:file rows.h from ../../shared
