// cuBLAS' float32 product of row-major matrices, in strict float32 (no TF32).
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "entry.h"

namespace {

struct BlasState {
  void* kernel;  // of make_state
  cublasHandle_t blas;
  void* workspace;
};
constexpr size_t kWorkspaceBytes = size_t{64} << 20;

inline int make_blas_state(const sculler_rank* rank, const sculler_pool* pool,
                           int64_t space_floats, void** state) {
  auto* self = new BlasState{};
  *state = self;
  if (const int code = make_state(rank, pool, space_floats, &self->kernel)) return code;
  if (cudaMalloc(&self->workspace, kWorkspaceBytes) != cudaSuccess) return SCULLER_OUT_OF_MEMORY;
  const bool fine =
      cublasCreate(&self->blas) == CUBLAS_STATUS_SUCCESS &&
      cublasSetStream(self->blas, static_cast<cudaStream_t>(rank->stream)) ==
          CUBLAS_STATUS_SUCCESS &&
      cublasSetWorkspace(self->blas, self->workspace, kWorkspaceBytes) == CUBLAS_STATUS_SUCCESS &&
      cublasSetMathMode(self->blas, CUBLAS_DEFAULT_MATH) == CUBLAS_STATUS_SUCCESS;
  return fine ? SCULLER_OK : SCULLER_ERROR;
}

inline Call blas_call(void* state, const sculler_problem* problem, int set) {
  return call_of(static_cast<BlasState*>(state)->kernel, problem, set);
}

inline int end_blas_state(void* state) {
  auto* self = static_cast<BlasState*>(state);
  const bool fine = cudaDeviceSynchronize() == cudaSuccess &&
                    cublasDestroy(self->blas) == CUBLAS_STATUS_SUCCESS &&
                    cudaFree(self->workspace) == cudaSuccess;
  const int code = end_state(self->kernel);
  delete self;
  return fine ? code : SCULLER_ERROR;
}

// A matrix in memory: rows `row` apart, `turned` where it is the transpose that is multiplied; the
// next of a batch `batch` further on.
struct Operand {
  const float* data;
  int64_t row;
  bool turned;
  int64_t batch;
};

// c (m x n) = a (m x k) * b (k x n) + beta * c. Row-major is the transpose of what cuBLAS takes, so
// the factors change places.
inline bool blas_multiply(void* state, int64_t batches, int64_t m, int64_t n, int64_t k, Operand a,
                          Operand b, float beta, float* c, int64_t c_row, int64_t c_batch) {
  const float one = 1.0f;
  return cublasSgemmStridedBatched(
             static_cast<BlasState*>(state)->blas, b.turned ? CUBLAS_OP_T : CUBLAS_OP_N,
             a.turned ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(n), static_cast<int>(m),
             static_cast<int>(k), &one, b.data, static_cast<int>(b.row), b.batch, a.data,
             static_cast<int>(a.row), a.batch, &beta, c, static_cast<int>(c_row), c_batch,
             static_cast<int>(batches)) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace
