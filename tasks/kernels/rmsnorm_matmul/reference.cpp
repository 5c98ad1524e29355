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
  auto* y = static_cast<double*>(outputs[0]);
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        sculler::multiply(count, n, k, Matrix<float>{x + row * k, k, 1}, Matrix<float>{w, n, 1},
                          y + at * n, n);
        for (int64_t i = 0; i < count; ++i) {
          const float* from = x + (row + i) * k;
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += static_cast<double>(from[l]) * static_cast<double>(from[l]);
          const double rms = std::sqrt(sum / static_cast<double>(k));
          for (int64_t j = 0; j < n; ++j) y[(at + i) * n + j] /= rms;
        }
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
