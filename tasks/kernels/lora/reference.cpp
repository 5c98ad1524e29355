// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cstdint>
#include <vector>

#include "sculler/candidate.h"

using sculler::Matrix;

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 4 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2], l = problem->dim[3];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  const auto* a = static_cast<const float*>(inputs[2]);
  const auto* b = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<double*>(outputs[0]);
  std::vector<double> low(static_cast<std::size_t>(m * l));
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        const Matrix<float> part{x + row * k, k, 1};
        sculler::multiply(count, n, k, part, Matrix<float>{w, n, 1}, y + at * n, n);
        sculler::multiply(count, l, k, part, Matrix<float>{a, l, 1}, low.data(), l);
        sculler::multiply(count, n, l, Matrix<double>{low.data(), l, 1}, Matrix<float>{b, n, 1},
                          y + at * n, n, true);
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
