// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks, int rank,
                                                const void* const* inputs, void* const* outputs,
                                                const int64_t* rows, int64_t n_rows) {
  if (problem->n_dims != 2 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1];
  for (int64_t i = 0; i < (rows ? n_rows : m); ++i) {
    const int64_t row = rows ? rows[i] : i;
    if (row < 0 || row >= m) return SCULLER_ERROR;
    const float* x = static_cast<const float*>(inputs[rank]) + row * n;
    double* y = static_cast<double*>(outputs[0]) + i * n;
    const double most = static_cast<double>(*std::max_element(x, x + n));
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += y[j] = std::exp(static_cast<double>(x[j]) - most);
    for (int64_t j = 0; j < n; ++j) y[j] /= sum;
  }
  return SCULLER_OK;
}
