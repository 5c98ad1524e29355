// Logic and bit fields: and or xor not cnot lop3 shl shr shf popc clz brev bfe bfi bfind bmsk szext
// prmt fns.
#include "emu/vm/arith.h"

namespace sculler::emu::vm {
namespace {

struct And {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T f(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T f(T a) {
    return a == 0 ? T{1} : T{0};
  }
};
struct Shl {
  template <class T>
  static T f(T a, uint32_t n) {
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << n);
  }
};
struct Shr {
  template <class T>
  static T f(T a, uint32_t n) {
    if (n >= sizeof(T) * 8) {
      if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (sizeof(T) * 8 - 1));
      else return T{0};
    }
    return static_cast<T>(a >> n);
  }
};
struct Popc {
  template <class T>
  static uint32_t f(T a) {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct Clz {
  template <class T>
  static uint32_t f(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Brev {
  template <class T>
  static T f(T v) {
    uint64_t a = v;
    a = (a >> 1 & 0x5555555555555555u) | (a & 0x5555555555555555u) << 1;
    a = (a >> 2 & 0x3333333333333333u) | (a & 0x3333333333333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0f0f0f0f0fu) | (a & 0x0f0f0f0f0f0f0f0fu) << 4;
    a = __builtin_bswap64(a);
    return static_cast<T>(a >> (64 - sizeof(T) * 8));
  }
};
struct Bfe {
  template <class T>
  static T f(T a, uint32_t position, uint32_t length) {
    const uint32_t pos = position & 0xff, len = length & 0xff, bits = sizeof(T) * 8;
    if (len == 0) return 0;
    using U = std::make_unsigned_t<T>;
    const uint32_t top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
    const bool negative = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1) != 0;
    U r = pos >= bits ? U{0} : static_cast<U>(static_cast<U>(a) >> pos);
    const uint32_t have = pos >= bits ? 0 : len < bits - pos ? len : bits - pos;
    if (have < bits) {
      const U mask = static_cast<U>((U{1} << have) - 1);
      r = negative ? static_cast<U>(r | ~mask) : static_cast<U>(r & mask);
    }
    return static_cast<T>(r);
  }
};
template <class T>
Act bfi(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.o[0]);
  const T *a = lanes<T>(w, op.o[1]), *b = lanes<T>(w, op.o[2]);
  const uint32_t *p = lanes<uint32_t>(w, op.o[3]), *n = lanes<uint32_t>(w, op.o[4]);
  each_lane(w.write, d, [=](int i) {
    const uint32_t bits = sizeof(T) * 8, pos = p[i] & 0xff, len = n[i] & 0xff;
    const T ones = len >= bits ? ~T{0} : static_cast<T>((T{1} << len) - 1);
    const T mask = pos >= bits ? T{0} : static_cast<T>(ones << pos);
    const T v = pos >= bits ? T{0} : static_cast<T>(a[i] << pos);
    return static_cast<T>((b[i] & ~mask) | (v & mask));
  });
  return Act::kNext;
}
template <bool kShift>
struct Bfind {
  template <class T>
  static uint32_t f(T a) {
    using U = std::make_unsigned_t<T>;
    const U v =
        std::is_signed_v<T> && a < 0 ? static_cast<U>(~static_cast<U>(a)) : static_cast<U>(a);
    if (v == 0) return ~0u;
    const auto lead = static_cast<uint32_t>(std::countl_zero(v));
    return kShift ? lead : static_cast<uint32_t>(sizeof(T) * 8) - 1 - lead;
  }
};
template <bool kLeft, bool kWrap>
struct Shf {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = kWrap ? c & 31 : c > 32 ? 32 : c;
    const uint64_t v = uint64_t{b} << 32 | a;
    return kLeft ? static_cast<uint32_t>((v << n) >> 32) : static_cast<uint32_t>(v >> n);
  }
};
template <int kMode>
struct Prmt {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t v = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      uint32_t s = 0;
      bool sign = false;
      const uint32_t n = c & 3;
      switch (kMode) {
        case 0:
          s = c >> (4 * k) & 7;
          sign = (c >> (4 * k) & 8) != 0;
          break;
        case 1: s = (n + k) & 7; break;             // f4e
        case 2: s = (n - k) & 7; break;             // b4e
        case 3: s = n; break;                       // rc8
        case 4: s = k < n ? n : k; break;           // ecl
        case 5: s = k < n ? k : n; break;           // ecr
        default: s = (n & 1) * 2 + (k & 1); break;  // rc16
      }
      uint32_t byte = static_cast<uint32_t>(v >> (8 * s)) & 0xff;
      if (sign) byte = (byte & 0x80) != 0 ? 0xff : 0;
      r |= byte << (8 * k);
    }
    return r;
  }
};

Act lop3(Warp& w, const Op& op) {
  auto* d = lanes<uint32_t>(w, op.o[0]);
  const uint32_t *a = lanes<uint32_t>(w, op.o[1]), *b = lanes<uint32_t>(w, op.o[2]),
                 *c = lanes<uint32_t>(w, op.o[3]);
  uint32_t m[8];
  for (uint32_t k = 0; k < 8; ++k) m[k] = (op.a >> k & 1) != 0 ? ~0u : 0u;
  each_lane(w.write, d, [=](int i) {
    const uint32_t x = a[i], y = b[i], z = c[i];
    return (~x & ~y & ~z & m[0]) | (~x & ~y & z & m[1]) | (~x & y & ~z & m[2]) |
           (~x & y & z & m[3]) | (x & ~y & ~z & m[4]) | (x & ~y & z & m[5]) | (x & y & ~z & m[6]) |
           (x & y & z & m[7]);
  });
  return Act::kNext;
}

// Predicate logic: masks.
template <class F>
Act pred_binary(Warp& w, const Op& op) {
  set_pred(w, op.o[0], F::f(pred(w, op.o[1]), pred(w, op.o[2])));
  return Act::kNext;
}
Act pred_not(Warp& w, const Op& op) {
  set_pred(w, op.o[0], ~pred(w, op.o[1]));
  return Act::kNext;
}

template <class F>
void decode_logic(Emit& e) {
  const auto t = e.type();
  if (!t || !e.operands(3)) return e.unsupported();
  if (t->letter == 'p') {
    e.op.run = &pred_binary<F>;
    e.pred_dst(0, e.operand(0));
    e.pred_src(1, e.operand(1));
    e.pred_src(2, e.operand(2));
    return;
  }
  if (t->letter != 'b') return e.unsupported();
  e.op.run = integer_binary<F>(*t);
  same_operands(e, 3, t->bits);
}
void decode_not(Emit& e) {
  const auto t = e.type();
  if (!t || !e.operands(2)) return e.unsupported();
  if (t->letter == 'p') {
    e.op.run = &pred_not;
    e.pred_dst(0, e.operand(0));
    e.pred_src(1, e.operand(1));
    return;
  }
  if (t->letter != 'b') return e.unsupported();
  e.op.run = integer_unary<Not>(*t);
  same_operands(e, 2, t->bits);
}
template <class F>
void decode_shift(Emit& e) {
  const auto t = e.type();
  if (!t || is_float(*t) || !e.operands(3)) return e.unsupported();
  const bool s = t->letter == 's';
  switch (t->bits) {
    case 16:
      e.op.run =
          s ? &binary<F, int16_t, int16_t, uint32_t> : &binary<F, uint16_t, uint16_t, uint32_t>;
      break;
    case 32:
      e.op.run =
          s ? &binary<F, int32_t, int32_t, uint32_t> : &binary<F, uint32_t, uint32_t, uint32_t>;
      break;
    case 64:
      e.op.run =
          s ? &binary<F, int64_t, int64_t, uint32_t> : &binary<F, uint64_t, uint64_t, uint32_t>;
      break;
    default: return e.unsupported();
  }
  e.dst(0, size_t{0}, t->bits);
  e.src(1, 1, t->bits);
  e.src(2, 2, 32);
}
template <class F>
void decode_count(Emit& e) {
  const auto t = e.type();
  if (!t || t->letter != 'b' || (t->bits != 32 && t->bits != 64) || !e.operands(2))
    return e.unsupported();
  e.op.run = t->bits == 32 ? &unary<F, uint32_t, uint32_t> : &unary<F, uint32_t, uint64_t>;
  e.dst(0, size_t{0}, 32);
  e.src(1, 1, t->bits);
}
void decode_bfe(Emit& e) {
  const auto t = e.type();
  if (!t || !e.operands(4)) return e.unsupported();
  const bool s = t->letter == 's';
  if (t->bits == 32)
    e.op.run =
        s ? &ternary<Bfe, int32_t, int32_t, uint32_t, uint32_t> : &ternary<Bfe, uint32_t, uint32_t>;
  else if (t->bits == 64)
    e.op.run = s ? &ternary<Bfe, int64_t, int64_t, uint32_t, uint32_t>
                 : &ternary<Bfe, uint64_t, uint64_t, uint32_t, uint32_t>;
  e.dst(0, size_t{0}, t->bits);
  e.src(1, 1, t->bits);
  e.src(2, 2, 32);
  e.src(3, 3, 32);
}
void decode_bfi(Emit& e) {
  const auto t = e.type();
  if (!t || !e.operands(5) || (t->bits != 32 && t->bits != 64)) return e.unsupported();
  e.op.run = t->bits == 32 ? &bfi<uint32_t> : &bfi<uint64_t>;
  e.dst(0, size_t{0}, t->bits);
  e.src(1, 1, t->bits);
  e.src(2, 2, t->bits);
  e.src(3, 3, 32);
  e.src(4, 4, 32);
}
void decode_bfind(Emit& e) {
  const bool shift = e.take("shiftamt");
  const auto t = e.type();
  if (!t || !e.operands(2)) return e.unsupported();
  const bool s = t->letter == 's';
  if (t->bits == 32)
    e.op.run =
        shift
            ? (s ? &unary<Bfind<true>, uint32_t, int32_t> : &unary<Bfind<true>, uint32_t, uint32_t>)
            : (s ? &unary<Bfind<false>, uint32_t, int32_t>
                 : &unary<Bfind<false>, uint32_t, uint32_t>);
  else if (t->bits == 64)
    e.op.run =
        shift
            ? (s ? &unary<Bfind<true>, uint32_t, int64_t> : &unary<Bfind<true>, uint32_t, uint64_t>)
            : (s ? &unary<Bfind<false>, uint32_t, int64_t>
                 : &unary<Bfind<false>, uint32_t, uint64_t>);
  e.dst(0, size_t{0}, 32);
  e.src(1, 1, t->bits);
}
void decode_shf(Emit& e) {
  const bool left = e.take("l");
  if (!left && !e.take("r")) return e.unsupported();
  const bool wrap = e.take("wrap");
  if (!wrap && !e.take("clamp")) return e.unsupported();
  if (!e.take("b32")) return e.unsupported();
  e.op.run = left ? (wrap ? &ternary<Shf<true, true>, uint32_t, uint32_t>
                          : &ternary<Shf<true, false>, uint32_t, uint32_t>)
                  : (wrap ? &ternary<Shf<false, true>, uint32_t, uint32_t>
                          : &ternary<Shf<false, false>, uint32_t, uint32_t>);
  same_operands(e, 4, 32);
}
void decode_prmt(Emit& e) {
  if (!e.take("b32")) return e.unsupported();
  static constexpr std::array<std::string_view, 6> kModes{"f4e", "b4e", "rc8",
                                                          "ecl", "ecr", "rc16"};
  static constexpr Handler kHandlers[] = {
      &ternary<Prmt<0>, uint32_t, uint32_t>, &ternary<Prmt<1>, uint32_t, uint32_t>,
      &ternary<Prmt<2>, uint32_t, uint32_t>, &ternary<Prmt<3>, uint32_t, uint32_t>,
      &ternary<Prmt<4>, uint32_t, uint32_t>, &ternary<Prmt<5>, uint32_t, uint32_t>,
      &ternary<Prmt<6>, uint32_t, uint32_t>};
  e.op.run = kHandlers[e.choice(kModes) + 1];
  same_operands(e, 4, 32);
}
void decode_lop3(Emit& e) {
  int64_t table = 0;
  if (!e.take("b32") || !e.operands(5) || !e.immediate(e.operand(4), &table))
    return e.unsupported();
  e.op.run = &lop3;
  e.op.a = static_cast<uint8_t>(table);
  e.dst(0, size_t{0}, 32);
  for (size_t k = 1; k < 4; ++k) e.src(k, k, 32);
}
template <bool kClamp>
struct Bmsk {
  static uint32_t f(uint32_t a, uint32_t b) {
    const uint32_t pos = kClamp ? (a > 32 ? 32 : a) : a & 31,
                   len = kClamp ? (b > 32 ? 32 : b) : b & 31;
    return static_cast<uint32_t>((((uint64_t{1} << len) - 1) << pos));
  }
};

}  // namespace

void register_bits(DecodeTable& t) {
  t["and"] = &decode_logic<And>;
  t["or"] = &decode_logic<Or>;
  t["xor"] = &decode_logic<Xor>;
  t["not"] = &decode_not;
  t["cnot"] = [](Emit& e) {
    const auto type = e.type();
    if (!type || type->letter != 'b') return e.unsupported();
    e.op.run = integer_unary<Cnot>(*type);
    same_operands(e, 2, type->bits);
  };
  t["shl"] = &decode_shift<Shl>;
  t["shr"] = &decode_shift<Shr>;
  t["popc"] = &decode_count<Popc>;
  t["clz"] = &decode_count<Clz>;
  t["brev"] = [](Emit& e) {
    const auto type = e.type();
    if (!type || type->letter != 'b') return e.unsupported();
    e.op.run = type->bits == 32   ? &unary<Brev, uint32_t, uint32_t>
               : type->bits == 64 ? &unary<Brev, uint64_t, uint64_t>
                                  : nullptr;
    same_operands(e, 2, type->bits);
  };
  t["bfe"] = &decode_bfe;
  t["bfi"] = &decode_bfi;
  t["bfind"] = &decode_bfind;
  t["bmsk"] = [](Emit& e) {
    const bool clamp = e.take("clamp");
    if ((!clamp && !e.take("wrap")) || !e.take("b32")) return e.unsupported();
    e.op.run =
        clamp ? &binary<Bmsk<true>, uint32_t, uint32_t> : &binary<Bmsk<false>, uint32_t, uint32_t>;
    same_operands(e, 3, 32);
  };
  t["shf"] = &decode_shf;
  t["prmt"] = &decode_prmt;
  t["lop3"] = &decode_lop3;
}

}  // namespace sculler::emu::vm
