// Expected Y on the device, for the checker: float64 throughout, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 3 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  auto* y = static_cast<float*>(outputs[0]);
  const auto on = static_cast<cudaStream_t>(stream);
  const sculler::Between between(m, on);
  double* const scale = between.data();
  if (scale == nullptr) return SCULLER_OUT_OF_MEMORY;
  sculler::each_row(m, k, on, [=] __device__(int64_t row, auto total, auto) {
    const double squares = total([&](int64_t l) {
      const double v = x[row * k + l];
      return v * v;
    });
    if (threadIdx.x == 0) scale[row] = 1.0 / sqrt(squares / static_cast<double>(k));
  });
  sculler::product(
      m, n, k, on,
      [=] __device__(int64_t i, int64_t l) { return x[i * k + l] * scale[i]; },
      [=] __device__(int64_t l, int64_t j) { return double{w[l * n + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) {
        y[i * n + j] = static_cast<float>(sum);
      });
  return sculler::launched();
}
