// Factors and sums of a softmax between two products on Hopper: tiles that one copy fetches as they
// lie in memory, products whose left factor is in registers, and pairs of fp16 halves.
//
// A tile has rows of 64 halves (128 bytes) one after another, the 16-byte pieces of row r at their
// place xor r % 8, which is what hopper.h's factor_at calls swizzled; it begins at a multiple of 1024
// bytes.
#pragma once

#include <cstdint>

#include "hopper.h"

namespace {

// EVOLVE-BLOCK-START
constexpr int kTileBytes = 64 * 128;  // of 64 rows
// Bytes from a tile's beginning to a piece of eight halves of a row.
__device__ inline int piece_at(int row, int piece) { return row * 128 + (piece ^ row % 8) * 16; }
// The tile as a factor; 32 bytes further (2 in the factor) is the next depth of 16.
__device__ inline uint64_t tile_factor(uint32_t address) { return factor_at(address, 1024, 16); }

// `bytes`, a multiple of 16, arrive at the barrier, which expects them.
__device__ inline void copy_bytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  arrive_expecting(barrier, static_cast<uint32_t>(bytes));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Barriers of warps: `threads` come, those of meet() wait for the others.
__device__ inline void meet(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
__device__ inline void announce(int name, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
// What lanes stored to shared memory is there for products that are issued later.
__device__ inline void stores_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// As multiply_16 of hopper.h for 64 x 64, a's and b's rows along the depth. In registers a thread has
// of a: rows t / 4, t / 4 + 8 at depths 2 (t % 4) and the next one, then both rows eight deeper.
using Sums64 = float[32];
#define SUM_NAMES                                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19," \
  " %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
__device__ inline void multiply_64(Sums64& d, const uint32_t (&a)[4], uint64_t b, int keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUM_NAMES
               ", {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
               : SUMS_32(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ inline void multiply_64(Sums64& d, uint64_t a, uint64_t b, int keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " SUM_NAMES
               ", %32, %33, p, 1, 1, 0, 0; }"
               : SUMS_32(d, 0)
               : "l"(a), "l"(b), "r"(keep));
}
// Until at most kLeft groups of products are under way; d is that of one that is over.
template <int kLeft>
__device__ inline void products_wait(Sums64& d) {
  asm volatile("wgmma.wait_group.sync.aligned %32;" : SUMS_32(d, 0) : "n"(kLeft) : "memory");
}
#undef SUM_NAMES
// The compiler writes no factors into these registers before this.
template <int kSteps>
__device__ inline void factors_free(uint32_t (&a)[kSteps][4]) {
#pragma unroll
  for (auto& step : a)
    asm volatile("" : "+r"(step[0]), "+r"(step[1]), "+r"(step[2]), "+r"(step[3])::"memory");
}

// Two neighbours as the sums of two of fp16, the first in the lower bits.
struct HalfPairs {
  uint32_t high, low;
};
__device__ inline HalfPairs split_f16(float x0, float x1) {
  HalfPairs out;
  float high0, high1;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out.high) : "f"(x1), "f"(x0));
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
      : "=f"(high0), "=f"(high1)
      : "r"(out.high));
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out.low) : "f"(x1 - high1), "f"(x0 - high0));
  return out;
}
// 2^x, 0 below -126.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// EVOLVE-BLOCK-END

}  // namespace
