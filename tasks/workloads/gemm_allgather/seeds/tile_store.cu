// sculler:directive {"backend":"lsa","issuer":"cta","placement":"tile_fused","sync":"tile","granularity":65536,"why":"A tile is sent the moment it is finished, by 16-byte stores of the CTA that computed it, so the link works through the whole GEMM and C is never read again."}
//
// One kernel: a multistage mma.sync GEMM (cp.async, ldmatrix) whose epilogue stores each tile to the own C and to every
// peer's C. The last CTA of the grid to finish runs the closing LSA barrier. The harness's barrier before the iteration
// is the opening handshake: nobody still uses the previous contents of C when a peer's first tile lands.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cuda/atomic>
#include <vector>

#include "problem.h"

// sculler:tune TILE_M in {64,128}
#ifndef TILE_M
#define TILE_M 128
#endif
// sculler:tune TILE_N in {64,128,256}
#ifndef TILE_N
#define TILE_N 128
#endif
// sculler:tune STAGES in {2,3,4}
#ifndef STAGES
#define STAGES 3
#endif
// sculler:tune GROUP_M in {1,4,8,16}
#ifndef GROUP_M
#define GROUP_M 8
#endif

namespace {

constexpr int kTileK = 64;  // elements: 128 bytes, one swizzled row of shared memory
constexpr int kWarpsM = 2, kWarpsN = 4, kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = TILE_M / kWarpsM, kWarpN = TILE_N / kWarpsN;
constexpr int kFragM = kWarpM / 16, kFragN = kWarpN / 8;
constexpr int kStageBytes = (TILE_M + TILE_N) * kTileK * 2;
constexpr int kPitch = TILE_N + 8;  // elements of a staged row of C; 8 more keep the banks apart
constexpr int kSharedBytes =
    STAGES * kStageBytes > TILE_M * kPitch * 2 ? STAGES * kStageBytes : TILE_M * kPitch * 2;
constexpr int kResident = TILE_M * TILE_N <= 128 * 128 ? 2 : 1;  // blocks a multiprocessor
static_assert(kFragM >= 1 && kFragN >= 2 && kFragN % 2 == 0, "tile too small for 2 x 4 warps");

struct Peers {
  __nv_bfloat16* c[GA_MAX_RANKS];
};

// EVOLVE-BLOCK-START
__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes into shared memory; `valid` false fills zeros and reads nothing.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void load_matrix(unsigned (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rows [row0, row0 + kRows) of a [rows, k] matrix into a stage; 16-byte units are swizzled by the row.
template <int kRows>
__device__ __forceinline__ void load_tile(unsigned to, const __nv_bfloat16* from, int64_t row0,
                                          int64_t rows, int64_t k0, int64_t k) {
#pragma unroll
  for (int i = 0; i < kRows * 8 / kThreads; ++i) {
    const int unit = i * kThreads + threadIdx.x, row = unit / 8, column = unit % 8;
    const bool valid = row0 + row < rows && k0 + column * 8 < k;
    const __nv_bfloat16* source = valid ? from + (row0 + row) * k + k0 + column * 8 : from;
    copy_async(to + row * 128 + ((column ^ (row & 7)) << 4), source, valid);
  }
}

__global__ void __launch_bounds__(kThreads, kResident)
    gemm_tile_store(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                    Peers peers, ga_shape shape, unsigned long long* finished, ncclDevComm comm) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int tiles_m = static_cast<int>((shape.rows + TILE_M - 1) / TILE_M);
  const int tiles_n = static_cast<int>((shape.n + TILE_N - 1) / TILE_N);
  // GROUP_M rows of tiles are walked column by column, so that a wave shares its operands in L2.
  const int group = blockIdx.x / (GROUP_M * tiles_n), first_m = group * GROUP_M;
  const int group_m = min(GROUP_M, tiles_m - first_m), in_group = blockIdx.x % (GROUP_M * tiles_n);
  const int64_t row0 = static_cast<int64_t>(first_m + in_group % group_m) * TILE_M;
  const int64_t column0 = static_cast<int64_t>(in_group / group_m) * TILE_N;
  const int steps = static_cast<int>((shape.k + kTileK - 1) / kTileK);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_m = (warp % kWarpsM) * kWarpM, warp_n = (warp / kWarpsM) * kWarpN;
  const unsigned base = shared_address(shared);

  float sum[kFragM][kFragN][4];
#pragma unroll
  for (int i = 0; i < kFragM; ++i)
#pragma unroll
    for (int j = 0; j < kFragN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;

  auto load_stage = [&](int step) {
    if (step < steps) {
      const unsigned to = base + (step % STAGES) * kStageBytes;
      load_tile<TILE_M>(to, a, row0, shape.rows, static_cast<int64_t>(step) * kTileK, shape.k);
      load_tile<TILE_N>(to + TILE_M * 128, b, column0, shape.n,
                        static_cast<int64_t>(step) * kTileK, shape.k);
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) load_stage(s);

  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();  // the stage has landed for all, and all have left the one that is loaded next
    load_stage(step + STAGES - 1);
    const unsigned stage_a = base + (step % STAGES) * kStageBytes, stage_b = stage_a + TILE_M * 128;
#pragma unroll
    for (int kk = 0; kk < kTileK / 16; ++kk) {
      unsigned fa[kFragM][4], fb[kFragN / 2][4];
#pragma unroll
      for (int i = 0; i < kFragM; ++i) {
        const int row = warp_m + i * 16 + lane % 16, column = kk * 2 + lane / 16;
        load_matrix(fa[i], stage_a + row * 128 + ((column ^ (row & 7)) << 4));
      }
#pragma unroll
      for (int j = 0; j < kFragN / 2; ++j) {
        const int row = warp_n + j * 16 + lane % 8 + (lane / 16) * 8, column = kk * 2 + lane / 8 % 2;
        load_matrix(fb[j], stage_b + row * 128 + ((column ^ (row & 7)) << 4));
      }
#pragma unroll
      for (int i = 0; i < kFragM; ++i)
#pragma unroll
        for (int j = 0; j < kFragN; ++j)
          multiply(sum[i][j], fa[i], fb[j / 2][(j % 2) * 2], fb[j / 2][(j % 2) * 2 + 1]);
    }
  }
  asm volatile("cp.async.wait_group 0;\n" ::: "memory");
  __syncthreads();

  // Through shared memory, so that a row of the tile leaves as whole 16-byte stores.
  __nv_bfloat16* staged = reinterpret_cast<__nv_bfloat16*>(shared);
#pragma unroll
  for (int i = 0; i < kFragM; ++i)
#pragma unroll
    for (int j = 0; j < kFragN; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_m + i * 16 + lane / 4 + half * 8, column = warp_n + j * 8 + lane % 4 * 2;
        *reinterpret_cast<__nv_bfloat162*>(staged + row * kPitch + column) =
            __floats2bfloat162_rn(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
      }
  __syncthreads();
  for (int d = 0; d < shape.n_ranks; ++d) {
    const int to = (shape.rank + d) % shape.n_ranks;  // own copy first; ranks start with different peers
    __nv_bfloat16* c = peers.c[to] + shape.first_row * shape.n;
#pragma unroll 4
    for (int unit = threadIdx.x; unit < TILE_M * TILE_N / 8; unit += kThreads) {
      const int row = unit / (TILE_N / 8), column = unit % (TILE_N / 8) * 8;
      if (row0 + row < shape.rows && column0 + column < shape.n)
        *reinterpret_cast<uint4*>(c + (row0 + row) * shape.n + column0 + column) =
            *reinterpret_cast<const uint4*>(staged + row * kPitch + column);
    }
  }

  // Stores of all CTAs -> (block barrier, acq_rel count) -> the last CTA -> release to the peers; the same CTA acquires
  // theirs before this kernel, and with it the stream, completes. `finished` only grows: no reset between iterations.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> count(*finished);
    last = (count.fetch_add(1, cuda::memory_order_acq_rel) + 1) % gridDim.x == 0;
  }
  __syncthreads();
  if (last) {
    ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  }
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  unsigned long long* finished = nullptr;
  std::vector<ga_buffers> sets;
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
  requirements.lsaBarrierCount = 1;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  GA_TRY(cudaMalloc(reinterpret_cast<void**>(&st->finished), sizeof *st->finished));
  GA_TRY(cudaMemset(st->finished, 0, sizeof *st->finished));
  GA_TRY(cudaFuncSetAttribute(gemm_tile_store, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kSharedBytes));
  GA_TRY(cudaDeviceSynchronize());
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  Peers peers{};
  for (int r = 0; r < st->shape.n_ranks; ++r) peers.c[r] = static_cast<__nv_bfloat16*>(buffers.c[r]);
  const unsigned grid = static_cast<unsigned>(((st->shape.rows + TILE_M - 1) / TILE_M) *
                                              ((st->shape.n + TILE_N - 1) / TILE_N));
  gemm_tile_store<<<grid, kThreads, kSharedBytes, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const __nv_bfloat16*>(buffers.a), static_cast<const __nv_bfloat16*>(buffers.b),
      peers, st->shape, st->finished, st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cudaFree(st->finished));
  delete st;
  return SCULLER_OK;
}
