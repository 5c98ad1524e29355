// Copies into shared memory that do not wait, products of 16 x 8 on the tensor cores, and float32
// numbers as sums of two of lower precision.
#pragma once

#include <cstdint>

#include "entry.h"

namespace {

// EVOLVE-BLOCK-START
__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
// `bytes` of 16 (or of 4) are copied, the others are zeros.
template <bool kWide>
__device__ inline void copy_async(float* to, const float* from, int bytes) {
  if (kWide)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

struct Halves {
  uint32_t high, low;
};
__device__ inline Halves split_tf32(float x) {
  const uint32_t high = (__float_as_uint(x) + 0x1000u) & ~0x1fffu;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}
__device__ inline Halves split_bf16(float x0, float x1) {
  Halves out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out.high) : "f"(x1), "f"(x0));
  const float rest0 = x0 - __uint_as_float(out.high << 16),
              rest1 = x1 - __uint_as_float(out.high & 0xffff0000u);
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out.low) : "f"(rest1), "f"(rest0));
  return out;
}
// c += a * b. A lane is group g = lane / 4 and t = lane % 4. c: row g, columns 2 t and 2 t + 1, then
// row g + 8. a: rows g, g + 8, g, g + 8 at depths t, t, t + 4, t + 4 (bfloat16: pairs at 2 t and 2 t
// + 8). b: column g at depths t, t + 4 (2 t, 2 t + 8).
__device__ inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// EVOLVE-BLOCK-END

}  // namespace
