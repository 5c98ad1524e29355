// A warp-specialised GEMM with everything Hopper has for it, written by hand: a producer warp loads tiles by TMA, four warps
// multiply by wgmma, and the result goes by TMA to every rank's C, whose other rows each rank then sums up. `without` leaves
// one step out. Compiled by data/generate.sh.
#include <cuda.h>
#include <cuda_bf16.h>

#include <cuda/atomic>

#include "hopper_ptx.cuh"

enum Step { kNothing, kFullWait, kEmptyWait, kStoreFence, kStoreWait, kRankBarrier, kMatrixWait, kInitFence, kBytes, kRelease, kReadWait };

constexpr int kM = 64, kN = 32, kK = 64, kStages = 2;

struct Tiles {
  alignas(1024) __nv_bfloat16 a[kStages][kM * kK], b[kStages][kN * kK];
  alignas(1024) __nv_bfloat16 c[kM * kN];
  uint64_t full[kStages], empty[kStages];
};

// Blocks of a cluster are neighbours in x and share the rows of A: each loads its part and gives it to all.
template <int kCluster>
__device__ void gemm_body(const CUtensorMap& a, const CUtensorMap& b, const CUtensorMap* c, int n_ranks, int rank, int k_tiles,
                     unsigned* const* flags, const __nv_bfloat16* gathered, float* sums, int without) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Tiles& t = *reinterpret_cast<Tiles*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * kM, column = blockIdx.x * kN;
  const uint32_t me = kCluster > 1 ? ptx::cluster_rank() : 0;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::init(&t.full[s], 1);  // LINE init
      ptx::init(&t.empty[s], 4 * kCluster);
    }
    if (without != kInitFence) ptx::fence_init();
  }
  if (kCluster > 1) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  __syncthreads();
  if (warp == 4) {
    if (lane == 0) {
      for (int k = 0; k < k_tiles; ++k) {
        const int s = k % kStages;
        if (k >= kStages && without != kEmptyWait) ptx::wait(&t.empty[s], (k / kStages - 1) & 1);  // LINE empty_wait
        ptx::expect(&t.full[s], (kM + kN) * kK * 2 + (without == kBytes ? 64 : 0));
        if (kCluster == 1) {
          ptx::load(t.a[s], &a, k * kK, row, &t.full[s]);  // LINE load
        } else {
          const int part = kM / kCluster;
          ptx::load_to_all(t.a[s] + me * part * kK, &a, k * kK, row + me * part, &t.full[s], (1 << kCluster) - 1);  // LINE multicast
        }
        ptx::load(t.b[s], &b, k * kK, column, &t.full[s]);
      }
    }
  } else {
    float d[16] = {};
    for (int k = 0; k < k_tiles; ++k) {
      const int s = k % kStages;
      if (without != kFullWait) ptx::wait(&t.full[s], k / kStages & 1);  // LINE full_wait
      ptx::wgmma_begin();
      for (int i = 0; i < kK / 16; ++i) {
        ptx::wgmma(d, ptx::descriptor(t.a[s]) + i * 2, ptx::descriptor(t.b[s]) + i * 2);  // LINE wgmma
      }
      ptx::wgmma_commit();
      if (without != kMatrixWait) ptx::wgmma_wait();
      if (lane < kCluster && (without != kRelease || warp != 2)) ptx::arrive(&t.empty[s], lane);
    }
    ptx::wgmma_wait();
    for (int i = 0; i < 16; i += 2) {
      const int m = warp * 16 + lane / 4 + i % 4 / 2 * 8, n = i / 4 * 8 + lane % 4 * 2;
      *reinterpret_cast<__nv_bfloat162*>(&t.c[m * kN + n]) = __floats2bfloat162_rn(d[i], d[i + 1]);  // LINE stage
    }
    if (without != kStoreFence) ptx::fence_async();
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      for (int r = 0; r < n_ranks; ++r) {
        ptx::store(&c[r], column, rank * gridDim.y * kM + row, t.c);  // LINE store
      }
      ptx::commit();
      if (without != kReadWait) ptx::wait_read();
    }
    asm volatile("bar.sync 1, 128;" ::: "memory");
    t.c[threadIdx.x] = __float2bfloat16(0.f);  // LINE reuse
    if (threadIdx.x == 0 && without != kStoreWait) ptx::wait_written();
    if (threadIdx.x == 0 && without != kRankBarrier) {
      for (int r = 0; r < n_ranks; ++r) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_system>(*flags[r]).fetch_add(1, cuda::memory_order_release);
      }
      cuda::atomic_ref<unsigned, cuda::thread_scope_system> mine(*flags[rank]);
      while (mine.load(cuda::memory_order_acquire) < n_ranks * gridDim.x * gridDim.y) {}  // LINE flag
    }
    asm volatile("bar.sync 1, 128;" ::: "memory");
    // This block's columns of all ranks' rows.
    float sum = 0;
    for (int m = threadIdx.x; m < n_ranks * gridDim.y * kM; m += 128) {
      for (int n = 0; n < kN; n += 2) {
        const __nv_bfloat162 v = *reinterpret_cast<const __nv_bfloat162*>(&gathered[m * (gridDim.x * kN) + column + n]);  // LINE gathered
        sum += __low2float(v) + __high2float(v);
      }
    }
    atomicAdd(&sums[blockIdx.x], blockIdx.y == 0 ? sum : 0.f);
  }
  if (kCluster > 1) {
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

struct Maps {
  CUtensorMap c[4];
};
extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                                const __grid_constant__ Maps c, int n_ranks, int rank, int k_tiles, unsigned* const* flags,
                                const __nv_bfloat16* gathered, float* sums, int without) {
  gemm_body<1>(a, b, c.c, n_ranks, rank, k_tiles, flags, gathered, sums, without);
}
extern "C" __global__ void gemm_cluster(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                                        const __grid_constant__ Maps c, int n_ranks, int rank, int k_tiles, unsigned* const* flags,
                                        const __nv_bfloat16* gathered, float* sums, int without) {
  gemm_body<2>(a, b, c.c, n_ranks, rank, k_tiles, flags, gathered, sums, without);
}
