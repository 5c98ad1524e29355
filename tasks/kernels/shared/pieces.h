// Pieces of 16 bytes that are read, or written, once. LOADS and STORES are the first file's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace {

// EVOLVE-BLOCK-START
// LOADS 0: as the compiler does it. 1: caches drop it first, so that what was written stays in the
// second level longer. 2: past the first level, 256 bytes at a time into the second.
__device__ inline float4 load4(const float* from) {
  if constexpr (LOADS == 0) {
    return __ldg(reinterpret_cast<const float4*>(from));
  } else if constexpr (LOADS == 1) {
    return __ldcs(reinterpret_cast<const float4*>(from));
  } else {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(__cvta_generic_to_global(from)));
    return v;
  }
}
// STORES 0: the second level writes it back when it must, some of it behind the kernel's end. 1: it
// is dropped first.
__device__ inline void store4(float* to, float4 value) {
  if constexpr (STORES == 1) __stcs(reinterpret_cast<float4*>(to), value);
  else *reinterpret_cast<float4*>(to) = value;
}
// EVOLVE-BLOCK-END

}  // namespace
