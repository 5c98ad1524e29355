// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"What a user calls: the library, in strict float32."}
//
// Baseline: attention in three steps, products by cuBLAS in float32.
#include "cublas.h"

#include <cmath>

#include "rows.h"

namespace {
int run(void* state, const Call& call) {
  const int64_t batches = call.dim(0), n = call.dim(1), kh = call.dim(2), qh = call.dim(3),
                d = call.dim(4), each = qh / kh;
  const float scale = 1.0f / sqrtf(static_cast<float>(d));
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t g = 0; g < kh; ++g) {
      const Operand q{call.buffer(0) + (b * n * qh + g * each) * d, qh * d, false, d},
          k{call.buffer(1) + (b * n * kh + g) * d, kh * d, true, 0};
      if (!blas_multiply(state, each, n, n, d, q, k, 0.0f, call.space + g * each * n * n, n, n * n))
        return SCULLER_ERROR;
    }
    each_row(qh * n, call.stream, SoftmaxRow{call.space, n, scale});
    for (int64_t g = 0; g < kh; ++g) {
      const Operand score{call.space + g * each * n * n, n, false, n * n},
          v{call.buffer(2) + (b * n * kh + g) * d, kh * d, false, 0};
      if (!blas_multiply(state, each, n, d, n, score, v, 0.0f,
                         call.buffer(3) + (b * qh + g * each) * n * d, d, n * d))
        return SCULLER_ERROR;
    }
  }
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_blas_state(rank, pool, problem->dim[3] * problem->dim[1] * problem->dim[1], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(state, blas_call(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_blas_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file cublas.h from ../../shared
// sculler:file rows.h from ../../shared
