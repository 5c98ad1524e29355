// Expected Y on the device, for the checker: float64 throughout, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 3 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* up = static_cast<const float*>(inputs[1]);
  const auto* down = static_cast<const float*>(inputs[2]);
  const auto* gate = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<float*>(outputs[0]);
  const auto on = static_cast<cudaStream_t>(stream);
  const sculler::Between between(m * n, on);
  double* const h = between.data();
  if (h == nullptr) return SCULLER_OUT_OF_MEMORY;
  const auto row_of_x = [=] __device__(int64_t i, int64_t l) { return double{x[i * k + l]}; };
  sculler::product(
      m, n, k, on, row_of_x, [=] __device__(int64_t l, int64_t j) { return double{up[l * n + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) { h[i * n + j] = sum; });
  sculler::product(
      m, n, k, on, row_of_x,
      [=] __device__(int64_t l, int64_t j) { return double{gate[l * n + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) { h[i * n + j] *= sum / (1.0 + exp(-sum)); });
  sculler::product(
      m, k, n, on, [=] __device__(int64_t i, int64_t l) { return h[i * n + l]; },
      [=] __device__(int64_t l, int64_t j) { return double{down[l * k + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) {
        y[i * k + j] = static_cast<float>(sum);
      });
  return sculler::launched();
}
