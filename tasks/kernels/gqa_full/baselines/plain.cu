// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":4096,"why":"Scores, softmax, product with V: three kernels, the scores in memory between them."}
//
// Baseline: attention in three steps in float32 as one writes it first.
#include <cmath>

#include "rows.h"
#include "simt.h"

namespace {
int run(const Call& call) {
  const int64_t batches = call.dim(0), n = call.dim(1), kh = call.dim(2), qh = call.dim(3),
                d = call.dim(4), each = qh / kh;
  const float scale = 1.0f / sqrtf(static_cast<float>(d));
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t g = 0; g < kh; ++g) {
      const Matrix q{call.buffer(0) + (b * n * qh + g * each) * d, qh * d, 1, d},
          k{call.buffer(1) + (b * n * kh + g) * d, 1, kh * d, 0};
      multiply<true, true>(each, n, n, d, q, k, call.stream,
                           Store{call.space + g * each * n * n, n, n * n});
    }
    each_row(qh * n, call.stream, SoftmaxRow{call.space, n, scale});
    for (int64_t g = 0; g < kh; ++g) {
      const Matrix score{call.space + g * each * n * n, n, 1, n * n},
          v{call.buffer(2) + (b * n * kh + g) * d, kh * d, 1, 0};
      multiply<true, false>(each, n, d, n, score, v, call.stream,
                            Store{call.buffer(3) + (b * qh + g * each) * n * d, d, n * d});
    }
  }
  return launched();
}
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  return make_state(rank, pool, problem->dim[3] * problem->dim[1] * problem->dim[1], state);
}

extern "C" int sculler_run(void* state, const sculler_problem* problem, int set) {
  return run(call_of(state, problem, set));
}

extern "C" int sculler_teardown(void* state) { return end_state(state); }
// sculler:file entry.h from ../../shared
// sculler:file rows.h from ../../shared
// sculler:file simt.h from ../../shared
