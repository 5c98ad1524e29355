// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cstdint>

#include "sculler/candidate.h"

using sculler::Matrix;

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 4 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t batch = problem->dim[0], m = problem->dim[1], n = problem->dim[2],
                k = problem->dim[3];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  auto* y = static_cast<double*>(outputs[0]);
  const bool known =
      sculler::for_rows(rows, n_rows, batch * m, m, [&](int64_t row, int64_t count, int64_t at) {
        const float* matrix = w + row / m * k * n;
        sculler::multiply(count, n, k, Matrix<float>{x + row * k, k, 1},
                          Matrix<float>{matrix, n, 1}, y + at * n, n);
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
