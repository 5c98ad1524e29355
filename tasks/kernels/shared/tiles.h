// Products with a softmax behind them on Hopper: a kernel writes the right factors as tiles that one
// copy fetches as they lie in memory, the left one is in registers. A float32 number is a power of
// two (of a row of the left factor, of a tile) times the sum of two of fp16.
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

// As multiply_16 of hopper.h, a's and b's rows along the depth, of 64 x 64 (32 sums) or 64 x 128. In
// registers a thread has of a: rows t / 4, t / 4 + 8 at depths 2 (t % 4) and the next one, then both
// rows eight deeper.
#define NAMES_32                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19," \
  " %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                 \
  NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"   \
           " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
__device__ inline void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES_32
               "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
               : SUMS_32(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ inline void multiply(float (&d)[32], uint64_t a, uint64_t b, int keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES_32
               "}, %32, %33, p, 1, 1, 0, 0; }"
               : SUMS_32(d, 0)
               : "l"(a), "l"(b), "r"(keep));
}
__device__ inline void multiply(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES_64
               "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0; }"
               : SUMS_32(d, 0), SUMS_32(d, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ inline void multiply(float (&d)[64], uint64_t a, uint64_t b, int keep) {
  multiply_16<0, 0>(d, a, b, keep);
}
// Until at most kLeft groups of products are under way; d is that of one that is over.
template <int kLeft>
__device__ inline void products_wait(float (&d)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned %32;" : SUMS_32(d, 0) : "n"(kLeft) : "memory");
}
template <int kLeft>
__device__ inline void products_wait(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned %64;"
               : SUMS_32(d, 0), SUMS_32(d, 32)
               : "n"(kLeft)
               : "memory");
}
#undef NAMES_64
#undef NAMES_32
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

// ---- Factors. By a block of 256: eight numbers of each of kPieces pieces, place(i) bytes behind
// `to` that of piece i, the low halves `apart` bytes further. Returns what undoes the tile's scale.
constexpr int kSplitThreads = 256;
template <int kPieces, class PlaceOf>
__device__ inline float write_tile(const float (&x)[kPieces][8], char* to, int apart,
                                   PlaceOf place) {
  __shared__ float most_of[kSplitThreads / 32];
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e) most = fmaxf(most, fabsf(x[i][e]));
  for (int far = 16; far > 0; far /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, far));
  if (threadIdx.x % 32 == 0) most_of[threadIdx.x / 32] = most;
  __syncthreads();
  for (const float warp : most_of) most = fmaxf(most, warp);
  const float2 scale = scales_of(__float_as_uint(most));
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    HalfPairs pair[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      pair[e] = split_f16(x[i][2 * e] * scale.x, x[i][2 * e + 1] * scale.x);
    char* const piece = to + place(i);
    *reinterpret_cast<uint4*>(piece) =
        make_uint4(pair[0].high, pair[1].high, pair[2].high, pair[3].high);
    *reinterpret_cast<uint4*>(piece + apart) =
        make_uint4(pair[0].low, pair[1].low, pair[2].low, pair[3].low);
  }
  return scale.y;
}
// Tiles whose row r is column r of 128 columns of a matrix, its depth rows of the matrix, 64 a tile;
// `columns` and `depths` are there, the others zeros.
template <int kDepth>
__device__ inline float write_columns(const float* from, int64_t next, int columns, int depths,
                                      char* to) {
  constexpr int kPieces = kDepth / 16;
  const int thread = static_cast<int>(threadIdx.x), column = thread / 32 * 16 + thread % 32 / 2;
  float x[kPieces][8];
#pragma unroll
  for (int i = 0; i < kPieces; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int depth = (i * 2 + thread % 2) * 8 + e;
      x[i][e] = column < columns && depth < depths ? __ldg(from + depth * next + column) : 0.0f;
    }
  return write_tile(x, to, kDepth * 256, [&](int i) {
    return i / 4 * 2 * kTileBytes + piece_at(column, i % 4 * 2 + thread % 2);
  });
}
// kDepth / 4 numbers of a row from `from` on that a lane holds as a factor; zeros behind the first
// `depths`, or where from is null. kPairs: rows begin at multiples of 8 bytes.
template <int kDepth, bool kPairs>
__device__ inline void load_row(const float* from, int depths, float2 (&x)[kDepth / 8]) {
  if (from == nullptr) depths = 0;
#pragma unroll
  for (int j = 0; j < kDepth / 8; ++j) {
    const int depth = j * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    x[j] = make_float2(0.0f, 0.0f);
    if constexpr (kPairs) {
      if (depth < depths) x[j] = __ldg(reinterpret_cast<const float2*>(from + depth));
    } else {
      if (depth < depths) x[j].x = __ldg(from + depth);
      if (depth + 1 < depths) x[j].y = __ldg(from + depth + 1);
    }
  }
}
// By a warp group: 64 rows as left factors, the high halves in registers, the low ones as tiles in
// shared memory, 64 depths a tile. row: this thread's of the 64, and the one eight further on; from:
// where they begin, null where there is none; scale: what undoes theirs.
template <int kDepth>
__device__ inline void take_rows(const float* const (&from)[2], int depths, int row,
                                 uint32_t (&high)[kDepth / 16][4], char* low, float (&scale)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float2 x[kDepth / 8];
    if (depths % 2 == 0) load_row<kDepth, true>(from[half], depths, x);
    else load_row<kDepth, false>(from[half], depths, x);
    float most = 0.0f;
#pragma unroll
    for (const float2& both : x) most = fmaxf(most, fmaxf(fabsf(both.x), fabsf(both.y)));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    const float2 scales = scales_of(__float_as_uint(most));
    scale[half] = scales.y;
#pragma unroll
    for (int j = 0; j < kDepth / 8; ++j) {
      const HalfPairs both = split_f16(x[j].x * scales.x, x[j].y * scales.x);
      high[j / 2][j % 2 * 2 + half] = both.high;
      *reinterpret_cast<uint32_t*>(low + j / 8 * kTileBytes + piece_at(row + half * 8, j % 8) +
                                   threadIdx.x % 4 * 4) = both.low;
    }
  }
  stores_before_products();
}
// d = the float32 product of rows and of kN rows of tiles at `right` (their low halves kDepth * kN * 2
// bytes further), scaled.
template <int kDepth, int kN>
__device__ inline void multiply_rows(float (&d)[kN / 2], const uint32_t (&high)[kDepth / 16][4],
                                     uint32_t low, uint32_t right) {
  const uint64_t low_rows = tile_factor(low), tile = tile_factor(right);
#pragma unroll
  for (int which = 0; which < 3; ++which)
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      const uint64_t with = tile + (step / 4 * kN * 128 + step % 4 * 32 +
                                    (which == 1 ? kDepth * kN * 2 : 0)) / 16;
      if (which == 0)
        multiply(d, low_rows + (step / 4 * kTileBytes + step % 4 * 32) / 16, with, step > 0);
      else
        multiply(d, high[step], with, 1);
    }
}
// What takes such a product to an exponent of 2; not 0, so that -infinity stays what it is.
__device__ inline float exponent_factor(float row_scale, float tile_scale) {
  return fmaxf(row_scale * tile_scale, 1.2e-38f);
}

// The slots of a ring, one after the other.
template <int kSlots>
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};
// A ring in shared memory, at a multiple of 1024 bytes behind which 16 * kSlots bytes are for its
// barriers. One thread makes it and fills it, `readers` warps free each slot.
template <int kSlots, int kSlotBytes>
struct Ring {
  using Place = RingPlace<kSlots>;
  uint32_t slots, barriers;
  __device__ void make(int readers) const {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(barriers + i * 16, 1);
      barrier_init(barriers + i * 16 + 8, static_cast<uint32_t>(readers));
    }
    barriers_made();
  }
  __device__ uint32_t at(const Place& place) const { return slots + place.slot * kSlotBytes; }
  __device__ void fill(const Place& place, const char* from) const {
    wait_for(barriers + place.slot * 16 + 8, place.parity ^ 1);
    copy_bytes(at(place), from, kSlotBytes, barriers + place.slot * 16);
  }
  __device__ void wait(const Place& place) const {
    wait_for(barriers + place.slot * 16, place.parity);
  }
  // By each warp that reads.
  __device__ void release(const Place& place) const {
    if (threadIdx.x % 32 == 0) arrive(barriers + place.slot * 16 + 8);
  }
};
// EVOLVE-BLOCK-END

}  // namespace
