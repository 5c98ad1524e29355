// sculler:directive {"backend":"none","issuer":"copy_engine","placement":"stream_overlap","sync":"peer","granularity":16777216,"why":"No device-initiated communication at all: chunks that shrink, so that a copy ends about when the next chunk is computed, copy engines for the bytes and one byte sent to each peer as the sign that everything has arrived."}
//
// cuBLAS in CHUNKS of rows, each SHRINK per cent of the one before, on the harness's stream; each goes to every peer's C
// by cudaMemcpyAsync on a side stream a peer. A grouped ncclSend and ncclRecv of one byte with every peer closes.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "problem.h"

// sculler:tune CHUNKS in {1,2,4,6,8}
#ifndef CHUNKS
#define CHUNKS 6
#endif
// sculler:tune SHRINK in {50,65,80,100}
#ifndef SHRINK
#define SHRINK 80
#endif
// sculler:tune ROW_STEP in {128,256,512}
#ifndef ROW_STEP
#define ROW_STEP 256
#endif

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;

struct State {
  sculler_rank rank;
  ga_shape shape;
  std::vector<ga_buffers> sets;
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  std::vector<cudaStream_t> side;  // one a peer, in the order of sending
  std::vector<cudaEvent_t> computed, sent;
  std::vector<int64_t> end;        // of each chunk, in rows
  char* sign = nullptr;            // device: byte 0 is sent, byte 1 + r comes from rank r
};

// EVOLVE-BLOCK-START
std::vector<int64_t> cut(int64_t rows) {
  std::vector<int64_t> end;
  double total = 0.0, seen = 0.0;
  for (int i = 0; i < CHUNKS; ++i) total += std::pow(SHRINK / 100.0, i);
  // Small problems get the same number of chunks: what is seen of them there holds for large ones.
  const int64_t unit = std::min<int64_t>(ROW_STEP, std::max<int64_t>(1, rows / 16));
  for (int i = 0; i < CHUNKS; ++i) {
    seen += std::pow(SHRINK / 100.0, i);
    const double steps = static_cast<double>(rows) * seen / total / unit;
    const int64_t row = i + 1 == CHUNKS ? rows : std::min<int64_t>(rows, std::llround(steps) * unit);
    if (row > (end.empty() ? 0 : end.back())) end.push_back(row);
  }
  return end;
}
// EVOLVE-BLOCK-END
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
  st->end = cut(shape.rows);
  GA_TRY(cudaMalloc(&st->sign, static_cast<size_t>(1 + rank->n_ranks)));
  GA_TRY(cudaMemset(st->sign, 0, static_cast<size_t>(1 + rank->n_ranks)));
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  st->side.resize(static_cast<size_t>(rank->n_ranks - 1));
  st->sent.resize(st->side.size());
  st->computed.resize(st->end.size());
  for (auto& stream : st->side) GA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (auto& event : st->sent) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (auto& event : st->computed) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  *state = st;
  return SCULLER_OK;
}

// EVOLVE-BLOCK-START
extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  const auto* a = static_cast<const __nv_bfloat16*>(buffers.a);
  const float one = 1.0f, zero = 0.0f;
  for (size_t i = 0; i < st->end.size(); ++i) {
    const int64_t first = i == 0 ? 0 : st->end[i - 1], rows = st->end[i] - first;
    const int64_t offset = (shape.first_row + first) * shape.n;
    auto* chunk = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + offset;
    GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n),
                        static_cast<int>(rows), static_cast<int>(shape.k), &one, buffers.b,
                        CUDA_R_16BF, static_cast<int>(shape.k), a + first * shape.k, CUDA_R_16BF,
                        static_cast<int>(shape.k), &zero, chunk, CUDA_R_16BF,
                        static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    GA_TRY(cudaEventRecord(st->computed[i], main_stream));
    for (size_t d = 0; d < st->side.size(); ++d) {
      const size_t peer = (static_cast<size_t>(shape.rank) + 1 + d) % static_cast<size_t>(shape.n_ranks);
      GA_TRY(cudaStreamWaitEvent(st->side[d], st->computed[i], 0));
      GA_TRY(cudaMemcpyAsync(static_cast<__nv_bfloat16*>(buffers.c[peer]) + offset, chunk,
                             static_cast<size_t>(rows * shape.n) * 2, cudaMemcpyDeviceToDevice,
                             st->side[d]));
    }
  }
  for (size_t d = 0; d < st->side.size(); ++d) {
    GA_TRY(cudaEventRecord(st->sent[d], st->side[d]));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->sent[d], 0));
  }
  const auto comm = static_cast<ncclComm_t>(st->rank.comm);
  GA_TRY(ncclGroupStart());
  for (int r = 0; r < shape.n_ranks; ++r) {
    if (r == shape.rank) continue;
    GA_TRY(ncclSend(st->sign, 1, ncclChar, r, comm, main_stream));
    GA_TRY(ncclRecv(st->sign + 1 + r, 1, ncclChar, r, comm, main_stream));
  }
  GA_TRY(ncclGroupEnd());
  return SCULLER_OK;
}
// EVOLVE-BLOCK-END

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(cublasDestroy(st->blas));
  for (auto event : st->computed) GA_TRY(cudaEventDestroy(event));
  for (auto event : st->sent) GA_TRY(cudaEventDestroy(event));
  for (auto stream : st->side) GA_TRY(cudaStreamDestroy(stream));
  GA_TRY(cudaFree(st->workspace));
  GA_TRY(cudaFree(st->sign));
  delete st;
  return SCULLER_OK;
}
