// Expected C on the device, for the checker: plain float32 FMA in ascending k, no tensor cores, one rounding to bf16. It
// shares nothing with any candidate; the checker validates random rows of it against reference.cpp.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "problem.h"

namespace {
constexpr int kTile = 128, kDepth = 16, kSide = 16, kEach = kTile / kSide;  // 16 x 16 threads of 8 x 8 sums
}

// Rows of one rank's A against B. a is [rows, k], b is [n, k], c is [rows, n]. Any sizes.
extern "C" __global__ void __launch_bounds__(kSide* kSide, 2)
    sculler_expected(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t rows,
                     int64_t k, int64_t n) {
  __shared__ float tile_a[2][kDepth][kTile + 4], tile_b[2][kDepth][kTile + 4];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int thread = threadIdx.x, tx = thread % kSide, ty = thread / kSide;
  float sum[kEach][kEach] = {};

  auto load = [&](int buffer, int64_t k0) {
#pragma unroll
    for (int i = 0; i < kTile * kDepth / (kSide * kSide); ++i) {
      const int element = i * kSide * kSide + thread, row = element / kDepth, depth = element % kDepth;
      const int64_t at = k0 + depth;
      tile_a[buffer][depth][row] =
          row0 + row < rows && at < k ? __bfloat162float(a[(row0 + row) * k + at]) : 0.0f;
      tile_b[buffer][depth][row] =
          column0 + row < n && at < k ? __bfloat162float(b[(column0 + row) * k + at]) : 0.0f;
    }
  };
  load(0, 0);
  __syncthreads();
  int buffer = 0;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth, buffer ^= 1) {
    if (k0 + kDepth < k) load(buffer ^ 1, k0 + kDepth);
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      float fa[kEach], fb[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        fa[i] = tile_a[buffer][depth][ty + i * kSide];
        fb[i] = tile_b[buffer][depth][tx + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i)
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(fa[i], fb[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < rows && column < n) c[row * n + column] = __float2bfloat16_rn(sum[i][j]);
    }
}

// inputs[r * 2 + j]: device pointer of rank r's A (j 0) or B (j 1), readable from the current device; outputs[0]: [S, N]
// bf16, the same for every rank. Enqueues on `stream` and returns a SCULLER_ code.
extern "C" SCULLER_EXPORT int sculler_expected_launch(const sculler_problem* problem, int n_ranks,
                                                      const void* const* inputs,
                                                      void* const* outputs, void* stream) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, 0, n_ranks, &shape)) return code;
  const dim3 grid(static_cast<unsigned>((shape.n + kTile - 1) / kTile),
                  static_cast<unsigned>((shape.rows + kTile - 1) / kTile));
  for (int r = 0; r < n_ranks; ++r) {
    sculler_expected<<<grid, kSide * kSide, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const __nv_bfloat16*>(inputs[r * 2 + GA_A]),
        static_cast<const __nv_bfloat16*>(inputs[GA_B]),
        static_cast<__nv_bfloat16*>(outputs[0]) + r * shape.slice, shape.rows, shape.k, shape.n);
    GA_TRY(cudaGetLastError());
  }
  return SCULLER_OK;
}
