// Choosing a handler by instruction type, and the opcodes that integers, floats and halves share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "emu/ptx/type.h"
#include "emu/vm/emit.h"
#include "emu/vm/lanes.h"

namespace sculler::emu::vm {

// The type an instruction ends with, not consumed; nullopt where the last modifier is none.
[[nodiscard]] inline std::optional<ptx::Type> last_type(const Emit& e) {
  return e.in.modifiers.empty() ? std::nullopt : ptx::type_from(e.in.modifiers.back());
}

// Shared opcodes: true where the instruction was a float or half one and has been decoded (or
// refused).
bool float_arith(Emit& e);

template <class F>
Handler integer_binary(const ptx::Type& t) {
  const bool s = t.letter == 's';
  switch (t.bits) {
    case 16: return s ? &binary<F, int16_t, int16_t> : &binary<F, uint16_t, uint16_t>;
    case 32: return s ? &binary<F, int32_t, int32_t> : &binary<F, uint32_t, uint32_t>;
    case 64: return s ? &binary<F, int64_t, int64_t> : &binary<F, uint64_t, uint64_t>;
    default: return nullptr;
  }
}
template <class F>
Handler integer_unary(const ptx::Type& t) {
  const bool s = t.letter == 's';
  switch (t.bits) {
    case 16: return s ? &unary<F, int16_t, int16_t> : &unary<F, uint16_t, uint16_t>;
    case 32: return s ? &unary<F, int32_t, int32_t> : &unary<F, uint32_t, uint32_t>;
    case 64: return s ? &unary<F, int64_t, int64_t> : &unary<F, uint64_t, uint64_t>;
    default: return nullptr;
  }
}
template <class F>
Handler integer_ternary(const ptx::Type& t) {
  const bool s = t.letter == 's';
  switch (t.bits) {
    case 16: return s ? &ternary<F, int16_t, int16_t> : &ternary<F, uint16_t, uint16_t>;
    case 32: return s ? &ternary<F, int32_t, int32_t> : &ternary<F, uint32_t, uint32_t>;
    case 64: return s ? &ternary<F, int64_t, int64_t> : &ternary<F, uint64_t, uint64_t>;
    default: return nullptr;
  }
}

// Operands d, a, b(, c) all of `bits`.
inline bool same_operands(Emit& e, size_t n, unsigned bits, bool is_float = false) {
  if (!e.operands(n)) return false;
  e.dst(0, size_t{0}, bits);
  for (size_t k = 1; k < n; ++k) e.src(k, k, bits, is_float);
  return true;
}

}  // namespace sculler::emu::vm
