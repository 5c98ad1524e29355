// sculler:directive {"backend":"lsa","issuer":"thread","placement":"tile_fused","sync":"global","granularity":8192,"why":"wgmma at library speed, and the epilogue's TMA stores go to every rank's window from one staged tile: nothing is read again and no SM is spent on copying."}
// sculler:requires cutlass
//
// The whole GEMM is one fused CUTLASS kernel; a second kernel runs the closing LSA barrier once all its stores are done.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <memory>
#include <vector>

#include "cutlass_gemm.h"
#include "problem.h"

// Index into ga::ShapeOf: cooperative 128x256 (0), 128x256 with wide clusters (1), 256x128 (2), ping-pong 64x256 (3),
// 128x128 (4).
// sculler:tune SHAPE in {0,1,2,3,4}
#ifndef SHAPE
#define SHAPE 4
#endif
// Columns of a piece of a tile that is stored at once.
// sculler:tune STORE_COLUMNS in {32,64,128}
#ifndef STORE_COLUMNS
#define STORE_COLUMNS 32
#endif
// sculler:tune RASTER in {0,1,2}
#ifndef RASTER
#define RASTER 1
#endif
// sculler:tune SWIZZLE in {1,2,4}
#ifndef SWIZZLE
#define SWIZZLE 1
#endif

// EVOLVE-BLOCK-START
namespace {
constexpr int kMaxRanks = 8;  // tensor maps are kernel parameters, one a rank
using Fused = ga::Gemm<kMaxRanks, ga::ShapeOf<SHAPE>, STORE_COLUMNS>;

struct State {
  sculler_rank rank;
  ncclDevComm comm;
  std::vector<std::unique_ptr<Fused>> sets;
};

__global__ void closing_barrier(ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
}  // namespace
// EVOLVE-BLOCK-END

extern "C" int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                             const sculler_pool* pool, void** state) {
  ga_shape shape;
  if (int code = ga_shape_of(problem, rank->rank, rank->n_ranks, &shape)) return code;
  if (rank->n_ranks > kMaxRanks || shape.k % 8 != 0 || shape.n % 8 != 0)
    return SCULLER_UNSUPPORTED_PROBLEM;
  int multiprocessors = 0;
  GA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, rank->device));
  auto* st = new State;
  st->rank = *rank;
  for (uint32_t i = 0; i < pool->n_sets; ++i) {
    ga_buffers buffers;
    if (int code = ga_buffers_of(&pool->set[i], rank, 1, &buffers)) return code;
    void* destination[kMaxRanks];
    for (int d = 0; d < rank->n_ranks; ++d)  // own copy first; ranks start with different peers
      destination[d] = static_cast<__nv_bfloat16*>(buffers.c[(rank->rank + d) % rank->n_ranks]) +
                       shape.first_row * shape.n;
    st->sets.push_back(std::make_unique<Fused>());
    GA_TRY(st->sets.back()->prepare(shape.rows, shape.n, shape.k, buffers.a, buffers.b, destination,
                                    rank->n_ranks, RASTER, SWIZZLE, multiprocessors));
  }
  ncclDevCommRequirements requirements{};
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const auto stream = static_cast<cudaStream_t>(st->rank.stream);
  GA_TRY(st->sets[static_cast<size_t>(set)]->run(stream));
  closing_barrier<<<1, 32, 0, stream>>>(st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  delete st;
  return SCULLER_OK;
}
