// sculler:directive {"backend":"lsa","issuer":"copy_engine","placement":"stream_overlap","sync":"peer","granularity":16777216,"why":"Chunks of rows: cuBLAS keeps every SM while a copy engine sends the chunk before to the peers' windows."}
//
// Baseline B2: cuBLAS in CHUNKS of rows on the harness's stream; each finished chunk goes to every peer's C by
// cudaMemcpyAsync on a side stream a peer. An LSA barrier after the last copy makes the peers' copies into this C final.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <algorithm>
#include <vector>

#include "problem.h"

// sculler:tune CHUNKS in {1,2,4,6,8,12,16}
#ifndef CHUNKS
#define CHUNKS 8
#endif

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  std::vector<ga_buffers> sets;
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  std::vector<cudaStream_t> side;  // one a peer, in the order of sending
  std::vector<cudaEvent_t> computed, sent;
};

__global__ void closing_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
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
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    st->sets.push_back(buffers);
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  st->side.resize(static_cast<size_t>(rank->n_ranks - 1));
  st->sent.resize(st->side.size());
  st->computed.resize(CHUNKS);
  for (auto& stream : st->side) GA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (auto& event : st->sent) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (auto& event : st->computed) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  const auto* a = static_cast<const __nv_bfloat16*>(buffers.a);
  const float one = 1.0f, zero = 0.0f;
  const int64_t step = (shape.rows + CHUNKS - 1) / CHUNKS;
  for (int i = 0; i < CHUNKS; ++i) {
    const int64_t first = i * step, rows = std::min(step, shape.rows - first);
    if (rows <= 0) break;
    const int64_t offset = (shape.first_row + first) * shape.n;
    auto* chunk = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + offset;
    GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n),
                        static_cast<int>(rows), static_cast<int>(shape.k), &one, buffers.b,
                        CUDA_R_16BF, static_cast<int>(shape.k), a + first * shape.k, CUDA_R_16BF,
                        static_cast<int>(shape.k), &zero, chunk, CUDA_R_16BF,
                        static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    GA_TRY(cudaEventRecord(st->computed[static_cast<size_t>(i)], main_stream));
    for (size_t d = 0; d < st->side.size(); ++d) {
      const size_t peer = (static_cast<size_t>(shape.rank) + 1 + d) % static_cast<size_t>(shape.n_ranks);
      GA_TRY(cudaStreamWaitEvent(st->side[d], st->computed[static_cast<size_t>(i)], 0));
      GA_TRY(cudaMemcpyAsync(static_cast<__nv_bfloat16*>(buffers.c[peer]) + offset, chunk,
                             static_cast<size_t>(rows * shape.n) * 2, cudaMemcpyDeviceToDevice,
                             st->side[d]));
    }
  }
  for (size_t d = 0; d < st->side.size(); ++d) {
    GA_TRY(cudaEventRecord(st->sent[d], st->side[d]));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->sent[d], 0));
  }
  closing_barrier<<<1, 32, 0, main_stream>>>(st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cublasDestroy(st->blas));
  for (auto event : st->computed) GA_TRY(cudaEventDestroy(event));
  for (auto event : st->sent) GA_TRY(cudaEventDestroy(event));
  for (auto stream : st->side) GA_TRY(cudaStreamDestroy(stream));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
