// sculler:directive {"backend":"lsa","granularity":17825792,"issuer":"copy_engine","placement":"stream_overlap","sync":"global","why":"The GEMM stream is critical, so calls are few: five shrinking cuBLAS chunks, each sent as two halves at once by copy engines on two lanes (link rate instead of one engine's), then one GEMM of the unsent rows at the border of two slices, beside which the last copies and the closing LSA barrier run on a copy lane."}
// Row chunks by cuBLAS on the harness's stream; each is sent as two halves at once, on two copy lanes (a stream a peer each).
// Some rows of each slice are not sent: the last ones of even ranks, the first ones of odd ranks, so that those of ranks 2p and
// 2p+1 are contiguous in C. Their A rows are pulled behind the first copies, where the link pauses, and every rank computes
// them for all slices. The LSA barrier runs on lane 0 behind all copies, beside that last GEMM, which writes local rows only.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

#include "problem.h"

// sculler:tune PLAN in {0,1,2}
#ifndef PLAN
#define PLAN 0
#endif
// The rows that all ranks compute are rows * KEEP / (128 * n_ranks) of each slice.
// sculler:tune KEEP in {14,16,18,20}
#ifndef KEEP
#define KEEP 16
#endif

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;
constexpr int kLanes = 2;

// EVOLVE-BLOCK-START
// Proportions of the rows that are sent.
#if PLAN == 0
constexpr int kPlan[] = {17, 15, 12, 9, 7};
#elif PLAN == 1
constexpr int kPlan[] = {21, 17, 13, 9};
#else
constexpr int kPlan[] = {16, 16, 12, 8, 8};
#endif

// Rows of each slice that are not sent and that every rank computes itself.
int64_t kept_rows(int64_t rows, int n_ranks) {
  if (n_ranks < 2) return 0;
  int64_t kept = rows * KEEP / (128 * static_cast<int64_t>(n_ranks));
  if (rows >= 2048) kept = (kept + 32) / 64 * 64;
  return kept;
}

// The end of every chunk that is sent, in rows from the first row that is sent; the last is `rows`.
std::vector<int64_t> cut(int64_t rows) {
  std::vector<int64_t> end;
  int64_t total = 0, seen = 0;
  for (int part : kPlan) total += part;
  for (int part : kPlan) {
    seen += part;
    int64_t row = rows * seen / total;
    if (rows >= 1536) row = (row + 64) / 128 * 128;
    if (seen >= total || row > rows) row = rows;
    if (row > (end.empty() ? 0 : end.back())) end.push_back(row);
  }
  return end;
}

// Behind all copies to and from peers: what was sent is released, what arrived is acquired.
__global__ void __launch_bounds__(32) close_iteration(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  std::vector<ga_buffers> sets;
  std::vector<std::vector<void*>> peer_a;  // of each set, by rank
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  __nv_bfloat16* gathered = nullptr;  // the kept A rows of all slices, [n_ranks, kept, K]
  int64_t kept = 0;
  std::vector<cudaStream_t> side[kLanes];  // one a peer, in the order of sending
  std::vector<cudaEvent_t> sent[kLanes];
  std::vector<cudaEvent_t> computed;       // one a chunk
  std::vector<cudaEvent_t> pulled;         // one a peer
  cudaEvent_t copied = nullptr, closed = nullptr;
  std::vector<int64_t> end;                // of each chunk that is sent, in rows
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (shape.k % 8 != 0 || shape.n % 8 != 0) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    std::vector<void*> peer_a(static_cast<size_t>(rank->n_ranks), nullptr);
    const sculler_buffer& a = pool->set[i].buffer[GA_A];
    for (int r = 0; r < rank->n_ranks; ++r) {
      peer_a[static_cast<size_t>(r)] = r == rank->rank ? a.ptr : (a.peer ? a.peer[r] : nullptr);
      if (!peer_a[static_cast<size_t>(r)]) return SCULLER_UNSUPPORTED_PROBLEM;
    }
    st->sets.push_back(buffers);
    st->peer_a.push_back(peer_a);
  }
  st->kept = kept_rows(shape.rows, shape.n_ranks);
  st->end = cut(shape.rows - st->kept);
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  if (st->kept > 0) {
    void* gathered = nullptr;
    GA_TRY(cudaMalloc(&gathered, static_cast<size_t>(shape.n_ranks * st->kept * shape.k) * 2));
    st->gathered = static_cast<__nv_bfloat16*>(gathered);
  }
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  const size_t peers = static_cast<size_t>(rank->n_ranks - 1);
  for (int l = 0; l < kLanes; ++l) {
    st->side[l].resize(peers);
    st->sent[l].resize(peers);
    for (auto& stream : st->side[l])
      GA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto& event : st->sent[l])
      GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  st->pulled.resize(peers);
  st->computed.resize(st->end.size());
  for (auto& event : st->pulled) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (auto& event : st->computed) GA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  GA_TRY(cudaEventCreateWithFlags(&st->copied, cudaEventDisableTiming));
  GA_TRY(cudaEventCreateWithFlags(&st->closed, cudaEventDisableTiming));
  *state = st;
  return SCULLER_OK;
}

// EVOLVE-BLOCK-START
extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const std::vector<void*>& peer_a = st->peer_a[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  const auto* a = static_cast<const __nv_bfloat16*>(buffers.a);
  auto* own = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]);
  const float one = 1.0f, zero = 0.0f;
  const size_t chunks = st->end.size();
  const size_t ranks = static_cast<size_t>(shape.n_ranks), peers = ranks - 1;
  const int64_t kept = st->kept;
  // Odd ranks keep their first rows, even ranks their last.
  const int64_t sent_first = shape.rank % 2 == 1 ? kept : 0;
  const size_t kept_bytes = static_cast<size_t>(kept * shape.k) * 2;
  const int n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);

  for (size_t i = 0; i < chunks; ++i) {
    const int64_t begin = i == 0 ? 0 : st->end[i - 1], rows = st->end[i] - begin;
    const int64_t first = sent_first + begin;
    const int64_t offset = (shape.first_row + first) * shape.n;
    GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, n, static_cast<int>(rows), k, &one,
                        buffers.b, CUDA_R_16BF, k, a + first * shape.k, CUDA_R_16BF, k, &zero,
                        own + offset, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    if (peers == 0) continue;
    GA_TRY(cudaEventRecord(st->computed[i], main_stream));
    const int64_t lower = (rows + 1) / 2;  // rows of the half on lane 0
    for (size_t d = 0; d < peers; ++d) {
      const size_t peer = (static_cast<size_t>(shape.rank) + 1 + d) % ranks;
      auto* theirs = static_cast<__nv_bfloat16*>(buffers.c[peer]);
      for (int l = 0; l < kLanes; ++l) {
        const int64_t part = l == 0 ? lower : rows - lower;
        const int64_t at = offset + (l == 0 ? 0 : lower * shape.n);
        GA_TRY(cudaStreamWaitEvent(st->side[l][d], st->computed[i], 0));
        if (part == 0) continue;
        GA_TRY(cudaMemcpyAsync(theirs + at, own + at, static_cast<size_t>(part * shape.n) * 2,
                               cudaMemcpyDeviceToDevice, st->side[l][d]));
      }
      // The first copies end before the second chunk is computed: room for the kept A rows.
      if (i == 0 && kept > 0) {
        const int64_t from = peer % 2 == 1 ? 0 : shape.rows - kept;
        GA_TRY(cudaMemcpyAsync(st->gathered + static_cast<int64_t>(peer) * kept * shape.k,
                               static_cast<const __nv_bfloat16*>(peer_a[peer]) + from * shape.k,
                               kept_bytes, cudaMemcpyDeviceToDevice, st->side[1][d]));
        GA_TRY(cudaEventRecord(st->pulled[d], st->side[1][d]));
        if (d == 0) {
          const int64_t mine = shape.rank % 2 == 1 ? 0 : shape.rows - kept;
          GA_TRY(cudaMemcpyAsync(st->gathered + static_cast<int64_t>(shape.rank) * kept * shape.k,
                                 a + mine * shape.k, kept_bytes, cudaMemcpyDeviceToDevice,
                                 st->side[0][0]));
          GA_TRY(cudaEventRecord(st->copied, st->side[0][0]));
        }
      }
    }
  }
  if (peers == 0) return SCULLER_OK;

  if (kept > 0) {
    GA_TRY(cudaStreamWaitEvent(main_stream, st->copied, 0));
    for (size_t d = 0; d < peers; ++d)
      GA_TRY(cudaStreamWaitEvent(main_stream, st->pulled[d], 0));
    // Ranks 2p and 2p+1 share a border: 2 * kept rows that are contiguous in C and in `gathered`.
    const int pairs = shape.n_ranks / 2;
    auto* border = own + (shape.rows - kept) * shape.n;
    if (pairs == 1) {
      GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, n, static_cast<int>(2 * kept), k, &one,
                          buffers.b, CUDA_R_16BF, k, st->gathered, CUDA_R_16BF, k, &zero, border,
                          CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    } else {
      GA_TRY(cublasGemmStridedBatchedEx(
          st->blas, CUBLAS_OP_T, CUBLAS_OP_N, n, static_cast<int>(2 * kept), k, &one, buffers.b,
          CUDA_R_16BF, k, 0, st->gathered, CUDA_R_16BF, k,
          static_cast<long long>(2 * kept * shape.k), &zero, border, CUDA_R_16BF, n,
          static_cast<long long>(2 * shape.rows * shape.n), pairs, CUBLAS_COMPUTE_32F,
          CUBLAS_GEMM_DEFAULT));
    }
    // An odd number of ranks: the last one has no neighbour behind it.
    if (shape.n_ranks % 2 == 1) {
      const int64_t last = shape.n_ranks - 1;
      GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, n, static_cast<int>(kept), k, &one,
                          buffers.b, CUDA_R_16BF, k, st->gathered + last * kept * shape.k,
                          CUDA_R_16BF, k, &zero, border + last * shape.rows * shape.n, CUDA_R_16BF,
                          n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    }
  }

  // All copies are joined on lane 0's first stream; the barrier there runs beside the last GEMM.
  for (int l = 0; l < kLanes; ++l) {
    for (size_t d = 0; d < peers; ++d) {
      if (l == 0 && d == 0) continue;
      GA_TRY(cudaEventRecord(st->sent[l][d], st->side[l][d]));
      GA_TRY(cudaStreamWaitEvent(st->side[0][0], st->sent[l][d], 0));
    }
  }
  close_iteration<<<1, 32, 0, st->side[0][0]>>>(st->comm);
  GA_TRY(cudaGetLastError());
  GA_TRY(cudaEventRecord(st->closed, st->side[0][0]));
  GA_TRY(cudaStreamWaitEvent(main_stream, st->closed, 0));
  return SCULLER_OK;
}
// EVOLVE-BLOCK-END

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cublasDestroy(st->blas));
  for (auto event : st->computed) GA_TRY(cudaEventDestroy(event));
  for (auto event : st->pulled) GA_TRY(cudaEventDestroy(event));
  GA_TRY(cudaEventDestroy(st->copied));
  GA_TRY(cudaEventDestroy(st->closed));
  for (int l = 0; l < kLanes; ++l) {
    for (auto event : st->sent[l]) GA_TRY(cudaEventDestroy(event));
    for (auto stream : st->side[l]) GA_TRY(cudaStreamDestroy(stream));
  }
  if (st->gathered) GA_TRY(cudaFree(st->gathered));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
