// Hopper's asynchronous instructions: mbarriers, copies of boxes of a tensor into shared memory,
// and products of a warp group (four warps) of factors that lie there.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "entry.h"

namespace {

// A wait that long means that something was lost: the kernel ends by a fault instead of hanging.
constexpr long long kWaitCycles = 4'000'000'000;

// EVOLVE-BLOCK-START
__device__ inline uint32_t address_of(const void* in_shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared));
}

// ---- mbarriers, by their addresses. A phase ends with its last arrival and its last byte.
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Behind the initialisation: the other blocks of the cluster, and copies, know of it.
__device__ inline void barriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}
// An arrival, and so many bytes that copies will bring in this phase.
__device__ inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// An arrival at the barrier of that offset in block `rank` of the cluster: what it and the waits
// tell of is what products have read and copies have written. (A wider scope than this one would
// fence all of memory at every step.)
__device__ inline void arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ inline bool has_ended(uint32_t barrier, uint32_t parity) {
  uint32_t ended;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}
// Until the phase of that parity has ended; parity 1 of a new barrier has. (A trap, which does not
// come back, would make ptxas spill registers around it.)
__device__ inline void wait_for(uint32_t barrier, uint32_t parity) {
  if (has_ended(barrier, parity)) return;
  const long long start = clock64();
  while (!has_ended(barrier, parity))
    if (clock64() - start > kWaitCycles) *reinterpret_cast<volatile int*>(0) = 0;
}
__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- A kernel that a Queue launched may begin while the one before it ends: first of all it waits
// for that one's end, and lets the next one come. What an earlier kernel of the run writes is not
// read by __ldg right behind: the compiler may move that before the wait. One that needs nothing of
// the one before it lets the next come at once and waits last of all: whoever waits for its end has
// waited for both.
__device__ inline void until_previous_ended() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void next_may_come() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ inline void behind_previous() {
  until_previous_ended();
  next_may_come();
}

// ---- The box at (x, y, z) of a tensor; zeros beyond the tensor. To all blocks of the mask, at the
// same offset, each told at the barrier of the same offset.
template <bool kToMany>
__device__ inline void copy_box(uint32_t to, const CUtensorMap* from, uint32_t barrier, int x,
                                int y, int z, uint16_t mask) {
  if constexpr (kToMany)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
        "l"(from), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(from), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// ---- Products. Boxes have 128 bytes a row and lie swizzled, at multiples of 1024 bytes. `next`:
// bytes from eight rows of the box to the next eight; `beside`: where the rows run along the depth
// and the factor is wider than a box, bytes from a box to the one beside it.
__device__ inline uint64_t factor_at(uint32_t address, uint32_t next, uint32_t beside) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<uint64_t>(beside >> 4) << 16 | static_cast<uint64_t>(next >> 4) << 32 |
         uint64_t{1} << 62;
}
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
// The compiler moves no use of the sums across.
template <int kN>
__device__ inline void hold(float (&sums)[kN]) {
#pragma unroll
  for (int i = 0; i < kN; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define SUMS_8(d, i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32(d, i) SUMS_8(d, i), SUMS_8(d, i + 8), SUMS_8(d, i + 16), SUMS_8(d, i + 24)

// sums (+)= a * b, 64 x 2 kN / 64 * 32 and a depth of 16, of fp16 in float32: thread t of warp w
// holds, at 4 j + e, row 16 w + t / 4 + 8 (e / 2), column 8 j + 2 (t % 4) + e % 2. kAAcross,
// kBAcross: the box's rows run along the depth, what lies together are a's rows (b's columns). keep
// 0: the sums begin.
template <int kAAcross, int kBAcross>
__device__ inline void multiply_16(float (&d)[64], uint64_t a, uint64_t b, int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, %67, %68; }"
      : SUMS_32(d, 0), SUMS_32(d, 32)
      : "l"(a), "l"(b), "r"(keep), "n"(kAAcross), "n"(kBAcross));
}
template <int kAAcross, int kBAcross>
__device__ inline void multiply_16(float (&d)[128], uint64_t a, uint64_t b, int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
      "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
      "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, %128, %129, p, 1, 1, %131, %132; }"
      : SUMS_32(d, 0), SUMS_32(d, 32), SUMS_32(d, 64), SUMS_32(d, 96)
      : "l"(a), "l"(b), "r"(keep), "n"(kAAcross), "n"(kBAcross));
}

// ---- Halves.
// 2^e and 2^-e that bring a number of these bits to [2^14, 2^15), as far as float32 has both.
__device__ inline float2 scales_of(uint32_t bits) {
  const int e = min(max(141 - static_cast<int>(bits >> 23), -126), 126);
  return {__uint_as_float(static_cast<uint32_t>(127 + e) << 23),
          __uint_as_float(static_cast<uint32_t>(127 - e) << 23)};
}
// EVOLVE-BLOCK-END

// The kernels of one run, one behind the other; they begin with behind_previous().
struct Queue {
  cudaStream_t stream;
  bool overlap;  // a kernel is brought to the multiprocessors while the one before it ends
  bool fine = true, first = true;
  template <class... P, class... A>
  void launch(void (*kernel)(P...), dim3 grid, unsigned threads, size_t shared,
              const A&... values) {
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = overlap && !first ? 1 : 0;
    fine = fine && cudaLaunchKernelEx(&config, kernel, values...) == cudaSuccess;
    first = false;
  }
  [[nodiscard]] int end() const { return fine ? launched() : SCULLER_ERROR; }
};

// A tensor of halves for copy_box: `inner` lie together, `outer` of those `pitch` halves apart (a
// multiple of eight), and `planes` of these one behind the other; boxes of box_inner x box_outer.
// Copies swizzle rows of 128 bytes.
inline bool make_map(CUtensorMap* map, const void* data, int64_t inner, int64_t outer,
                     int64_t pitch, int64_t planes, int box_inner, int box_outer) {
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess)
    return false;
  const auto u64 = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const cuuint64_t size[] = {u64(inner), u64(outer), u64(planes)},
                   stride[] = {u64(pitch * 2), u64(outer * pitch * 2)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_inner), static_cast<cuuint32_t>(box_outer),
                            1},
                   every[] = {1, 1, 1};
  return reinterpret_cast<Encode>(found)(
             map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, const_cast<void*>(data), size, stride, box,
             every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace
