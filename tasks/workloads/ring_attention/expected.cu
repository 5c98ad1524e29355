// Expected O on the device, for the checker: one warp a query, two passes over all keys, no rescaling.
#include <cuda_runtime.h>

#include "problem.h"

namespace {
constexpr int kMaxRanks = 8, kEach = RA_MAX_D / 32;
struct Inputs {
  const float* k[kMaxRanks];
  const float* v[kMaxRanks];
};
__device__ float dot(const float* q, const float* k, int64_t d) {
  float sum = 0;
  for (int64_t c = threadIdx.x; c < d; c += 32) sum = fmaf(q[c], k[c], sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum * rsqrtf(static_cast<float>(d));
}
__global__ void attention(const float* q, Inputs in, int n_ranks, float* o, int64_t t, int64_t d) {
  const int64_t row = blockIdx.x;
  q += row * d;
  float largest = -INFINITY, sum = 0, value[kEach] = {};
  for (int r = 0; r < n_ranks; ++r)
    for (int64_t j = 0; j < t; ++j) largest = fmaxf(largest, dot(q, in.k[r] + j * d, d));
  for (int r = 0; r < n_ranks; ++r) {
    for (int64_t j = 0; j < t; ++j) {
      const float weight = expf(dot(q, in.k[r] + j * d, d) - largest);
      sum += weight;
      for (int64_t c = threadIdx.x; c < d; c += 32) value[c / 32] = fmaf(weight, in.v[r][j * d + c], value[c / 32]);
    }
  }
  for (int64_t c = threadIdx.x; c < d; c += 32) o[row * d + c] = value[c / 32] / sum;
}
}  // namespace

// inputs[r * 3 + j]: rank r's Q, K, V; outputs[r]: rank r's O; all [t, d] float32.
extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs, void* const* outputs, void* stream) {
  if (problem->n_dims != RA_N_DIMS || n_ranks > kMaxRanks || problem->dim[RA_DIM_D] > RA_MAX_D) return SCULLER_ERROR;
  Inputs in{};
  for (int r = 0; r < n_ranks; ++r) {
    in.k[r] = static_cast<const float*>(inputs[r * 3 + RA_K]);
    in.v[r] = static_cast<const float*>(inputs[r * 3 + RA_V]);
  }
  for (int r = 0; r < n_ranks; ++r) {
    attention<<<static_cast<unsigned>(problem->dim[RA_DIM_T]), 32, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const float*>(inputs[r * 3 + RA_Q]), in, n_ranks, static_cast<float*>(outputs[r]),
        problem->dim[RA_DIM_T], problem->dim[RA_DIM_D]);
    RA_TRY(cudaGetLastError());
  }
  return SCULLER_OK;
}
