// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"

using sculler::Matrix;

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 3 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* up = static_cast<const float*>(inputs[1]);
  const auto* down = static_cast<const float*>(inputs[2]);
  const auto* gate = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<double*>(outputs[0]);
  std::vector<double> g(static_cast<std::size_t>(m * n)), h(static_cast<std::size_t>(m * n));
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        const Matrix<float> part{x + row * k, k, 1};
        sculler::multiply(count, n, k, part, Matrix<float>{up, n, 1}, h.data(), n);
        sculler::multiply(count, n, k, part, Matrix<float>{gate, n, 1}, g.data(), n);
        for (std::size_t i = 0; i < static_cast<std::size_t>(count * n); ++i)
          h[i] *= g[i] / (1.0 + std::exp(-g[i]));
        sculler::multiply(count, k, n, Matrix<double>{h.data(), n, 1}, Matrix<float>{down, k, 1},
                          y + at * k, k);
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
