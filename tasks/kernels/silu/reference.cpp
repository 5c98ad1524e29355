// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks, int rank,
                                                const void* const* inputs, void* const* outputs,
                                                const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != 1 || n_ranks != 1) return SCULLER_ERROR;
  // The whole vector is one row.
  for (int64_t i = 0; rows && i < n_rows; ++i)
    if (rows[i] != 0) return SCULLER_ERROR;
  const auto* x = static_cast<const float*>(inputs[rank]);
  const int64_t n = problem->dim[0];
  for (int64_t copy = 0; copy < (rows ? n_rows : 1); ++copy) {
    auto* y = static_cast<double*>(outputs[0]) + copy * n;
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(x[i]);
      y[i] = v / (1.0 + std::exp(-v));
    }
  }
  return SCULLER_OK;
}
