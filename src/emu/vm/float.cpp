// f32 and f64: add sub mul fma mad div rcp sqrt rsqrt sin cos ex2 lg2 tanh abs neg min max copysign
// testp.
#include <immintrin.h>

#include "emu/vm/arith.h"

namespace sculler::emu::vm {

bool half_arith(Emit& e);

namespace {

// Rounding other than to nearest goes through MXCSR; the barriers keep the operation where it is.
enum Round : int { kNearest = 0, kZero = 3, kDown = 1, kUp = 2 };
template <int kRound>
struct Mode {
  unsigned saved = _mm_getcsr();
  Mode() {
    _mm_setcsr((saved & ~0x6000u) | static_cast<unsigned>(kRound) << 13);
    asm volatile("" ::: "memory");
  }
  ~Mode() {
    asm volatile("" ::: "memory");
    _mm_setcsr(saved);
  }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
};

template <class T>
T flush(T v) {
  if constexpr (sizeof(T) == 4)
    return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v;
  else return v;
}
template <class T>
T saturate(T v) {
  return v > T{0} ? (v < T{1} ? v : T{1}) : T{0};
}

struct FAdd {
  template <class T>
  static T f(T a, T b) {
    return a + b;
  }
};
struct FSub {
  template <class T>
  static T f(T a, T b) {
    return a - b;
  }
};
struct FMul {
  template <class T>
  static T f(T a, T b) {
    return a * b;
  }
};
struct FDiv {
  template <class T>
  static T f(T a, T b) {
    return a / b;
  }
};
struct FFma {
  template <class T>
  static T f(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct FMin {
  template <class T>
  static T f(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct FMax {
  template <class T>
  static T f(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }
};
template <class F>
struct OrNan {
  template <class T>
  static T f(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : F::f(a, b);
  }
};
struct FRcp {
  template <class T>
  static T f(T a) {
    return T{1} / a;
  }
};
struct FSqrt {
  template <class T>
  static T f(T a) {
    return std::sqrt(a);
  }
};
struct FRsqrt {
  template <class T>
  static T f(T a) {
    return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
  }
};
struct FSin {
  template <class T>
  static T f(T a) {
    return std::sin(a);
  }
};
struct FCos {
  template <class T>
  static T f(T a) {
    return std::cos(a);
  }
};
struct FEx2 {
  template <class T>
  static T f(T a) {
    return std::exp2(a);
  }
};
struct FLg2 {
  template <class T>
  static T f(T a) {
    return std::log2(a);
  }
};
struct FTanh {
  template <class T>
  static T f(T a) {
    return std::tanh(a);
  }
};
struct FAbs {
  template <class T>
  static T f(T a) {
    return std::fabs(a);
  }
};
struct FNeg {
  template <class T>
  static T f(T a) {
    return -a;
  }
};
struct FCopysign {
  template <class T>
  static T f(T a, T b) {
    return std::copysign(b, a);
  }
};  // sign of a, value of b

// F with .ftz and .sat.
template <class F, bool kFtz, bool kSat>
struct Wrap {
  template <class T, class... A>
  static T f(T a, A... rest) {
    T r = kFtz ? flush(F::f(flush(a), flush(rest)...)) : F::f(a, rest...);
    return kSat ? saturate(r) : r;
  }
};
// Another rounding: one lane at a time.
template <class F, class T, int kRound, bool kFtz, bool kSat, int kArgs>
Act rounded(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.o[0]);
  const T *a = lanes<T>(w, op.o[1]), *b = kArgs > 1 ? lanes<T>(w, op.o[2]) : a,
          *c = kArgs > 2 ? lanes<T>(w, op.o[3]) : a;
  for_mask(w.exec, [&](int i) {
    volatile T x = kFtz ? flush(a[i]) : a[i], y = kFtz ? flush(b[i]) : b[i],
               z = kFtz ? flush(c[i]) : c[i];
    volatile T r;
    {
      Mode<kRound> mode;
      const T p = x, q = y, s = z;
      if constexpr (kArgs == 1) r = F::f(p);
      else if constexpr (kArgs == 2) r = F::f(p, q);
      else r = F::f(p, q, s);
    }
    T v = r;
    if (kFtz) v = flush(v);
    if (kSat) v = saturate(v);
    d[i] = v;
  });
  return Act::kNext;
}

template <class F, class T, bool kFtz, bool kSat, int kArgs>
Handler with_flags(int round) {
  using W = Wrap<F, kFtz, kSat>;
  switch (round) {
    case 1: return &rounded<F, T, kZero, kFtz, kSat, kArgs>;
    case 2: return &rounded<F, T, kDown, kFtz, kSat, kArgs>;
    case 3: return &rounded<F, T, kUp, kFtz, kSat, kArgs>;
    default: break;
  }
  if constexpr (kArgs == 1) return &unary<W, T, T>;
  else if constexpr (kArgs == 2) return &binary<W, T, T>;
  else return &ternary<W, T, T>;
}
// round: 0 rn, 1 rz, 2 rm, 3 rp.
template <class F, int kArgs>
Handler rounding_handler(bool f64, int round, bool ftz, bool sat) {
  if (f64) return ftz || sat ? nullptr : with_flags<F, double, false, false, kArgs>(round);
  if (ftz)
    return sat ? with_flags<F, float, true, true, kArgs>(round)
               : with_flags<F, float, true, false, kArgs>(round);
  return sat ? with_flags<F, float, false, true, kArgs>(round)
             : with_flags<F, float, false, false, kArgs>(round);
}
// Without rounding modes.
template <class F, int kArgs>
Handler plain_handler(bool f64, bool ftz) {
  using W = Wrap<F, true, false>;
  if constexpr (kArgs == 1)
    return f64   ? &unary<F, double, double>
           : ftz ? &unary<W, float, float>
                 : &unary<F, float, float>;
  else
    return f64   ? &binary<F, double, double>
           : ftz ? &binary<W, float, float>
                 : &binary<F, float, float>;
}

constexpr std::array<std::string_view, 4> kRounds{"rn", "rz", "rm", "rp"};

std::optional<bool> wide_float(Emit& e) {
  const auto t = e.type();
  if (!t || t->letter != 'f' || (t->bits != 32 && t->bits != 64)) {
    e.unsupported();
    return std::nullopt;
  }
  return t->bits == 64;
}

template <class F, int kArgs>
void decode_rounded(Emit& e, bool needs_round) {
  const int round = e.choice(kRounds);
  const bool ftz = e.take("ftz"), sat = e.take("sat");
  const auto f64 = wide_float(e);
  if (!f64 || (needs_round && round < 0)) return e.unsupported("rounding is missing");
  e.op.run = rounding_handler<F, kArgs>(*f64, round < 0 ? 0 : round, ftz, sat);
  e.op.flops = kArgs == 3 ? 2 : 1;
  same_operands(e, kArgs + 1, *f64 ? 64 : 32, true);
}
template <class F>
void decode_minmax(Emit& e) {
  const bool ftz = e.take("ftz"), nan = e.take("NaN");
  const auto f64 = wide_float(e);
  if (!f64) return;
  e.op.run = nan ? plain_handler<OrNan<F>, 2>(*f64, ftz) : plain_handler<F, 2>(*f64, ftz);
  same_operands(e, 3, *f64 ? 64 : 32, true);
}
template <class F>
void decode_sign(Emit& e) {
  const bool ftz = e.take("ftz");
  const auto f64 = wide_float(e);
  if (!f64) return;
  e.op.run = plain_handler<F, 1>(*f64, ftz);
  same_operands(e, 2, *f64 ? 64 : 32, true);
}
void decode_div(Emit& e) {
  const bool loose = e.take("approx") || e.take("full");
  const int round = loose ? 0 : e.choice(kRounds);
  const bool ftz = e.take("ftz");
  const auto f64 = wide_float(e);
  if (!f64 || round < 0) return e.unsupported("rounding is missing");
  e.op.run = rounding_handler<FDiv, 2>(*f64, round, ftz, false);
  e.op.flops = 1;
  same_operands(e, 3, *f64 ? 64 : 32, true);
}

// rcp, sqrt: approx or rounded.
template <class F>
void decode_root(Emit& e) {
  if (half_arith(e)) return;
  const bool approx = e.take("approx");
  const int round = approx ? 0 : e.choice(kRounds);
  const bool ftz = e.take("ftz");
  const auto f64 = wide_float(e);
  if (!f64 || round < 0) return e.unsupported("rounding is missing");
  // rcp.approx.ftz.f64 keeps the upper half only.
  e.op.run = *f64 ? rounding_handler<F, 1>(true, round, false, false)
                  : rounding_handler<F, 1>(false, round, ftz, false);
  e.op.flops = 1;
  same_operands(e, 2, *f64 ? 64 : 32, true);
}
template <class F>
void decode_approx(Emit& e) {
  if (half_arith(e)) return;
  if (!e.take("approx")) return e.unsupported();
  const bool ftz = e.take("ftz");
  const auto t = e.type();
  if (!t || t->letter != 'f') return e.unsupported();
  const bool f64 = t->bits == 64;
  if (f64 && e.in.opcode != "rsqrt") return e.unsupported();
  e.op.run = plain_handler<F, 1>(f64, ftz && !f64);
  e.op.flops = 1;
  same_operands(e, 2, f64 ? 64 : 32, true);
}

template <class T>
bool test_property(int what, T v) {
  switch (what) {
    case 0: return std::isfinite(v);
    case 1: return std::isinf(v);
    case 2: return !std::isnan(v);
    case 3: return std::isnan(v);
    case 4: return std::isnormal(v);
    default: return v != 0 && std::isfinite(v) && !std::isnormal(v);
  }
}
template <class T>
Act testp(Warp& w, const Op& op) {
  const T* a = lanes<T>(w, op.o[1]);
  uint32_t m = 0;
  for_mask(w.exec, [&](int i) { m |= uint32_t{test_property(op.a, a[i])} << i; });
  set_pred(w, op.o[0], m);
  return Act::kNext;
}
void decode_testp(Emit& e) {
  static constexpr std::array<std::string_view, 6> kWhat{"finite",     "infinite", "number",
                                                         "notanumber", "normal",   "subnormal"};
  const int what = e.choice(kWhat);
  const auto f64 = wide_float(e);
  if (!f64 || what < 0 || !e.operands(2)) return e.unsupported();
  e.op.a = static_cast<uint8_t>(what);
  e.op.run = *f64 ? &testp<double> : &testp<float>;
  e.pred_dst(0, e.operand(0));
  e.src(1, 1, *f64 ? 64 : 32, true);
}

}  // namespace

bool float_arith(Emit& e) {
  if (half_arith(e)) return true;
  const auto t = last_type(e);
  if (!t || t->letter != 'f') return false;
  const std::string_view op = e.in.opcode;
  if (op == "add") decode_rounded<FAdd, 2>(e, false);
  else if (op == "sub") decode_rounded<FSub, 2>(e, false);
  else if (op == "mul") decode_rounded<FMul, 2>(e, false);
  else if (op == "fma" || op == "mad") decode_rounded<FFma, 3>(e, true);
  else if (op == "div") decode_div(e);
  else if (op == "min") decode_minmax<FMin>(e);
  else if (op == "max") decode_minmax<FMax>(e);
  else if (op == "abs") decode_sign<FAbs>(e);
  else if (op == "neg") decode_sign<FNeg>(e);
  else e.unsupported();
  return true;
}

void register_float(DecodeTable& t) {
  t["fma"] = [](Emit& e) {
    if (!float_arith(e)) e.unsupported();
  };
  t["rcp"] = &decode_root<FRcp>;
  t["sqrt"] = &decode_root<FSqrt>;
  t["rsqrt"] = &decode_approx<FRsqrt>;
  t["sin"] = &decode_approx<FSin>;
  t["cos"] = &decode_approx<FCos>;
  t["ex2"] = &decode_approx<FEx2>;
  t["lg2"] = &decode_approx<FLg2>;
  t["tanh"] = &decode_approx<FTanh>;
  t["testp"] = &decode_testp;
  t["copysign"] = [](Emit& e) {
    const auto f64 = wide_float(e);
    if (!f64) return;
    e.op.run = plain_handler<FCopysign, 2>(*f64, false);
    same_operands(e, 3, *f64 ? 64 : 32, true);
  };
}

}  // namespace sculler::emu::vm
