// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 3 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t channels = problem->dim[0], m = problem->dim[1], states = problem->dim[2];
  const auto* delta = static_cast<const float*>(inputs[0]);
  const auto* u = static_cast<const float*>(inputs[1]);
  const auto* a = static_cast<const float*>(inputs[2]);
  const auto* b = static_cast<const float*>(inputs[3]);
  const auto* c = static_cast<const float*>(inputs[4]);
  auto* y = static_cast<double*>(outputs[0]);
  std::vector<double> state(static_cast<std::size_t>(states));
  const bool known =
      sculler::for_rows(rows, n_rows, channels, 1, [&](int64_t row, int64_t, int64_t at) {
        std::fill(state.begin(), state.end(), 0.0);
        for (int64_t i = 0; i < m; ++i) {
          const double step = static_cast<double>(delta[row * m + i]),
                       in = step * static_cast<double>(u[row * m + i]);
          double sum = 0;
          for (int64_t s = 0; s < states; ++s) {
            double& h = state[static_cast<std::size_t>(s)];
            h = std::exp(step * static_cast<double>(a[row * states + s])) * h +
                in * static_cast<double>(b[s * m + i]);
            sum += static_cast<double>(c[s * m + i]) * h;
          }
          y[at * m + i] = sum;
        }
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
