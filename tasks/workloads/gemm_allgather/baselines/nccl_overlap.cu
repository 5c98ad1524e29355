// sculler:directive {"backend":"none","issuer":"cta","placement":"stream_overlap","sync":"global","granularity":33554432,"why":"Chunks of rows on two streams: NCCL broadcasts a finished chunk while cuBLAS computes the next."}
//
// Baseline B1: the rows in CHUNKS; the GEMM of a chunk on the harness's stream, its gather on a second one. A gathered
// chunk is R pieces at stride rows * n in C, which one ncclAllGather cannot address, so each chunk is a group of R
// in-place broadcasts.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <vector>

#include "problem.h"

// sculler:tune CHUNKS in {2,4,8}
#ifndef CHUNKS
#define CHUNKS 4
#endif

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;

struct State {
  sculler_rank rank;
  ga_shape shape;
  std::vector<ga_buffers> sets;
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  cudaStream_t side = nullptr;
  std::vector<cudaEvent_t> computed;
  cudaEvent_t gathered = nullptr;
};
}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 0, &buffers)) return code;
    st->sets.push_back(buffers);
  }
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  GA_TRY(cudaStreamCreateWithFlags(&st->side, cudaStreamNonBlocking));
  st->computed.resize(CHUNKS);
  for (auto& event : st->computed) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  GA_TRY(cudaEventCreateWithFlags(&st->gathered, cudaEventDisableTiming));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  const auto* a = static_cast<const __nv_bfloat16*>(buffers.a);
  auto* c = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]);
  const float one = 1.0f, zero = 0.0f;
  const int64_t step = (shape.rows + CHUNKS - 1) / CHUNKS;
  for (int i = 0; i < CHUNKS; ++i) {
    const int64_t first = i * step, rows = std::min(step, shape.rows - first);
    if (rows <= 0) break;
    GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n),
                        static_cast<int>(rows), static_cast<int>(shape.k), &one, buffers.b,
                        CUDA_R_16BF, static_cast<int>(shape.k), a + first * shape.k, CUDA_R_16BF,
                        static_cast<int>(shape.k), &zero,
                        c + (shape.first_row + first) * shape.n, CUDA_R_16BF,
                        static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    GA_TRY(cudaEventRecord(st->computed[static_cast<size_t>(i)], main_stream));
    GA_TRY(cudaStreamWaitEvent(st->side, st->computed[static_cast<size_t>(i)], 0));
    GA_TRY(ncclGroupStart());
    for (int r = 0; r < shape.n_ranks; ++r) {
      __nv_bfloat16* piece = c + (r * shape.rows + first) * shape.n;
      GA_TRY(ncclBroadcast(piece, piece, static_cast<size_t>(rows * shape.n), ncclBfloat16, r, comm,
                           st->side));
    }
    GA_TRY(ncclGroupEnd());
  }
  GA_TRY(cudaEventRecord(st->gathered, st->side));
  GA_TRY(cudaStreamWaitEvent(main_stream, st->gathered, 0));
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(cublasDestroy(st->blas));
  for (auto event : st->computed) GA_TRY(cudaEventDestroy(event));
  GA_TRY(cudaEventDestroy(st->gathered));
  GA_TRY(cudaStreamDestroy(st->side));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
