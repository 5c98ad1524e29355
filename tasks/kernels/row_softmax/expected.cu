// Expected Y on the device, for the checker: one block a row, plain sums in float64.
#include <cuda_runtime.h>

#include "sculler/candidate.h"

extern "C" __global__ void sculler_expected(const float* x, float* y, int64_t n) {
  __shared__ double part[256];
  const float* row = x + static_cast<int64_t>(blockIdx.x) * n;
  float* out = y + static_cast<int64_t>(blockIdx.x) * n;
  double most = -1e300;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) most = row[j] > most ? row[j] : most;
  part[threadIdx.x] = most;
  __syncthreads();
  for (int i = 0; i < 256; ++i) most = part[i] > most ? part[i] : most;
  __syncthreads();
  double sum = 0;
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) sum += exp(row[j] - most);
  part[threadIdx.x] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 256; ++i) sum += part[i];
  for (int64_t j = threadIdx.x; j < n; j += blockDim.x) out[j] = static_cast<float>(exp(row[j] - most) / sum);
}

extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  if (problem->n_dims != 2 || n_ranks != 1) return SCULLER_ERROR;
  sculler_expected<<<static_cast<unsigned>(problem->dim[0]), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]), problem->dim[1]);
  return cudaGetLastError() == cudaSuccess ? SCULLER_OK : SCULLER_ERROR;
}
