// Expected Y on the device, for the checker: float64 throughout, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 3 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  const auto* z = static_cast<const float*>(inputs[2]);
  const auto* g = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<float*>(outputs[0]);
  const auto on = static_cast<cudaStream_t>(stream);
  const sculler::Between between(m * n, on);
  double* const t = between.data();
  if (t == nullptr) return SCULLER_OUT_OF_MEMORY;
  sculler::product(
      m, n, k, on, [=] __device__(int64_t i, int64_t l) { return double{x[i * k + l]}; },
      [=] __device__(int64_t l, int64_t j) { return double{w[l * n + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) { t[i * n + j] = sum + z[i * n + j]; });
  sculler::each_row(m, n, on, [=] __device__(int64_t row, auto total, auto) {
    const double* of = t + row * n;
    const double squares = total([&](int64_t j) { return of[j] * of[j]; });
    const double scale = 1.0 / sqrt(squares / static_cast<double>(n) + 1e-5);
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
      y[row * n + j] = static_cast<float>(of[j] * scale * g[j]);
  });
  return sculler::launched();
}
