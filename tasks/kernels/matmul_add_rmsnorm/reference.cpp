// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cmath>
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
  const auto* z = static_cast<const float*>(inputs[2]);
  const auto* g = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<double*>(outputs[0]);
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        sculler::multiply(count, n, k, Matrix<float>{x + row * k, k, 1}, Matrix<float>{w, n, 1},
                          y + at * n, n);
        for (int64_t i = 0; i < count; ++i) {
          double* to = y + (at + i) * n;
          double sum = 0;
          for (int64_t j = 0; j < n; ++j) {
            to[j] += static_cast<double>(z[(row + i) * n + j]);
            sum += to[j] * to[j];
          }
          const double rms = std::sqrt(sum / static_cast<double>(n) + 1e-5);
          for (int64_t j = 0; j < n; ++j) to[j] = to[j] / rms * static_cast<double>(g[j]);
        }
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
