// Expected Y on the device, for the checker: sums in float32, rank 0 first, one rounding.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "problem.h"

namespace {
constexpr int kMaxRanks = 8;
struct Inputs {
  const __nv_bfloat16* x[kMaxRanks];
};
__global__ void sum(Inputs inputs, int n_ranks, __nv_bfloat16* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float total = 0;
  for (int r = 0; r < n_ranks; ++r) total += __bfloat162float(inputs.x[r][i]);
  y[i] = __float2bfloat16_rn(total);
}
}  // namespace

// inputs[r]: rank r's X; outputs[r]: rank r's Y; both [n] bf16.
extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs, void* const* outputs, void* stream) {
  if (problem->n_dims != AR_N_DIMS || n_ranks > kMaxRanks) return SCULLER_ERROR;
  const int64_t n = problem->dim[AR_DIM_N];
  Inputs all{};
  for (int r = 0; r < n_ranks; ++r) all.x[r] = static_cast<const __nv_bfloat16*>(inputs[r]);
  for (int r = 0; r < n_ranks; ++r) {
    sum<<<static_cast<unsigned>((n + 255) / 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(
        all, n_ranks, static_cast<__nv_bfloat16*>(outputs[r]), n);
    AR_TRY(cudaGetLastError());
  }
  return SCULLER_OK;
}
