// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <cstdint>

#include "sculler/candidate.h"

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 4 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t columns = problem->dim[0] * problem->dim[1] * problem->dim[2], d = problem->dim[3],
                half = d / 2;
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* cosine = static_cast<const float*>(inputs[1]);
  const auto* sine = static_cast<const float*>(inputs[2]);
  auto* y = static_cast<double*>(outputs[0]);
  const bool known = sculler::for_rows(rows, n_rows, d, 1, [&](int64_t row, int64_t, int64_t at) {
    const int64_t pair = row % half;
    const float* low = x + pair * columns;
    const float* high = x + (pair + half) * columns;
    double* to = y + at * columns;
    for (int64_t i = 0; i < columns; ++i) {
      const double c = static_cast<double>(cosine[pair * columns + i]),
                   s = static_cast<double>(sine[pair * columns + i]);
      const double a = static_cast<double>(low[i]), b = static_cast<double>(high[i]);
      to[i] = row < half ? a * c - b * s : a * s + b * c;
    }
  });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
