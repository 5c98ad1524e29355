// Integer arithmetic: add sub mul mad mul24 mad24 div rem abs neg min max sad dp4a dp2a and the
// carry chain.
#include "emu/vm/arith.h"

namespace sculler::emu::vm {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wider =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <class T>
T high(T a, T b) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(
        (static_cast<std::conditional_t<std::is_signed_v<T>, Int128, Uint128>>(a) * b) >> 64);
  else return static_cast<T>((static_cast<Wider<T>>(a) * b) >> (sizeof(T) * 8));
}
template <class T>
T low(T a, T b) {
  return static_cast<T>(uint64_t(a) * uint64_t(b));
}
template <class T>
T wrap_add(T a, T b) {
  return static_cast<T>(uint64_t(a) + uint64_t(b));
}

struct Add {
  template <class T>
  static T f(T a, T b) {
    return wrap_add(a, b);
  }
};
struct Sub {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(uint64_t(a) - uint64_t(b));
  }
};
struct MulLo {
  template <class T>
  static T f(T a, T b) {
    return low(a, b);
  }
};
struct MulHi {
  template <class T>
  static T f(T a, T b) {
    return high(a, b);
  }
};
struct MulWide {
  template <class T>
  static Wider<T> f(T a, T b) {
    return static_cast<Wider<T>>(Wider<T>(a) * Wider<T>(b));
  }
};
struct MadLo {
  template <class T>
  static T f(T a, T b, T c) {
    return wrap_add(low(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static T f(T a, T b, T c) {
    return wrap_add(high(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static Wider<T> f(T a, T b, Wider<T> c) {
    return wrap_add(static_cast<Wider<T>>(Wider<T>(a) * Wider<T>(b)), c);
  }
};
struct AddSat {
  static int32_t f(int32_t a, int32_t b) {
    int64_t r = int64_t{a} + b;
    return int32_t(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
struct SubSat {
  static int32_t f(int32_t a, int32_t b) {
    int64_t r = int64_t{a} - b;
    return int32_t(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
struct MadHiSat {
  static int32_t f(int32_t a, int32_t b, int32_t c) {
    const int64_t r = ((int64_t{a} * b) >> 32) + c;
    return int32_t(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
  }
};
// Division by zero gives all ones, as the hardware's sequences do.
struct Div {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return static_cast<T>(~uint64_t{0});
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Abs {
  template <class T>
  static T f(T a) {
    return a < 0 ? static_cast<T>(0 - static_cast<uint64_t>(a)) : a;
  }
};
struct Neg {
  template <class T>
  static T f(T a) {
    return static_cast<T>(0 - static_cast<uint64_t>(a));
  }
};
struct Min {
  template <class T>
  static T f(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T f(T a, T b) {
    return a > b ? a : b;
  }
};
struct Sad {
  template <class T>
  static T f(T a, T b, T c) {
    return wrap_add(c, a < b ? static_cast<T>(uint64_t(b) - uint64_t(a))
                             : static_cast<T>(uint64_t(a) - uint64_t(b)));
  }
};
template <class T>
T low24(T a) {
  if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<uint32_t>(a) << 8) >> 8;
  else return a & 0xffffffu;
}
struct Mul24Lo {
  template <class T>
  static T f(T a, T b) {
    return low(low24(a), low24(b));
  }
};
struct Mul24Hi {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>((Wider<T>(low24(a)) * low24(b)) >> 16);
  }
};
struct Mad24Lo {
  template <class T>
  static T f(T a, T b, T c) {
    return wrap_add(low(low24(a), low24(b)), c);
  }
};
struct Mad24Hi {
  template <class T>
  static T f(T a, T b, T c) {
    return wrap_add(Mul24Hi::f(a, b), c);
  }
};

// add.u16x2 and relatives.
template <class F, class T>
struct Pair {
  static uint32_t f(uint32_t a, uint32_t b) {
    const auto lo = static_cast<uint16_t>(F::f(static_cast<T>(a), static_cast<T>(b)));
    const auto hi = static_cast<uint16_t>(F::f(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return uint32_t{lo} | uint32_t{hi} << 16;
  }
};
template <class F>
bool pair_op(Emit& e) {
  if (e.take("u16x2")) e.op.run = &binary<Pair<F, uint16_t>, uint32_t, uint32_t>;
  else if (e.take("s16x2")) e.op.run = &binary<Pair<F, int16_t>, uint32_t, uint32_t>;
  else return false;
  same_operands(e, 3, 32);
  return true;
}

// ---- Carry chain: the carry flag is a lane mask in the warp.
template <class T, bool kUse, bool kSet, bool kSub>
Act carry_add(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.o[0]);
  const T* a = lanes<T>(w, op.o[1]);
  const T* b = lanes<T>(w, op.o[2]);
  uint32_t out = 0;
  for_mask(w.exec, [&](int i) {
    const T carry = kUse ? w.carry >> i & 1u : (kSub ? 0u : 0u);
    // Subtraction borrows: a - b - borrow.
    const T x = a[i], y = b[i];
    T r;
    bool c;
    if constexpr (kSub) {
      r = x - y - carry;
      c = x < y || (carry != 0 && x == y);
    } else {
      r = x + y + carry;
      c = r < x || (carry != 0 && r == x);
    }
    d[i] = r;
    out |= uint32_t{c} << i;
  });
  if (kSet) w.carry = (w.carry & ~w.exec) | out;
  return Act::kNext;
}
template <class T, bool kHigh, bool kUse, bool kSet>
Act carry_mad(Warp& w, const Op& op) {
  using U = Unsigned<T>;
  U* d = lanes<U>(w, op.o[0]);
  const T* a = lanes<T>(w, op.o[1]);
  const T* b = lanes<T>(w, op.o[2]);
  const U* c = lanes<U>(w, op.o[3]);
  uint32_t out = 0;
  for_mask(w.exec, [&](int i) {
    const U carry = kUse ? w.carry >> i & 1u : 0u;
    const U x = static_cast<U>(kHigh ? high(a[i], b[i]) : low(a[i], b[i]));
    const U r = x + c[i] + carry;
    out |= uint32_t{r < x || (carry != 0 && r == x)} << i;
    d[i] = r;
  });
  if (kSet) w.carry = (w.carry & ~w.exec) | out;
  return Act::kNext;
}

template <class T, bool kSub>
Handler carry_handler(bool use, bool set) {
  if (use) return set ? &carry_add<T, true, true, kSub> : &carry_add<T, true, false, kSub>;
  return &carry_add<T, false, true, kSub>;
}
void decode_carry(Emit& e, bool sub, bool use) {
  const bool set = e.take("cc");
  const auto t = e.type();
  if (!t || is_float(*t) || (t->bits != 32 && t->bits != 64) || (!use && !set))
    return e.unsupported();
  if (t->bits == 32)
    e.op.run =
        sub ? carry_handler<uint32_t, true>(use, set) : carry_handler<uint32_t, false>(use, set);
  else
    e.op.run =
        sub ? carry_handler<uint64_t, true>(use, set) : carry_handler<uint64_t, false>(use, set);
  same_operands(e, 3, t->bits);
}
template <class T, bool kHigh>
Handler mad_carry_handler(bool use, bool set) {
  if (use) return set ? &carry_mad<T, kHigh, true, true> : &carry_mad<T, kHigh, true, false>;
  return &carry_mad<T, kHigh, false, true>;
}
void decode_mad_carry(Emit& e, bool hi, bool use, bool set) {
  const auto t = e.type();
  if (!t || is_float(*t)) return e.unsupported();
  const bool s = t->letter == 's';
  if (t->bits == 32)
    e.op.run = hi ? (s ? mad_carry_handler<int32_t, true>(use, set)
                       : mad_carry_handler<uint32_t, true>(use, set))
                  : mad_carry_handler<uint32_t, false>(use, set);
  else if (t->bits == 64)
    e.op.run = hi ? (s ? mad_carry_handler<int64_t, true>(use, set)
                       : mad_carry_handler<uint64_t, true>(use, set))
                  : mad_carry_handler<uint64_t, false>(use, set);
  else return e.unsupported();
  same_operands(e, 4, t->bits);
}
void decode_madc(Emit& e) {
  const bool hi = e.take("hi");
  if (!hi && !e.take("lo")) return e.unsupported();
  decode_mad_carry(e, hi, true, e.take("cc"));
}

template <class F, class Sat, bool kSub>
void add_like(Emit& e) {
  if (float_arith(e) || pair_op<F>(e)) return;
  if (e.peek() == "cc") return decode_carry(e, kSub, false);
  const bool sat = e.take("sat");
  const auto t = e.type();
  if (!t) return e.unsupported();
  if (sat) e.op.run = t->letter == 's' && t->bits == 32 ? &binary<Sat, int32_t, int32_t> : nullptr;
  else e.op.run = integer_binary<F>(*t);
  same_operands(e, 3, t->bits);
}

void decode_mul(Emit& e) {
  if (float_arith(e)) return;
  static constexpr std::array<std::string_view, 3> kParts{"lo", "hi", "wide"};
  const int part = e.choice(kParts);
  const auto t = e.type();
  if (!t || part < 0 || !e.operands(3)) return e.unsupported();
  const bool s = t->letter == 's';
  if (part == 2) {
    if (t->bits == 16)
      e.op.run = s ? &binary<MulWide, int32_t, int16_t> : &binary<MulWide, uint32_t, uint16_t>;
    if (t->bits == 32)
      e.op.run = s ? &binary<MulWide, int64_t, int32_t> : &binary<MulWide, uint64_t, uint32_t>;
    if (t->bits == 64) return e.unsupported();
    e.dst(0, size_t{0}, t->bits * 2u);
    e.src(1, 1, t->bits);
    e.src(2, 2, t->bits);
    return;
  }
  e.op.run = part == 0 ? integer_binary<MulLo>(*t) : integer_binary<MulHi>(*t);
  same_operands(e, 3, t->bits);
}

void decode_mad(Emit& e) {
  if (float_arith(e)) return;
  static constexpr std::array<std::string_view, 3> kParts{"lo", "hi", "wide"};
  const int part = e.choice(kParts);
  if (part < 0) return e.unsupported();
  if (part < 2 && e.take("cc")) return decode_mad_carry(e, part == 1, false, true);
  const bool sat = e.take("sat");
  const auto t = e.type();
  if (!t || !e.operands(4)) return e.unsupported();
  const bool s = t->letter == 's';
  if (sat) {
    if (part != 1 || !s || t->bits != 32) return e.unsupported();
    e.op.run = &ternary<MadHiSat, int32_t, int32_t>;
    same_operands(e, 4, 32);
    return;
  }
  if (part == 2) {
    if (t->bits == 16)
      e.op.run = s ? &ternary<MadWide, int32_t, int16_t, int16_t, int32_t>
                   : &ternary<MadWide, uint32_t, uint16_t, uint16_t, uint32_t>;
    if (t->bits == 32)
      e.op.run = s ? &ternary<MadWide, int64_t, int32_t, int32_t, int64_t>
                   : &ternary<MadWide, uint64_t, uint32_t, uint32_t, uint64_t>;
    if (t->bits == 64) return e.unsupported();
    e.dst(0, size_t{0}, t->bits * 2u);
    e.src(1, 1, t->bits);
    e.src(2, 2, t->bits);
    e.src(3, 3, t->bits * 2u);
    return;
  }
  e.op.run = part == 0 ? integer_ternary<MadLo>(*t) : integer_ternary<MadHi>(*t);
  same_operands(e, 4, t->bits);
}

void decode_24(Emit& e, bool mad) {
  const bool hi = e.take("hi");
  if (!hi && !e.take("lo")) return e.unsupported();
  const auto t = e.type();
  if (!t || t->bits != 32) return e.unsupported();
  if (mad) e.op.run = hi ? integer_ternary<Mad24Hi>(*t) : integer_ternary<Mad24Lo>(*t);
  else
    e.op.run = hi ? (t->letter == 's' ? &binary<Mul24Hi, int32_t, int32_t>
                                      : &binary<Mul24Hi, uint32_t, uint32_t>)
                  : (t->letter == 's' ? &binary<Mul24Lo, int32_t, int32_t>
                                      : &binary<Mul24Lo, uint32_t, uint32_t>);
  same_operands(e, mad ? 4 : 3, 32);
}

template <class F>
void simple_binary(Emit& e) {
  if (float_arith(e)) return;
  const auto t = e.type();
  if (!t) return e.unsupported();
  e.op.run = integer_binary<F>(*t);
  same_operands(e, 3, t->bits);
}
template <class F>
void min_max(Emit& e) {
  if (float_arith(e) || pair_op<F>(e)) return;
  const auto t = e.type();
  if (!t) return e.unsupported();
  e.op.run = integer_binary<F>(*t);
  same_operands(e, 3, t->bits);
}
template <class F>
void simple_unary(Emit& e) {
  if (float_arith(e)) return;
  const auto t = e.type();
  if (!t || t->letter != 's') return e.unsupported();
  e.op.run = integer_unary<F>(*t);
  same_operands(e, 2, t->bits);
}

// ---- Dot products of bytes.
template <class A, class B>
struct Dp4a {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum = c;
    for (int k = 0; k < 4; ++k)
      sum += static_cast<uint32_t>(int32_t{static_cast<A>(a >> (8 * k))} *
                                   int32_t{static_cast<B>(b >> (8 * k))});
    return sum;
  }
};
template <class A, class B, int kHigh>
struct Dp2a {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    using A16 = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
    uint32_t sum = c;
    for (int k = 0; k < 2; ++k)
      sum += static_cast<uint32_t>(int32_t{static_cast<A16>(a >> (16 * k))} *
                                   int32_t{static_cast<B>(b >> (16 * kHigh + 8 * k))});
    return sum;
  }
};
template <template <class, class> class F>
Handler dot_handler(bool sa, bool sb) {
  if (sa)
    return sb ? &ternary<F<int8_t, int8_t>, uint32_t, uint32_t>
              : &ternary<F<int8_t, uint8_t>, uint32_t, uint32_t>;
  return sb ? &ternary<F<uint8_t, int8_t>, uint32_t, uint32_t>
            : &ternary<F<uint8_t, uint8_t>, uint32_t, uint32_t>;
}
template <class A, class B>
using Dp2aLo = Dp2a<A, B, 0>;
template <class A, class B>
using Dp2aHi = Dp2a<A, B, 1>;
void decode_dot(Emit& e) {
  const bool two = e.in.opcode == "dp2a";
  const bool hi = two && e.take("hi");
  if (two && !hi && !e.take("lo")) return e.unsupported();
  const auto a = e.type(), b = e.type();
  if (!a || !b || a->bits != 32 || b->bits != 32) return e.unsupported();
  const bool sa = a->letter == 's', sb = b->letter == 's';
  e.op.run = !two ? dot_handler<Dp4a>(sa, sb)
             : hi ? dot_handler<Dp2aHi>(sa, sb)
                  : dot_handler<Dp2aLo>(sa, sb);
  same_operands(e, 4, 32);
}

}  // namespace

void register_integer(DecodeTable& t) {
  t["add"] = &add_like<Add, AddSat, false>;
  t["sub"] = &add_like<Sub, SubSat, true>;
  t["addc"] = [](Emit& e) { decode_carry(e, false, true); };
  t["subc"] = [](Emit& e) { decode_carry(e, true, true); };
  t["madc"] = &decode_madc;
  t["mul"] = &decode_mul;
  t["mad"] = &decode_mad;
  t["mul24"] = [](Emit& e) { decode_24(e, false); };
  t["mad24"] = [](Emit& e) { decode_24(e, true); };
  t["div"] = &simple_binary<Div>;
  t["rem"] = &simple_binary<Rem>;
  t["min"] = &min_max<Min>;
  t["max"] = &min_max<Max>;
  t["abs"] = &simple_unary<Abs>;
  t["neg"] = &simple_unary<Neg>;
  t["sad"] = [](Emit& e) {
    const auto type = e.type();
    if (!type) return e.unsupported();
    e.op.run = integer_ternary<Sad>(*type);
    same_operands(e, 4, type->bits);
  };
  t["dp4a"] = &decode_dot;
  t["dp2a"] = &decode_dot;
}

}  // namespace sculler::emu::vm
