// Expected Y on the device, for the checker: one plain copy a step.
#include <cuda_runtime.h>

#include "problem.h"

// inputs[r * 1 + 0]: rank r's X; outputs[r * 1 + 0]: rank r's Y, [t, n].
extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != RX_N_DIMS) return SCULLER_ERROR;
  const int64_t t = problem->dim[RX_DIM_T], n = problem->dim[RX_DIM_N];
  for (int r = 0; r < n_ranks; ++r)
    for (int64_t s = 0; s < t; ++s)
      RX_TRY(cudaMemcpyAsync(static_cast<float*>(outputs[r]) + s * n, inputs[rx_origin(r, n_ranks, s)],
                             static_cast<size_t>(n) * sizeof(float), cudaMemcpyDeviceToDevice,
                             static_cast<cudaStream_t>(stream)));
  return SCULLER_OK;
}
