// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"What a user calls: the library, in strict float32."}
//
// Baseline: Y = X W + (X A) B by cuBLAS in float32.
#include "cublas.h"

namespace {
int run(void* state, const Call& call) {
  const int64_t m = call.dim(0), n = call.dim(1), k = call.dim(2), l = call.dim(3);
  float* const y = call.buffer(4);
  const Operand x{call.buffer(0), k, false, 0};
  const bool fine =
      blas_multiply(state, 1, m, l, k, x, {call.buffer(2), l, false, 0}, 0.0f, call.space, l, 0) &&
      blas_multiply(state, 1, m, n, k, x, {call.buffer(1), n, false, 0}, 0.0f, y, n, 0) &&
      blas_multiply(state, 1, m, n, l, {call.space, l, false, 0}, {call.buffer(3), n, false, 0},
                    1.0f, y, n, 0);
  if (!fine) return SCULLER_ERROR;
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_blas_state(rank, pool, problem->dim[0] * problem->dim[3], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(state, blas_call(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_blas_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file cublas.h from ../../shared
