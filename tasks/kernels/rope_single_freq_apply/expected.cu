// Expected Y on the device, for the checker: float64, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 4 || n_ranks != 1) return SCULLER_ERROR;
  const int64_t half =
      problem->dim[3] / 2 * problem->dim[0] * problem->dim[1] * problem->dim[2];
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* cosine = static_cast<const float*>(inputs[1]);
  const auto* sine = static_cast<const float*>(inputs[2]);
  auto* y = static_cast<float*>(outputs[0]);
  sculler::each(half, static_cast<cudaStream_t>(stream), [=] __device__(int64_t i) {
    const double a = x[i], b = x[half + i], c = cosine[i], s = sine[i];
    y[i] = static_cast<float>(a * c - b * s);
    y[half + i] = static_cast<float>(a * s + b * c);
  });
  return sculler::launched();
}
