// Expected Y on the device, for the checker: float64, step by step, a warp a channel. Every run gives
// the same bits: states are summed in one order.
#include "sculler/expected.h"

namespace {
__global__ void scan(const float* delta, const float* u, const float* a, const float* b,
                     const float* c, float* y, int64_t m, int64_t states) {
  const int64_t row = blockIdx.x;
  for (int64_t first = 0; first < states; first += 32) {
    const int64_t s = first + threadIdx.x;
    const bool mine = s < states;
    const double decay = mine ? a[row * states + s] : 0.0;
    double h = 0;
    for (int64_t i = 0; i < m; ++i) {
      const double step = delta[row * m + i];
      h = exp(step * decay) * h + (mine ? step * u[row * m + i] * b[s * m + i] : 0.0);
      double sum = mine ? c[s * m + i] * h : 0.0;
      for (int far = 16; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
      if (threadIdx.x == 0) {
        float& to = y[row * m + i];
        to = static_cast<float>(first == 0 ? sum : to + sum);
      }
    }
  }
}
}  // namespace

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 3 || n_ranks != 1) return SCULLER_ERROR;
  const auto in = [&](int i) { return static_cast<const float*>(inputs[i]); };
  scan<<<static_cast<unsigned>(problem->dim[0]), 32, 0, static_cast<cudaStream_t>(stream)>>>(
      in(0), in(1), in(2), in(3), in(4), static_cast<float*>(outputs[0]), problem->dim[1],
      problem->dim[2]);
  return sculler::launched();
}
