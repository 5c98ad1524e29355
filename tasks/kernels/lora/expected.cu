// Expected Y on the device, for the checker: float64 throughout, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 4 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t m = problem->dim[0], n = problem->dim[1], k = problem->dim[2],
                r = problem->dim[3];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(inputs[1]);
  const auto* a = static_cast<const float*>(inputs[2]);
  const auto* b = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<float*>(outputs[0]);
  const auto on = static_cast<cudaStream_t>(stream);
  const sculler::Between between(m * r, on);
  double* const low = between.data();
  if (low == nullptr) return SCULLER_OUT_OF_MEMORY;
  sculler::product(
      m, r, k, on, [=] __device__(int64_t i, int64_t l) { return double{x[i * k + l]}; },
      [=] __device__(int64_t l, int64_t j) { return double{a[l * r + j]}; },
      [=] __device__(int64_t i, int64_t j, double sum) { low[i * r + j] = sum; });
  sculler::product(
      m, n, k + r, on,
      [=] __device__(int64_t i, int64_t l) {
        return l < k ? double{x[i * k + l]} : low[i * r + l - k];
      },
      [=] __device__(int64_t l, int64_t j) {
        return double{l < k ? w[l * n + j] : b[(l - k) * n + j]};
      },
      [=] __device__(int64_t i, int64_t j, double sum) {
        y[i * n + j] = static_cast<float>(sum);
      });
  return sculler::launched();
}
