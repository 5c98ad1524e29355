// sculler:directive {"backend":"lsa","granularity":8388608,"issuer":"copy_engine","placement":"stream_overlap","sync":"global","why":"GEMM and link take almost equal time, so library GEMMs in six tapered row chunks run beside copy engines, and a seventh GEMM computes the 2/64 of rows on either side of the slices' common border on both ranks, so that the last copies leave beneath it instead of after it. GEMMs alternate between two streams; a lead part of each chunk's copy stands in front of the GEMM after the next and releases it about 6 us before the running one ends, so that only its start overlaps. The rest of each chunk goes as two copies on two more streams, so that at least two copies share the link at all times. One LSA barrier closes."}
// C = A * B^T in row chunks by cuBLAS, written directly into this rank's slice of C; copy engines push each finished
// chunk into the peers' C while the next ones are computed. With two ranks the rows next to the border between the two
// slices are computed by both ranks, in one last GEMM: what was computed before is sent beneath it, and nothing after.
//
// Two streams take turns with the GEMMs, and each holds, in order: a GEMM, the lead part of that chunk's copy, its next
// GEMM. The lead part is sized to end shortly before the other stream's GEMM does, so that the start of the next GEMM
// hides behind the end of that one, and no more than that is shared. The rest of each chunk is copied in two halves on
// two further streams, so that two copies at least are under way at all times. One LSA barrier in a kernel of its own,
// after all has been joined, closes the iteration.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "problem.h"
#include "sculler/candidate.h"

// EVOLVE-BLOCK-START
// sculler:tune SCHEDULE in {0,1,2}
#ifndef SCHEDULE
#define SCHEDULE 0
#endif
// 128ths by which the lead parts are shortened (negative: lengthened); a GEMM is released earlier then.
// sculler:tune EARLIER in {-2,0,2}
#ifndef EARLIER
#define EARLIER 0
#endif

namespace {

constexpr size_t kWorkspaceBytes = 32u << 20;
constexpr int kUnits = 64;  // a schedule is in 64ths of the rank's rows
constexpr int kMaxChunks = 6;
constexpr int kCopyStreams = 2;
// The chunks that are sent; with kEdge they make up kUnits.
constexpr int kSchedules[3][kMaxChunks] = {
    {19, 14, 11, 8, 6, 4},
    {18, 14, 11, 8, 6, 4},
    {18, 14, 11, 8, 6, 5},
};
// Of two ranks: rows on either side of the border between the slices that both ranks compute.
constexpr int kEdge[3] = {2, 3, 2};
// 128ths of a chunk's bytes in the lead part, which holds back the GEMM after the next one.
constexpr int kLead[3][kMaxChunks] = {
    {37, 41, 38, 37, 32, 76},
    {39, 41, 38, 37, 32, 76},
    {39, 41, 38, 37, 41, 76},
};

// Everything this rank sent came before on this stream; what the peers sent has arrived when it returns.
__global__ void closing_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

struct State {
  sculler_rank rank;
  ga_shape shape;
  std::vector<ga_buffers> sets;
  std::vector<const void*> peer_a;  // two ranks: the other rank's A, a set
  std::vector<int64_t> bound;       // chunk i: rows [bound[i], bound[i + 1]) of the slice
  std::vector<int> lead;            // chunk i: 128ths of its bytes in the lead part
  int64_t edge = 0;                 // rows on either side of the border that both ranks compute
  void* edge_a = nullptr;           // [2 * edge, K]: the rows of A on both sides of the border
  ncclDevComm comm{};
  bool have_comm = false;
  cublasHandle_t blas[2] = {};  // 0: on the rank's stream, 1: on `side`
  void* workspace[2] = {};
  cudaStream_t side = nullptr;
  cudaEvent_t begun = nullptr;
  cudaEvent_t side_done = nullptr;
  cudaStream_t copies[kCopyStreams] = {};
  cudaEvent_t copied[kCopyStreams] = {};
  cudaEvent_t computed[kMaxChunks] = {};
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem, const sculler_pool* pool,
                             void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (rank->n_ranks > 1 && rank->lsa_size != rank->n_ranks) return SCULLER_UNSUPPORTED_PROBLEM;
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  bool share_edge = shape.n_ranks == 2;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) {
      delete st;
      return code;
    }
    st->sets.push_back(buffers);
    const void* other = nullptr;
    if (shape.n_ranks == 2 && pool->set[i].buffer[GA_A].peer) other = pool->set[i].buffer[GA_A].peer[1 - shape.rank];
    if (!other) share_edge = false;
    st->peer_a.push_back(other);
  }

  // Whole tiles of rows where there are enough of them; never coarser than the schedule's unit.
  int64_t align = 128;
  while (align > 4 && align > shape.rows / kUnits) align /= 2;
  if (share_edge) st->edge = shape.rows * kEdge[SCHEDULE] / kUnits / align * align;

  // Rank 0's rows end at the border, rank 1's begin there.
  const int64_t first = shape.rank == 0 ? 0 : st->edge;
  const int64_t sent = shape.rows - st->edge;
  int total = 0;
  for (int i = 0; i < kMaxChunks; ++i) total += kSchedules[SCHEDULE][i];
  st->bound.push_back(first);
  int units = 0;
  for (int i = 0; i < kMaxChunks; ++i) {
    units += kSchedules[SCHEDULE][i];
    const int64_t end = first + (units >= total ? sent : sent * units / total / align * align);
    if (end > st->bound.back()) {
      st->bound.push_back(end);
      st->lead.push_back(kLead[SCHEDULE][i] - (i == kMaxChunks - 1 ? 0 : EARLIER));
    }
  }

  if (rank->n_ranks > 1) {
    ncclDevCommRequirements requirements{};
    requirements.lsaBarrierCount = 1;
    if (ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm) != ncclSuccess)
      return SCULLER_ERROR;
    (void)cudaGetLastError();  // ncclDevCommCreate can leave a stale error behind
    st->have_comm = true;
  }

  GA_TRY(cudaStreamCreateWithFlags(&st->side, cudaStreamNonBlocking));
  GA_TRY(cudaEventCreateWithFlags(&st->begun, cudaEventDisableTiming));
  GA_TRY(cudaEventCreateWithFlags(&st->side_done, cudaEventDisableTiming));
  for (int w = 0; w < 2; ++w) {
    GA_TRY(cudaMalloc(&st->workspace[w], kWorkspaceBytes));
    GA_TRY(cublasCreate(&st->blas[w]));
    GA_TRY(cublasSetStream(st->blas[w], w == 0 ? static_cast<cudaStream_t>(rank->stream) : st->side));
    GA_TRY(cublasSetWorkspace(st->blas[w], st->workspace[w], kWorkspaceBytes));
  }
  if (st->edge > 0) GA_TRY(cudaMalloc(&st->edge_a, static_cast<size_t>(2 * st->edge * shape.k) * 2));
  for (int i = 0; i < kCopyStreams; ++i) {
    GA_TRY(cudaStreamCreateWithFlags(&st->copies[i], cudaStreamNonBlocking));
    GA_TRY(cudaEventCreateWithFlags(&st->copied[i], cudaEventDisableTiming));
  }
  for (int i = 0; i < kMaxChunks; ++i)
    GA_TRY(cudaEventCreateWithFlags(&st->computed[i], cudaEventDisableTiming));
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  const ga_shape& shape = st->shape;
  const cudaStream_t stream = static_cast<cudaStream_t>(st->rank.stream);
  const int n_ranks = shape.n_ranks;
  const int n_chunks = static_cast<int>(st->bound.size()) - 1;
  const size_t a_row = static_cast<size_t>(shape.k) * 2;  // bytes
  const size_t c_row = static_cast<size_t>(shape.n) * 2;
  bool used[kCopyStreams] = {};
  int turn = 0;

  // Chunks 0 and 1 follow each other on the rank's stream (nothing could release chunk 1 in time), then they alternate.
  auto lane = [](int i) { return i == 0 ? 0 : (i + 1) % 2; };

  auto gemm = [&](int w, const void* a, int64_t rows, void* c) -> int {
    const float one = 1.0f, zero = 0.0f;
    // cuBLAS is column-major: the chunk of C, [rows, n] here, is [n, rows] there.
    GA_TRY(cublasGemmEx(st->blas[w], CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n), static_cast<int>(rows),
                        static_cast<int>(shape.k), &one, buffers.b, CUDA_R_16BF, static_cast<int>(shape.k), a,
                        CUDA_R_16BF, static_cast<int>(shape.k), &zero, c, CUDA_R_16BF, static_cast<int>(shape.n),
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return SCULLER_OK;
  };

  auto compute = [&](int i) -> int {
    const int64_t row = st->bound[static_cast<size_t>(i)];
    const int64_t rows = st->bound[static_cast<size_t>(i) + 1] - row;
    const char* a = static_cast<const char*>(buffers.a) + static_cast<size_t>(row) * a_row;
    char* own = static_cast<char*>(buffers.c[shape.rank]) + static_cast<size_t>(shape.first_row + row) * c_row;
    const int w = lane(i);
    GA_TRY(gemm(w, a, rows, own));
    GA_TRY(cudaEventRecord(st->computed[i], w == 0 ? stream : st->side));
    return SCULLER_OK;
  };

  // On the side stream, as the pulled rows are: rows [rows - edge, rows + edge) of C, around the border.
  auto compute_edge = [&]() -> int {
    char* own = static_cast<char*>(buffers.c[shape.rank]) + static_cast<size_t>(shape.rows - st->edge) * c_row;
    GA_TRY(gemm(1, st->edge_a, 2 * st->edge, own));
    return SCULLER_OK;
  };

  auto send = [&](int i) -> int {
    const int64_t row = st->bound[static_cast<size_t>(i)];
    const int64_t rows = st->bound[static_cast<size_t>(i) + 1] - row;
    const size_t offset = static_cast<size_t>(shape.first_row + row) * c_row;
    const size_t bytes = static_cast<size_t>(rows) * c_row;
    const char* own = static_cast<const char*>(buffers.c[shape.rank]) + offset;

    // The lead part follows its GEMM in order; that of chunk 0, behind which chunk 1 is already enqueued, goes to the
    // side stream, in front of chunk 2.
    cudaStream_t lead_stream = lane(i) == 0 ? stream : st->side;
    if (i == 0) {
      GA_TRY(cudaStreamWaitEvent(st->side, st->computed[0], 0));
      lead_stream = st->side;
    }

    bool waited[kCopyStreams] = {};
    auto push = [&](char* to, size_t begin, size_t end) -> int {
      if (begin >= end) return SCULLER_OK;
      const int s = turn++ % kCopyStreams;
      if (!waited[s]) GA_TRY(cudaStreamWaitEvent(st->copies[s], st->computed[i], 0));
      waited[s] = true;
      used[s] = true;
      GA_TRY(cudaMemcpyAsync(to + begin, own + begin, end - begin, cudaMemcpyDeviceToDevice, st->copies[s]));
      return SCULLER_OK;
    };

    for (int p = 1; p < n_ranks; ++p) {
      char* to = static_cast<char*>(buffers.c[(shape.rank + p) % n_ranks]) + offset;
      if (p > 1) {
        GA_TRY(push(to, 0, bytes));
        continue;
      }
      const size_t cut = bytes / 128 * static_cast<size_t>(st->lead[static_cast<size_t>(i)]) / 256 * 256;
      const size_t middle = cut + (bytes - cut) / 2 / 256 * 256;
      if (cut > 0) GA_TRY(cudaMemcpyAsync(to, own, cut, cudaMemcpyDeviceToDevice, lead_stream));
      GA_TRY(push(to, cut, middle));
      GA_TRY(push(to, middle, bytes));
    }
    return SCULLER_OK;
  };

  GA_TRY(cudaEventRecord(st->begun, stream));
  if (n_chunks > 0) GA_TRY(compute(0));
  if (n_chunks > 1) GA_TRY(compute(1));
  GA_TRY(cudaStreamWaitEvent(st->side, st->begun, 0));

  // The rows of A on both sides of the border, while the link idles beneath the first GEMM: the last of rank 0, the
  // first of rank 1.
  if (st->edge > 0) {
    const size_t half = static_cast<size_t>(st->edge) * a_row;
    const size_t tail = static_cast<size_t>(shape.rows - st->edge) * a_row;  // of rank 0's A
    const char* mine = static_cast<const char*>(buffers.a) + (shape.rank == 0 ? tail : 0);
    const char* other = static_cast<const char*>(st->peer_a[static_cast<size_t>(set)]) + (shape.rank == 0 ? 0 : tail);
    char* edge_a = static_cast<char*>(st->edge_a);
    GA_TRY(cudaMemcpyAsync(edge_a + (shape.rank == 0 ? half : 0), other, half, cudaMemcpyDeviceToDevice, st->side));
    GA_TRY(cudaMemcpyAsync(edge_a + (shape.rank == 0 ? 0 : half), mine, half, cudaMemcpyDeviceToDevice, st->side));
  }

  // Chunk i + 1 is enqueued already; behind the lead part of chunk i stands chunk i + 2, and behind that of the last
  // but one the edge.
  for (int i = 0; i < n_chunks; ++i) {
    if (n_ranks > 1) GA_TRY(send(i));
    if (i + 2 < n_chunks) GA_TRY(compute(i + 2));
    if (st->edge > 0 && (i + 2 == n_chunks || n_chunks == 1)) GA_TRY(compute_edge());
  }

  for (int s = 0; s < kCopyStreams; ++s) {
    if (!used[s]) continue;
    GA_TRY(cudaEventRecord(st->copied[s], st->copies[s]));
    GA_TRY(cudaStreamWaitEvent(stream, st->copied[s], 0));
  }
  GA_TRY(cudaEventRecord(st->side_done, st->side));
  GA_TRY(cudaStreamWaitEvent(stream, st->side_done, 0));
  if (n_ranks > 1) {
    closing_barrier<<<1, 32, 0, stream>>>(st->comm);
    GA_TRY(cudaGetLastError());
  }
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  if (st->have_comm) GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  for (int i = 0; i < kCopyStreams; ++i) {
    GA_TRY(cudaEventDestroy(st->copied[i]));
    GA_TRY(cudaStreamDestroy(st->copies[i]));
  }
  for (int i = 0; i < kMaxChunks; ++i) GA_TRY(cudaEventDestroy(st->computed[i]));
  for (int w = 0; w < 2; ++w) {
    GA_TRY(cublasDestroy(st->blas[w]));
    GA_TRY(cudaFree(st->workspace[w]));
  }
  if (st->edge_a) GA_TRY(cudaFree(st->edge_a));
  GA_TRY(cudaEventDestroy(st->begun));
  GA_TRY(cudaEventDestroy(st->side_done));
  GA_TRY(cudaStreamDestroy(st->side));
  delete st;
  return SCULLER_OK;
}
// EVOLVE-BLOCK-END
