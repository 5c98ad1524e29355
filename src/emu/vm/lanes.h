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
  if constexpr (sizeof(T) >= 4)
    return v;
  else
    return static_cast<T>(v);
}
template <class T>
[[nodiscard]] inline Stored<T> to_lane(T v) {
  if constexpr (sizeof(T) >= 4)
    return v;
  else
    return static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(v));
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
