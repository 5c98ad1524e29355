// Loops over the 32 lanes of a warp, written so that the compiler turns them into vector
// instructions.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emu/vm/program.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

template <class T>
[[nodiscard]] inline T* lanes(const Warp& w, Ref ref) {
  return reinterpret_cast<T*>(w.base[ref >> kBankShift] + (ref & kOffsetMask));
}

[[nodiscard]] inline uint32_t pred(const Warp& w, PredRef p) {
  return p == kAlways ? ~0u : w.preds[p >> 1] ^ (0u - (p & 1u));
}
inline void set_pred(Warp& w, PredRef p, uint32_t value) {
  uint32_t& slot = w.preds[p >> 1];
  slot = (slot & ~w.write) | (value & w.write);
}

// Registers of 8 and 16 bits live zero-extended in 32-bit lanes.
template <class T>
using Stored = std::conditional_t<sizeof(T) >= 4, T, uint32_t>;

template <class T>
[[nodiscard]] inline T from_lane(Stored<T> v) {
  if constexpr (sizeof(T) >= 4) return v;
  else return static_cast<T>(v);
}
template <class T>
[[nodiscard]] inline Stored<T> to_lane(T v) {
  if constexpr (sizeof(T) >= 4) return v;
  else return static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(v));
}

// d[i] = f(i) where the bit of i is set. Exact overlap of d with sources is fine, each lane reads
// before it writes.
template <class D, class F>
inline void each_lane(uint32_t write, D* d, F f) {
  if (write == ~0u) {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) d[i] = f(i);
  } else {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) {
      const D r = f(i);
      d[i] = (write >> i & 1u) != 0 ? r : d[i];
    }
  }
}

template <class F>
inline void for_mask(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

// Bits of f(i).
template <class F>
[[nodiscard]] inline uint32_t mask_of(F f) {
  alignas(32) uint8_t bytes[32];
#pragma GCC ivdep
  for (int i = 0; i < 32; ++i) bytes[i] = f(i) ? 0xff : 0;
  return static_cast<uint32_t>(
      _mm256_movemask_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(bytes))));
}

// Copies kBytes, a multiple of 32; true where that changed the destination.
template <size_t kBytes>
[[nodiscard]] inline bool replace(uint8_t* to, const void* from) {
  const auto* f = static_cast<const uint8_t*>(from);
  __m256i apart = _mm256_setzero_si256();
  for (size_t k = 0; k < kBytes; k += 32) {
    const __m256i now = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(f + k));
    const __m256i was = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(to + k));
    apart = _mm256_or_si256(apart, _mm256_xor_si256(now, was));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), now);
  }
  return _mm256_testz_si256(apart, apart) == 0;
}

// 32 structures of four words ↔ four rows of 32 lanes.
inline void split4(const uint8_t* from, uint32_t* const (&to)[4]) {
  for (int i = 0; i < 32; i += 4) {
    const auto* p = reinterpret_cast<const float*>(from + static_cast<ptrdiff_t>(i) * 16);
    __m128 a = _mm_loadu_ps(p), b = _mm_loadu_ps(p + 4), c = _mm_loadu_ps(p + 8),
           d = _mm_loadu_ps(p + 12);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(reinterpret_cast<float*>(to[0] + i), a);
    _mm_storeu_ps(reinterpret_cast<float*>(to[1] + i), b);
    _mm_storeu_ps(reinterpret_cast<float*>(to[2] + i), c);
    _mm_storeu_ps(reinterpret_cast<float*>(to[3] + i), d);
  }
}
inline void join4(const uint32_t* const (&from)[4], uint32_t* to) {
  for (int i = 0; i < 32; i += 4) {
    __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(from[0] + i)),
           b = _mm_loadu_ps(reinterpret_cast<const float*>(from[1] + i)),
           c = _mm_loadu_ps(reinterpret_cast<const float*>(from[2] + i)),
           d = _mm_loadu_ps(reinterpret_cast<const float*>(from[3] + i));
    _MM_TRANSPOSE4_PS(a, b, c, d);
    auto* p = reinterpret_cast<float*>(to + static_cast<ptrdiff_t>(i) * 4);
    _mm_storeu_ps(p, a);
    _mm_storeu_ps(p + 4, b);
    _mm_storeu_ps(p + 8, c);
    _mm_storeu_ps(p + 12, d);
  }
}

// F::f(a), F::f(a, b), F::f(a, b, c) over lanes of types D, A, B, C.
template <class F, class D, class A>
Act unary(Warp& w, const Op& op) {
  auto* d = lanes<Stored<D>>(w, op.o[0]);
  const auto* a = lanes<Stored<A>>(w, op.o[1]);
  each_lane(w.write, d, [=](int i) { return to_lane<D>(F::f(from_lane<A>(a[i]))); });
  return Act::kNext;
}
template <class F, class D, class A, class B = A>
Act binary(Warp& w, const Op& op) {
  auto* d = lanes<Stored<D>>(w, op.o[0]);
  const auto* a = lanes<Stored<A>>(w, op.o[1]);
  const auto* b = lanes<Stored<B>>(w, op.o[2]);
  each_lane(w.write, d,
            [=](int i) { return to_lane<D>(F::f(from_lane<A>(a[i]), from_lane<B>(b[i]))); });
  return Act::kNext;
}
template <class F, class D, class A, class B = A, class C = A>
Act ternary(Warp& w, const Op& op) {
  auto* d = lanes<Stored<D>>(w, op.o[0]);
  const auto* a = lanes<Stored<A>>(w, op.o[1]);
  const auto* b = lanes<Stored<B>>(w, op.o[2]);
  const auto* c = lanes<Stored<C>>(w, op.o[3]);
  each_lane(w.write, d, [=](int i) {
    return to_lane<D>(F::f(from_lane<A>(a[i]), from_lane<B>(b[i]), from_lane<C>(c[i])));
  });
  return Act::kNext;
}

}  // namespace sculler::emu::vm
