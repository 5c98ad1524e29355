// sculler:directive {"backend":"lsa","granularity":16777216,"issuer":"copy_engine","placement":"stream_overlap","sync":"global","why":"Library GEMMs on shrinking row chunks, re-cut so that the link never idles and the closing LSA barrier together with its join to the main stream end before the border's GEMM does: nothing follows the last computation. A per-chunk lane split keeps the two copy lanes about 4 us apart, so that one lane's start always hides behind the other's data, and lane 1 ends early enough for its event to cost nothing."}
// Row-chunked cuBLAS GEMM into the own C, copy engines push finished chunks to the peers, one LSA barrier closes.
//
// Two ranks:
//   main stream: gemm 0 .. gemm m-1, gemm of the border (rows next to where the slices meet, on both ranks)
//   lane 0:      A rows of the border into scratch; its part of every chunk to the peer; (join lane 1); barrier
//   lane 1:      its part of every chunk to the peer
//   Nobody sends the border, so the barrier only closes what the lanes did and hides beside the border's GEMM.
// More ranks: no border; every chunk goes to every peer on the lanes, and the barrier follows on the main stream.
// One rank: one GEMM.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cuda/atomic>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "problem.h"
#include "sculler/candidate.h"

// How the rows are cut, in 256ths; the last is the border where there are two ranks.
// sculler:tune SCHEDULE in {0,1,2}
#ifndef SCHEDULE
#define SCHEDULE 0
#endif

// EVOLVE-BLOCK-START
namespace {

// GEMM of chunk i+1 (call, gap, slowed by copies) = link time of chunk i; the border's GEMM covers the last chunk's
// copies, the barrier and the join. kLane0 is what lane 0 sends of each share: more at first, so that lane 1 is ahead.
#if SCHEDULE == 0
constexpr int kShares[] = {81, 61, 46, 33, 22, 13};
constexpr int kLane0[] = {43, 31, 23, 17, 11, 7};
#elif SCHEDULE == 1
constexpr int kShares[] = {87, 65, 49, 36, 19};
constexpr int kLane0[] = {46, 33, 25, 18, 10};
#else
constexpr int kShares[] = {81, 62, 46, 32, 22, 13};
constexpr int kLane0[] = {43, 32, 23, 16, 11, 7};
#endif
constexpr int kPieces = static_cast<int>(sizeof(kShares) / sizeof(kShares[0]));
static_assert(sizeof(kShares) == sizeof(kLane0), "one lane split a share");
constexpr int kMaxLanes = 3;
constexpr size_t kWorkspaceBytes = 32u << 20;

// All that this rank sent is ordered before this kernel by its stream; after it, all that the peers sent is here.
__global__ void __launch_bounds__(32) closing_barrier_kernel(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

struct Chunk {
  int64_t first;  // row within the slice
  int64_t rows;
  int64_t lane0;  // rows that lane 0 sends, where there is one peer
};

struct Plan {
  std::vector<Chunk> chunks;  // computed and sent; none is empty
  int64_t border = 0;         // rows of either slice that both ranks compute
};

// The same fractions at every size; where it matters, chunks begin at whole tiles.
Plan make_plan(const ga_shape& shape) {
  Plan plan;
  if (shape.n_ranks == 1) {
    if (shape.rows > 0) plan.chunks.push_back({0, shape.rows, shape.rows});
    return plan;
  }
  int64_t begin = 0;
  int64_t shares = 0;
  for (int i = 0; i < kPieces; ++i) {
    shares += kShares[i];
    int64_t end = shape.rows * shares / 256;
    if (shape.rows >= 2048) end = (end + 64) / 128 * 128;
    if (i == kPieces - 1) end = shape.rows;
    if (end <= begin) continue;
    const int64_t n = end - begin;
    plan.chunks.push_back({begin, n, (n * kLane0[i] + kShares[i] / 2) / kShares[i]});
    begin = end;
  }
  if (shape.n_ranks == 2 && !plan.chunks.empty()) {
    // The last chunk becomes the border: the end of rank 0's slice, the begin of rank 1's.
    plan.border = plan.chunks.back().rows;
    plan.chunks.pop_back();
    if (shape.rank == 1)
      for (Chunk& chunk : plan.chunks) chunk.first += plan.border;
  }
  return plan;
}

struct State {
  sculler_rank rank;
  ga_shape shape;
  std::vector<ga_buffers> sets;
  std::vector<const char*> peer_a;  // two ranks: the peer's A, a set
  Plan plan;
  void* border_a = nullptr;  // [2 * border, k]: A rows of both slices, in the order of C
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
  ncclDevComm comm{};
  bool has_comm = false;
  int n_lanes = 0;
  cudaStream_t lane[kMaxLanes] = {};
  cudaEvent_t lane_done[kMaxLanes] = {};
  cudaEvent_t computed[kPieces] = {};
  cudaEvent_t started = nullptr;
  cudaEvent_t border_ready = nullptr;
  cudaEvent_t closed = nullptr;
};

int new_event(cudaEvent_t* event) {
  GA_TRY(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  return SCULLER_OK;
}

int copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return SCULLER_OK;
  GA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  return SCULLER_OK;
}

// `rows` rows of C from as many of A. cuBLAS is column-major: [rows, n] here is [n, rows] there.
int gemm(State* st, int64_t rows, const void* a, const void* b, void* c) {
  const float one = 1.0f, zero = 0.0f;
  const int n = static_cast<int>(st->shape.n);
  const int k = static_cast<int>(st->shape.k);
  GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, n, static_cast<int>(rows), k, &one, b, CUDA_R_16BF, k, a,
                      CUDA_R_16BF, k, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return SCULLER_OK;
}

// The A rows on both sides of the border, while the link idles beside the first GEMM.
int fetch_border(State* st, const char* a, const char* peer_a) {
  const size_t a_row = static_cast<size_t>(st->shape.k) * 2;
  const size_t half = static_cast<size_t>(st->plan.border) * a_row;
  const size_t tail = static_cast<size_t>(st->shape.rows - st->plan.border) * a_row;
  const bool low = st->shape.rank == 0;
  char* scratch = static_cast<char*>(st->border_a);
  GA_TRY(cudaStreamWaitEvent(st->lane[0], st->started, 0));
  GA_TRY(copy(scratch + (low ? half : 0), peer_a + (low ? 0 : tail), half, st->lane[0]));
  GA_TRY(copy(scratch + (low ? 0 : half), a + (low ? tail : 0), half, st->lane[0]));
  GA_TRY(cudaEventRecord(st->border_ready, st->lane[0]));
  return SCULLER_OK;
}

}  // namespace
// EVOLVE-BLOCK-END

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (rank->n_ranks > 1 && rank->lsa_size != rank->n_ranks) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    st->sets.push_back(buffers);
    if (rank->n_ranks == 2) {
      const sculler_buffer& buffer_a = pool->set[i].buffer[GA_A];
      const void* theirs = buffer_a.peer ? buffer_a.peer[1 - rank->rank] : nullptr;
      if (!theirs) return SCULLER_UNSUPPORTED_PROBLEM;
      st->peer_a.push_back(static_cast<const char*>(theirs));
    }
  }
  st->plan = make_plan(shape);
  GA_TRY(new_event(&st->started));
  GA_TRY(new_event(&st->border_ready));
  GA_TRY(new_event(&st->closed));
  for (int i = 0; i < kPieces; ++i) GA_TRY(new_event(&st->computed[i]));
  if (st->plan.border > 0)
    GA_TRY(cudaMalloc(&st->border_a, static_cast<size_t>(2 * st->plan.border) * static_cast<size_t>(shape.k) * 2));
  if (rank->n_ranks > 1) {
    ncclDevCommRequirements requirements{};
    requirements.lsaBarrierCount = 1;
    GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
    (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
    st->has_comm = true;
    const int peers = rank->n_ranks - 1;
    st->n_lanes = peers == 1 ? 2 : (peers < kMaxLanes ? peers : kMaxLanes);
  }
  for (int q = 0; q < st->n_lanes; ++q) {
    GA_TRY(cudaStreamCreateWithFlags(&st->lane[q], cudaStreamNonBlocking));
    GA_TRY(new_event(&st->lane_done[q]));
  }
  GA_TRY(cudaMalloc(&st->workspace, kWorkspaceBytes));
  GA_TRY(cublasCreate(&st->blas));
  GA_TRY(cublasSetStream(st->blas, static_cast<cudaStream_t>(rank->stream)));
  GA_TRY(cublasSetWorkspace(st->blas, st->workspace, kWorkspaceBytes));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
// EVOLVE-BLOCK-START
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  auto main_stream = static_cast<cudaStream_t>(st->rank.stream);
  const size_t a_row = static_cast<size_t>(shape.k) * 2;  // bytes
  const size_t c_row = static_cast<size_t>(shape.n) * 2;
  const int n_chunks = static_cast<int>(st->plan.chunks.size());
  const int64_t border = st->plan.border;
  const char* a = static_cast<const char*>(buffers.a);
  char* own = static_cast<char*>(buffers.c[shape.rank]);

  if (border > 0) GA_TRY(cudaEventRecord(st->started, main_stream));

  for (int i = 0; i < n_chunks; ++i) {
    const Chunk chunk = st->plan.chunks[static_cast<size_t>(i)];
    const size_t offset = static_cast<size_t>(shape.first_row + chunk.first) * c_row;  // in C
    const size_t bytes = static_cast<size_t>(chunk.rows) * c_row;
    GA_TRY(gemm(st, chunk.rows, a + static_cast<size_t>(chunk.first) * a_row, buffers.b, own + offset));
    if (shape.n_ranks == 1) continue;
    if (border > 0 && i == 0) GA_TRY(fetch_border(st, a, st->peer_a[static_cast<size_t>(set)]));
    GA_TRY(cudaEventRecord(st->computed[i], main_stream));

    if (border > 0) {
      char* theirs = static_cast<char*>(buffers.c[1 - shape.rank]);
      const size_t part = static_cast<size_t>(chunk.lane0) * c_row;
      // Lane 1 is ahead, so it is served first.
      GA_TRY(cudaStreamWaitEvent(st->lane[1], st->computed[i], 0));
      GA_TRY(cudaStreamWaitEvent(st->lane[0], st->computed[i], 0));
      GA_TRY(copy(theirs + offset + part, own + offset + part, bytes - part, st->lane[1]));
      GA_TRY(copy(theirs + offset, own + offset, part, st->lane[0]));
      continue;
    }
    for (int q = 0; q < st->n_lanes; ++q) GA_TRY(cudaStreamWaitEvent(st->lane[q], st->computed[i], 0));
    for (int j = 1; j < shape.n_ranks; ++j) {
      char* theirs = static_cast<char*>(buffers.c[(shape.rank + j) % shape.n_ranks]);
      GA_TRY(copy(theirs + offset, own + offset, bytes, st->lane[(j - 1) % st->n_lanes]));
    }
  }

  if (border > 0) {
    if (n_chunks == 0) GA_TRY(fetch_border(st, a, st->peer_a[static_cast<size_t>(set)]));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->border_ready, 0));
    // Rows [rows - border, rows + border) of C are the border's, on either rank; nobody else stores them here.
    GA_TRY(gemm(st, 2 * border, st->border_a, buffers.b, own + static_cast<size_t>(shape.rows - border) * c_row));
    // What this rank sends, and what it reads of the peer, is on the lanes: the barrier closes those, beside the GEMM.
    GA_TRY(cudaEventRecord(st->lane_done[1], st->lane[1]));
    GA_TRY(cudaStreamWaitEvent(st->lane[0], st->lane_done[1], 0));
    closing_barrier_kernel<<<1, 32, 0, st->lane[0]>>>(st->comm);
    GA_TRY(cudaGetLastError());
    GA_TRY(cudaEventRecord(st->closed, st->lane[0]));
    GA_TRY(cudaStreamWaitEvent(main_stream, st->closed, 0));
  } else if (shape.n_ranks > 1) {
    for (int q = 0; q < st->n_lanes; ++q) {
      GA_TRY(cudaEventRecord(st->lane_done[q], st->lane[q]));
      GA_TRY(cudaStreamWaitEvent(main_stream, st->lane_done[q], 0));
    }
    closing_barrier_kernel<<<1, 32, 0, main_stream>>>(st->comm);
    GA_TRY(cudaGetLastError());
  }
  return SCULLER_OK;
// EVOLVE-BLOCK-END
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  if (st->has_comm) GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cublasDestroy(st->blas));
  for (int q = 0; q < st->n_lanes; ++q) {
    GA_TRY(cudaEventDestroy(st->lane_done[q]));
    GA_TRY(cudaStreamDestroy(st->lane[q]));
  }
  for (int i = 0; i < kPieces; ++i) GA_TRY(cudaEventDestroy(st->computed[i]));
  GA_TRY(cudaEventDestroy(st->started));
  GA_TRY(cudaEventDestroy(st->border_ready));
  GA_TRY(cudaEventDestroy(st->closed));
  if (st->border_a) GA_TRY(cudaFree(st->border_a));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
