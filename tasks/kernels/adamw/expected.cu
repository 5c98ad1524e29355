// Expected Y on the device, for the checker: float64, rounded once.
#include "sculler/expected.h"

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 2 || n_ranks != 1) return SCULLER_ERROR;
  const auto* theta = static_cast<const float*>(inputs[0]);
  const auto* g = static_cast<const float*>(inputs[1]);
  const auto* mean = static_cast<const float*>(inputs[2]);
  const auto* v = static_cast<const float*>(inputs[3]);
  auto* y = static_cast<float*>(outputs[0]);
  sculler::each(problem->dim[0] * problem->dim[1], static_cast<cudaStream_t>(stream),
                [=] __device__(int64_t i) {
                  const double gradient = g[i], parameter = theta[i];
                  const double m_t = 0.9 * mean[i] + 0.1 * gradient;
                  const double v_t = 0.999 * v[i] + 0.001 * gradient * gradient;
                  y[i] = static_cast<float>(parameter - 1e-5 * parameter -
                                            0.01 * m_t / (sqrt(v_t * 1000) + 1e-8));
                });
  return sculler::launched();
}
