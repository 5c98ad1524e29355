// No candidate: the GEMM alone, without the gather (run as `nocheck:`). What a ladder's other rows are read against.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <vector>

#include "problem.h"

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;
struct State {
  sculler_rank rank;
  ga_shape shape;
  std::vector<ga_buffers> sets;
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
};
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  auto* st = new State;
  st->rank = *rank;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &st->shape)) return code;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    st->sets.emplace_back();
    if (int code = ga_buffers_of(&pool->set[i], rank, 0, &st->sets.back())) return code;
  }
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const float one = 1.0f, zero = 0.0f;
  GA_TRY(cublasGemmEx(
      st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n), static_cast<int>(shape.rows),
      static_cast<int>(shape.k), &one, buffers.b, CUDA_R_16BF, static_cast<int>(shape.k), buffers.a,
      CUDA_R_16BF, static_cast<int>(shape.k), &zero,
      static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + shape.first_row * shape.n, CUDA_R_16BF,
      static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cublasDestroy(st->blas));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
