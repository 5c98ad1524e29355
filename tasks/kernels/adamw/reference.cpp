// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cmath>
#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 2 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1];
  const auto* theta = static_cast<const float*>(inputs[0]);
  const auto* g = static_cast<const float*>(inputs[1]);
  const auto* mean = static_cast<const float*>(inputs[2]);
  const auto* v = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<double*>(outputs[0]);
  const bool known =
      sculler::for_rows(rows, n_rows, m, m, [&](int64_t row, int64_t count, int64_t at) {
        for (int64_t i = 0; i < count * n; ++i) {
          const int64_t from = row * n + i;
          const double gradient = static_cast<double>(g[from]),
                       parameter = static_cast<double>(theta[from]);
          const double m_t = 0.9 * static_cast<double>(mean[from]) + 0.1 * gradient;
          const double v_t = 0.999 * static_cast<double>(v[from]) + 0.001 * gradient * gradient;
          y[at * n + i] =
              parameter - 1e-5 * parameter - 0.01 * m_t / (std::sqrt(v_t * 1000) + 1e-8);
        }
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
