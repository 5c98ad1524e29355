// sculler:directive {"backend":"lsa","issuer":"cta","placement":"kernel_fused","sync":"tile","granularity":8388608,"why":"One persistent kernel: most CTAs only compute, a few only push; a row group goes out as soon as its tiles are counted in, so the math never waits for the link."}
//
// CTAs [0, COPY_CTAS) push groups of finished rows to the peers, the others compute tiles. A computing CTA counts each
// finished tile in its row group's counter (release); a pushing CTA waits for the count (acquire) and sends its share of
// the group. The grid is resident as a whole, so nobody waits for a block that has not started.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cuda/atomic>
#include <algorithm>
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
// sculler:tune GROUP_M in {1,2,4,8}
#ifndef GROUP_M
#define GROUP_M 4
#endif
// sculler:tune COPY_CTAS in {4,8,16,24,32}
#ifndef COPY_CTAS
#define COPY_CTAS 16
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
// A wait that long means that a tile was lost: the kernel traps instead of hanging.
constexpr long long kWaitCycles = 4'000'000'000;
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

// Computes the tile at (row0, column0) of the slice and stores it to this rank's C. `c` is where the slice starts.
__device__ void compute_tile(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                             __nv_bfloat16* c, const ga_shape& shape, int64_t row0, int64_t column0,
                             unsigned char* shared) {
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
#pragma unroll 4
  for (int unit = threadIdx.x; unit < TILE_M * TILE_N / 8; unit += kThreads) {
    const int row = unit / (TILE_N / 8), column = unit % (TILE_N / 8) * 8;
    if (row0 + row < shape.rows && column0 + column < shape.n)
      *reinterpret_cast<uint4*>(c + (row0 + row) * shape.n + column0 + column) =
          *reinterpret_cast<const uint4*>(staged + row * kPitch + column);
  }
}

// Waits until `counter` has reached `target`. One thread of the CTA calls it.
__device__ void wait_for(unsigned long long* counter, unsigned long long target) {
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> count(*counter);
  const long long start = clock64();
  while (count.load(cuda::memory_order_acquire) < target)
    if (clock64() - start > kWaitCycles) __trap();
}

// counters[g] counts the finished tiles of row group g over all launches; `launch` is 1 in the first.
__global__ void __launch_bounds__(kThreads, kResident)
    gemm_push(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b, Peers peers,
              ga_shape shape, unsigned long long* counters, unsigned long long launch,
              ncclDevComm comm) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int tiles_m = static_cast<int>((shape.rows + TILE_M - 1) / TILE_M);
  const int tiles_n = static_cast<int>((shape.n + TILE_N - 1) / TILE_N);
  const int groups = (tiles_m + GROUP_M - 1) / GROUP_M;
  __nv_bfloat16* own = peers.c[shape.rank] + shape.first_row * shape.n;

  if (blockIdx.x >= COPY_CTAS) {
    for (int tile = blockIdx.x - COPY_CTAS; tile < tiles_m * tiles_n; tile += gridDim.x - COPY_CTAS) {
      const int group = tile / (GROUP_M * tiles_n), first_m = group * GROUP_M;
      const int group_m = min(GROUP_M, tiles_m - first_m), in_group = tile % (GROUP_M * tiles_n);
      compute_tile(a, b, own, shape, static_cast<int64_t>(first_m + in_group % group_m) * TILE_M,
                   static_cast<int64_t>(in_group / group_m) * TILE_N, shared);
      __syncthreads();  // the tile is stored, and its staging is free
      if (threadIdx.x == 0) {
        cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> count(counters[group]);
        count.fetch_add(1, cuda::memory_order_release);
      }
    }
    return;
  }

  const int64_t row_units = shape.n / 8;
  for (int group = 0; group < groups; ++group) {
    const int group_m = min(GROUP_M, tiles_m - group * GROUP_M);
    if (threadIdx.x == 0)
      wait_for(&counters[group], launch * static_cast<unsigned long long>(group_m) * tiles_n);
    __syncthreads();
    const int64_t first = static_cast<int64_t>(group) * GROUP_M * TILE_M * row_units;
    const int64_t rows = min(static_cast<int64_t>(GROUP_M) * TILE_M,
                             shape.rows - static_cast<int64_t>(group) * GROUP_M * TILE_M);
    const int64_t end = first + rows * row_units, stride = static_cast<int64_t>(COPY_CTAS) * kThreads;
    const uint4* from = reinterpret_cast<const uint4*>(own);
    for (int d = 1; d < shape.n_ranks; ++d) {
      uint4* to = reinterpret_cast<uint4*>(peers.c[(shape.rank + d) % shape.n_ranks] +
                                           shape.first_row * shape.n);
      int64_t i = first + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
      for (; i + 7 * stride < end; i += 8 * stride) {
        uint4 value[8];
#pragma unroll
        for (int u = 0; u < 8; ++u) value[u] = from[i + u * stride];
#pragma unroll
        for (int u = 0; u < 8; ++u) to[i + u * stride] = value[u];
      }
      for (; i < end; i += stride) to[i] = from[i];
    }
  }
  // Pushing CTA b of each rank waits for pushing CTA b of every other: then all that was pushed here has arrived.
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
// EVOLVE-BLOCK-END

struct State {
  sculler_rank rank;
  ga_shape shape;
  ncclDevComm comm;
  unsigned long long* counters = nullptr;
  unsigned long long launches = 0;
  unsigned grid = 0;
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
  requirements.lsaBarrierCount = COPY_CTAS;
  GA_TRY(ncclDevCommCreate(static_cast<ncclComm_t>(rank->comm), &requirements, &st->comm));
  (void)cudaGetLastError();  // DevCommCreate can leave a stale error behind
  const int64_t groups = (shape.rows + GROUP_M * TILE_M - 1) / (GROUP_M * TILE_M);
  const size_t bytes = static_cast<size_t>(groups) * sizeof *st->counters;
  GA_TRY(cudaMalloc(reinterpret_cast<void**>(&st->counters), bytes));
  GA_TRY(cudaMemset(st->counters, 0, bytes));
  GA_TRY(cudaFuncSetAttribute(gemm_push, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  int multiprocessors = 0, resident = 0;
  GA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, rank->device));
  GA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, gemm_push, kThreads, kSharedBytes));
  const int64_t tiles = (shape.rows + TILE_M - 1) / TILE_M * ((shape.n + TILE_N - 1) / TILE_N);
  st->grid = static_cast<unsigned>(
      std::min<int64_t>(static_cast<int64_t>(multiprocessors) * resident, COPY_CTAS + tiles));
  if (st->grid <= COPY_CTAS) return SCULLER_ERROR;
  GA_TRY(cudaDeviceSynchronize());
  *state = st;
  return SCULLER_OK;
}

extern "C" int sculler_run(void* state, const sculler_problem*, int set) {
  auto* st = static_cast<State*>(state);
  const ga_buffers& buffers = st->sets[static_cast<size_t>(set)];
  Peers peers{};
  for (int r = 0; r < st->shape.n_ranks; ++r) peers.c[r] = static_cast<__nv_bfloat16*>(buffers.c[r]);
  gemm_push<<<st->grid, kThreads, kSharedBytes, static_cast<cudaStream_t>(st->rank.stream)>>>(
      static_cast<const __nv_bfloat16*>(buffers.a), static_cast<const __nv_bfloat16*>(buffers.b),
      peers, st->shape, st->counters, ++st->launches, st->comm);
  GA_TRY(cudaGetLastError());
  return SCULLER_OK;
}

extern "C" int sculler_teardown(void* state) {
  auto* st = static_cast<State*>(state);
  GA_TRY(cudaDeviceSynchronize());
  GA_TRY(ncclDevCommDestroy(static_cast<ncclComm_t>(st->rank.comm), &st->comm));
  GA_TRY(cudaFree(st->counters));
  delete st;
  return SCULLER_OK;
}
