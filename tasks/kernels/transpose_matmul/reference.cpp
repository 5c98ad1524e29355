// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cstdint>

#include "sculler/candidate.h"

using sculler::Matrix;

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 3 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  auto* y = static_cast<double*>(outputs[0]);
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        sculler::multiply(count, n, k, Matrix<float>{x + row, 1, m}, Matrix<float>{w, n, 1},
                          y + at * n, n);
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
