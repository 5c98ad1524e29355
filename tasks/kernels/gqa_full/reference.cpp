// The trusted answer: float64 throughout. ABI: docs/internals.md.
#include "sculler/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sculler/candidate.h"

using sculler::Matrix;

extern "C" SCULLER_EXPORT int sculler_reference(const sculler_problem* problem, int n_ranks,
                                                int rank, const void* const* inputs,
                                                void* const* outputs, const int64_t* rows,
                                                int64_t n_rows) {
  if (problem->n_dims != 5 || n_ranks != 1 || rank != 0) return SCULLER_ERROR;
  const int64_t batch = problem->dim[0], n = problem->dim[1], kh = problem->dim[2],
                qh = problem->dim[3], d = problem->dim[4];
  const auto* q = static_cast<const float*>(inputs[0]);
  const auto* k = static_cast<const float*>(inputs[1]);
  const auto* v = static_cast<const float*>(inputs[2]);
  auto* y = static_cast<double*>(outputs[0]);
  if (kh < 1 || qh % kh != 0) return SCULLER_ERROR;
  std::vector<double> score(static_cast<std::size_t>(n * n));
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  const bool known = sculler::for_rows(
      rows, n_rows, batch * qh * n, n, [&](int64_t row, int64_t count, int64_t at) {
        const int64_t b = row / (qh * n), head = row / n % qh, first = row % n;
        const int64_t group = head / (qh / kh), at_key = (b * n * kh + group) * d;
        sculler::multiply(count, n, d,
                          Matrix<float>{q + ((b * n + first) * qh + head) * d, qh * d, 1},
                          Matrix<float>{k + at_key, 1, kh * d}, score.data(), n);
        for (int64_t i = 0; i < count; ++i) {
          double* to = score.data() + i * n;
          const double most = *std::max_element(to, to + n);
          double sum = 0;
          for (int64_t j = 0; j < n; ++j) sum += to[j] = std::exp((to[j] - most) * scale);
          for (int64_t j = 0; j < n; ++j) to[j] /= sum;
        }
        sculler::multiply(count, d, n, Matrix<double>{score.data(), n, 1},
                          Matrix<float>{v + at_key, kh * d, 1}, y + at * d, d);
      });
  return known ? SCULLER_OK : SCULLER_ERROR;
}
