// Expected Y on the device, for the checker: float64 throughout, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 4 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t batches = problem->dim[0], m = problem->dim[1], n = problem->dim[2],
                k = problem->dim[3];
  const auto* all_x = static_cast<const float*>(inputs[0]);
  const auto* all_w = static_cast<const float*>(inputs[1]);
  const auto on = static_cast<cudaStream_t>(stream);
  for (int64_t b = 0; b < batches; ++b) {
    const float *x = all_x + b * m * k, *w = all_w + b * k * n;
    float* y = static_cast<float*>(outputs[0]) + b * m * n;
    sculler::product(
        m, n, k, on, [=] __device__(int64_t i, int64_t l) { return double{x[i * k + l]}; },
        [=] __device__(int64_t l, int64_t j) { return double{w[l * n + j]}; },
        [=] __device__(int64_t i, int64_t j, double sum) {
          y[i * n + j] = static_cast<float>(sum);
        });
  }
  return sculler::launched();
}
