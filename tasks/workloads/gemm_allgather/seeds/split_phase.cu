// sculler:directive {"backend":"lsa","issuer":"warp","placement":"split_phase","sync":"peer","granularity":65536,"why":"Two ordered phases with one device-side exchange between LSA barriers: the plainest device-initiated gather, and the base from which phases are overlapped."}
//
// Phase one: cuBLAS into this rank's slice of C. Phase two: one kernel whose warps push pieces of the slice to the peers,
// between an LSA barrier that opens and one that closes. CTA b waits for CTA b of every peer, and every CTA takes part:
// when the kernel is over, all peers' pieces have arrived.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <vector>

#include "problem.h"

// sculler:tune COPY_CTAS in {8,16,32,64,132}
#ifndef COPY_CTAS
#define COPY_CTAS 64
#endif
// sculler:tune COPY_WARPS in {4,8,16}
#ifndef COPY_WARPS
#define COPY_WARPS 16
#endif
// sculler:tune PIECE_BYTES in {4096,16384,65536}
#ifndef PIECE_BYTES
#define PIECE_BYTES 16384
#endif

namespace {
constexpr size_t kWorkspaceBytes = 32u << 20;
constexpr int kUnroll = 4;

struct Peers {
  __nv_bfloat16* c[GA_MAX_RANKS];
};

// EVOLVE-BLOCK-START
// The slice is `units` 16-byte units from `first_unit` of every C.
__global__ void __launch_bounds__(32 * COPY_WARPS)
    push_slice(Peers peers, int rank, int n_ranks, int64_t first_unit, int64_t units,
               ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);

  constexpr int64_t kPiece = PIECE_BYTES / 16;
  const int64_t pieces = (units + kPiece - 1) / kPiece;
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * COPY_WARPS + threadIdx.x / 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * COPY_WARPS;
  const int lane = threadIdx.x % 32;
  const uint4* from = reinterpret_cast<const uint4*>(peers.c[rank]) + first_unit;
  for (int64_t job = warp; job < pieces * (n_ranks - 1); job += warps) {
    // Ranks start with different peers, so that no link is the target of all at once.
    const int peer = static_cast<int>((rank + 1 + job / pieces) % n_ranks);
    const int64_t begin = job % pieces * kPiece;
    const int64_t end = begin + kPiece < units ? begin + kPiece : units;
    uint4* to = reinterpret_cast<uint4*>(peers.c[peer]) + first_unit;
    int64_t i = begin + lane;
    for (; i + 32 * (kUnroll - 1) < end; i += 32 * kUnroll) {
      uint4 value[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) value[u] = from[i + 32 * u];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) to[i + 32 * u] = value[u];
    }
    for (; i < end; i += 32) to[i] = from[i];
  }

  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  std::vector<ga_buffers> sets;
  cublasHandle_t blas = nullptr;
  void* workspace = nullptr;
};

}  // namespace

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (shape.k % 8 != 0 || shape.n % 8 != 0) return SCULLER_UNSUPPORTED_PROBLEM;  // 16-byte units
  auto* st = new State;
  st->rank = *rank;
  st->shape = shape;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    st->sets.push_back(buffers);
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = COPY_CTAS;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
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
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  const float one = 1.0f, zero = 0.0f;
  auto* slice = static_cast<__nv_bfloat16*>(buffers.c[shape.rank]) + shape.first_row * shape.n;
  GA_TRY(cublasGemmEx(st->blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.n),
                      static_cast<int>(shape.rows), static_cast<int>(shape.k), &one, buffers.b,
                      CUDA_R_16BF, static_cast<int>(shape.k), buffers.a, CUDA_R_16BF,
                      static_cast<int>(shape.k), &zero, slice, CUDA_R_16BF,
                      static_cast<int>(shape.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  Peers peers{};
  for (int r = 0; r < shape.n_ranks; ++r) peers.c[r] = static_cast<__nv_bfloat16*>(buffers.c[r]);
  push_slice<<<COPY_CTAS, 32 * COPY_WARPS, 0, stream>>>(peers, shape.rank, shape.n_ranks,
                                                        shape.first_row * shape.n / 8,
                                                        shape.slice / 8, st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cublasDestroy(st->blas));
  GA_TRY(cudaFree(st->workspace));
  delete st;
  return SCULLER_OK;
}
