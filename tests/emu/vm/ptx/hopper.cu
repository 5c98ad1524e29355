// Instructions of Hopper's asynchronous path, one family a kernel: mbarriers, bulk copies, tensor copies, wgmma, clusters.
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline uint32_t address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline void init(uint64_t* bar, uint32_t n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(n) : "memory");
}
__device__ inline uint64_t arrive(uint64_t* bar) {
  uint64_t state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(address(bar)) : "memory");
  return state;
}
__device__ inline void expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(bar)), "r"(bytes) : "memory");
}
__device__ inline bool done(uint64_t* bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(ok) : "r"(address(bar)), "r"(parity) : "memory");
  return ok != 0;
}
__device__ inline void wait(uint64_t* bar, uint32_t parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra over; bra again; over: }"
               ::"r"(address(bar)), "r"(parity) : "memory");
}
__device__ inline void fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Counts, phases, transactions: out[k] is what the host expects, in order.
extern "C" __global__ void barriers(uint32_t* out) {
  __shared__ uint64_t bar[2];
  int k = 0;
  if (threadIdx.x == 0) {
    init(&bar[0], 2);
    out[k++] = done(&bar[0], 1);  // the phase before the first counts as complete
    out[k++] = done(&bar[0], 0);
    uint64_t first = arrive(&bar[0]);
    uint32_t pending;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(first));
    out[k++] = pending;
    out[k++] = done(&bar[0], 0);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(address(&bar[0])), "r"(64) : "memory");
    arrive(&bar[0]);
    out[k++] = done(&bar[0], 0);  // bytes are missing
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(address(&bar[0])), "r"(64) : "memory");
    out[k++] = done(&bar[0], 0);
    uint32_t ok;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ok) : "r"(address(&bar[0])), "l"(first) : "memory");
    out[k++] = ok;
    out[k++] = done(&bar[0], 1);  // the second phase
    uint64_t state;
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(address(&bar[0])) : "memory");
    arrive(&bar[0]);
    out[k++] = done(&bar[0], 1);
    arrive(&bar[0]);  // one is enough from now on
    out[k++] = done(&bar[0], 0);
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address(&bar[0])) : "memory");
  }
}

// Bytes in and out, and sums on the way: in → shared → out, out += shared.
extern "C" __global__ void bulk(const float* in, float* out, float* sum, uint32_t bytes) {
  extern __shared__ __align__(128) float data[];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    init(&bar, 1);
    fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(&bar, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(address(data)), "l"(in), "r"(bytes), "r"(address(&bar)) : "memory");
  }
  wait(&bar, 0);
  for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) data[i] = data[i] * 2.f + 1.f;
  fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(address(data)), "r"(bytes) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(sum), "r"(address(data)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// A box of a tensor as it lies in shared memory, and back to another tensor.
template <int kDims>
__device__ void tensor_box(const CUtensorMap& from, const CUtensorMap& to, int x, int y, int z, int tx, int ty, int tz,
                           uint32_t bytes, uint32_t* image) {
  extern __shared__ __align__(1024) uint32_t box[];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&from) : "memory");
    init(&bar, 1);
    fence();
    expect(&bar, bytes);
    if (kDims == 2)
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                   ::"r"(address(box)), "l"(&from), "r"(x), "r"(y), "r"(address(&bar)) : "memory");
    else
      asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                   ::"r"(address(box)), "l"(&from), "r"(x), "r"(y), "r"(z), "r"(address(&bar)) : "memory");
  }
  __syncthreads();
  wait(&bar, 0);
  for (uint32_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) image[i] = box[i];
  if (threadIdx.x == 0) {
    if (kDims == 2)
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                   ::"l"(&to), "r"(tx), "r"(ty), "r"(address(box)) : "memory");
    else
      asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                   ::"l"(&to), "r"(tx), "r"(ty), "r"(tz), "r"(address(box)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
extern "C" __global__ void tensor2(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int x, int y,
                                   int tx, int ty, uint32_t bytes, uint32_t* image) {
  tensor_box<2>(from, to, x, y, 0, tx, ty, 0, bytes, image);
}
extern "C" __global__ void tensor3(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int x, int y,
                                   int z, int tx, int ty, int tz, uint32_t bytes, uint32_t* image) {
  tensor_box<3>(from, to, x, y, z, tx, ty, tz, bytes, image);
}

// ---- wgmma of 64 x 16 x 32 bytes. The operands' images are copied to shared memory as they are; descriptors come with them.
__device__ inline void load_operands(const uint4* a, const uint4* b, uint4* shared, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    shared[i] = a[i];
    shared[n + i] = b[i];
  }
  fence();
  __syncthreads();
}
__device__ inline uint64_t at(uint64_t descriptor, const void* p) { return descriptor | (address(p) & 0x3ffff) >> 4; }
#define WGMMA_BEGIN asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_END asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define D8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define OUT8(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_KERNEL(NAME, TYPES, FLAGS)                                                                                       \
  extern "C" __global__ void NAME(const uint4* a, const uint4* b, float* out, uint64_t da, uint64_t db, int keep) {             \
    extern __shared__ __align__(1024) uint4 operands[];                                                                        \
    load_operands(a, b, operands, 512);                                                                                        \
    float d[8];                                                                                                                \
    for (int i = 0; i < 8; ++i) d[i] = i + threadIdx.x * 0.25f;                                                                \
    WGMMA_BEGIN;                                                                                                               \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned." TYPES " " D8 ", %8, %9, p, " FLAGS      \
                 "; }" : OUT8(d) : "l"(at(da, operands)), "l"(at(db, operands + 512)), "r"(keep));                             \
    WGMMA_END;                                                                                                                 \
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = d[i];                                                               \
  }
WGMMA_KERNEL(wgmma_bf16, "m64n16k16.f32.bf16.bf16", "1, 1, 0, 0")
WGMMA_KERNEL(wgmma_bf16_ta, "m64n16k16.f32.bf16.bf16", "1, 1, 1, 0")
WGMMA_KERNEL(wgmma_bf16_tb, "m64n16k16.f32.bf16.bf16", "1, 1, 0, 1")
WGMMA_KERNEL(wgmma_bf16_tt, "m64n16k16.f32.bf16.bf16", "-1, 1, 1, 1")
WGMMA_KERNEL(wgmma_f16, "m64n16k16.f32.f16.f16", "1, -1, 0, 0")
WGMMA_KERNEL(wgmma_tf32, "m64n16k8.f32.tf32.tf32", "1, 1")
WGMMA_KERNEL(wgmma_e4m3, "m64n16k32.f32.e4m3.e4m3", "1, 1")

// A from registers, N = 24, f16 accumulators beside it.
extern "C" __global__ void wgmma_registers(const uint32_t* a, const uint4* b, float* out, uint32_t* half_out, uint64_t db) {
  extern __shared__ __align__(1024) uint4 operands[];
  load_operands(b, b, operands, 512);
  float d[12];
  uint32_t h[4] = {0, 0, 0, 0};
  for (int i = 0; i < 12; ++i) d[i] = 1.f;
  uint32_t r[4];
  for (int i = 0; i < 4; ++i) r[i] = a[threadIdx.x * 4 + i];
  WGMMA_BEGIN;
  asm volatile("wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, %16, 1, 1, 1, 0;"
               : OUT8(d), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(at(db, operands)));
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 0, 1, 1, 0;"
               : "+r"(h[0]), "+r"(h[1]), "+r"(h[2]), "+r"(h[3])
               : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(at(db, operands)));
  WGMMA_END;
  for (int i = 0; i < 12; ++i) out[threadIdx.x * 12 + i] = d[i];
  for (int i = 0; i < 4; ++i) half_out[threadIdx.x * 4 + i] = h[i];
}

// ---- Clusters of 2 x 2 blocks: special registers, remote shared memory, a remote mbarrier, a multicast.
extern "C" __global__ void cluster(uint32_t* out, const uint32_t* in) {
  __shared__ __align__(128) uint32_t mine[64];
  __shared__ __align__(128) uint32_t received[32];
  __shared__ uint64_t bar, copied;
  uint32_t rank, size, cx, cy, gx, gy;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(cx));
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(cy));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(gx));
  asm("mov.u32 %0, %%clusterid.y;" : "=r"(gy));
  if (threadIdx.x == 0) {
    init(&bar, size);
    init(&copied, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(&copied, 128);
  }
  mine[threadIdx.x] = rank * 1000 + threadIdx.x;
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  uint32_t next = (rank + 1) % size, remote, value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(&mine[threadIdx.x])), "r"(next));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  uint64_t generic;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(&mine[threadIdx.x]), "r"(next));
  uint32_t same = *reinterpret_cast<uint32_t*>(generic), owner;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(owner) : "r"(remote));
  if (threadIdx.x < size) {  // one thread for each block
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(&bar)), "r"(threadIdx.x));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  }
  if (rank == 0 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(address(received)), "l"(in), "r"(128), "r"(address(&copied)), "h"(static_cast<uint16_t>((1 << size) - 1)) : "memory");
  wait(&bar, 0);
  wait(&copied, 0);
  uint32_t block = blockIdx.y * gridDim.x + blockIdx.x;
  uint32_t* row = out + (block * 64 + threadIdx.x) * 8;
  row[0] = value;
  row[1] = same;
  row[2] = owner;
  row[3] = received[threadIdx.x % 32];
  row[4] = cx + 16 * cy;
  row[5] = gx + 16 * gy;
  row[6] = rank;
  row[7] = size;
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");  // nobody leaves while others read
  asm volatile("barrier.cluster.wait;" ::: "memory");
}
