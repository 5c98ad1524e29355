// Expected Y on the device, for the checker: float64, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 1 || n_ranks != 1) return SCULLER_ERROR;
  const auto* x = static_cast<const float*>(inputs[0]);
  auto* y = static_cast<float*>(outputs[0]);
  sculler::each(problem->dim[0], static_cast<cudaStream_t>(stream), [=] __device__(int64_t i) {
    const double v = x[i];
    y[i] = static_cast<float>(v / (1.0 + exp(-v)));
  });
  return sculler::launched();
}
