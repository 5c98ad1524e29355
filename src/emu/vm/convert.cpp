// cvt between all integer and float types, packed forms and cvt.pack.
#include <immintrin.h>

#include "emu/vm/arith.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {
namespace {

enum Rounding : uint8_t { kNone, kRn, kRz, kRm, kRp, kRni, kRzi, kRmi, kRpi, kRna };
constexpr std::array<std::string_view, 9> kRoundings{"rn",  "rz",  "rm",  "rp", "rni",
                                                     "rzi", "rmi", "rpi", "rna"};

struct Flags {
  Rounding round;
  bool ftz, sat;
};

unsigned mxcsr_bits(Rounding r) { return r == kRz ? 3u : r == kRm ? 1u : r == kRp ? 2u : 0u; }
template <class To, class From>
To with_rounding(From v, Rounding r) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr((saved & ~0x6000u) | mxcsr_bits(r) << 13);
  volatile From in = v;
  volatile To out = static_cast<To>(in);
  _mm_setcsr(saved);
  return out;
}

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <class T>
auto decode_raw(uint64_t raw) {
  if constexpr (kIsHalf<T>)
    return static_cast<double>(T::get(static_cast<uint32_t>(raw) & 0xffffu));
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(raw)));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(raw);
  else return static_cast<T>(raw);
}
double round_whole(double v, Rounding r) {
  switch (r) {
    case kRni: return std::nearbyint(v);
    case kRmi: return std::floor(v);
    case kRpi: return std::ceil(v);
    case kRzi: return std::trunc(v);
    default: return v;
  }
}
template <class T>
T to_integer(double v, Rounding r) {
  if (std::isnan(v)) return sizeof(T) == 8 ? static_cast<T>(uint64_t{1} << 63) : T{0};
  v = round_whole(v, r == kNone ? kRzi : r);
  constexpr double kTop = static_cast<double>(std::numeric_limits<T>::max());
  if (v >= kTop)
    return sizeof(T) == 8 || v > kTop ? std::numeric_limits<T>::max() : static_cast<T>(v);
  if (v <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(v);
}
template <class T>
uint64_t to_float_raw(double v, Flags f) {
  if (f.round >= kRni && f.round <= kRpi) v = round_whole(v, f.round);
  if (f.sat) v = v > 0 ? (v < 1 ? v : 1) : 0;
  const int small_round = f.round == kRz ? 1 : f.round == kRp ? 2 : f.round == kRm ? 3 : 0;
  if constexpr (kIsHalf<T>) return T::put_exact(v, small_round);
  else if constexpr (std::is_same_v<T, float>) {
    float r = f.round == kRz || f.round == kRm || f.round == kRp ? with_rounding<float>(v, f.round)
                                                                 : static_cast<float>(v);
    if (f.ftz && std::fabs(r) < std::numeric_limits<float>::min()) r = std::copysign(0.0f, r);
    return std::bit_cast<uint32_t>(r);
  } else {
    return std::bit_cast<uint64_t>(v);
  }
}

// The general case, a lane at a time: raw bits in, raw bits (sign-extended) out.
template <class D, class S>
uint64_t convert(uint64_t raw, Flags f) {
  const auto v = decode_raw<S>(raw);
  if constexpr (kIsFloat<S>) {
    double x = v;
    if (f.ftz && std::is_same_v<S, float> &&
        std::fabs(x) < static_cast<double>(std::numeric_limits<float>::min()))
      x = std::copysign(0.0, x);
    if constexpr (kIsFloat<D>) return to_float_raw<D>(x, f);
    else return static_cast<uint64_t>(static_cast<int64_t>(to_integer<D>(x, f.round)));
  } else if constexpr (kIsFloat<D>) {
    if constexpr (kIsHalf<D>) return to_float_raw<D>(static_cast<double>(v), f);
    else if constexpr (std::is_same_v<D, float>) {
      float r = f.round > kRn ? with_rounding<float>(v, f.round) : static_cast<float>(v);
      if (f.sat) r = r > 0 ? (r < 1 ? r : 1.0f) : 0;
      return std::bit_cast<uint32_t>(r);
    } else {
      return std::bit_cast<uint64_t>(f.round > kRn ? with_rounding<double>(v, f.round)
                                                   : static_cast<double>(v));
    }
  } else {
    if (!f.sat) return static_cast<uint64_t>(static_cast<int64_t>(static_cast<D>(v)));
    __extension__ using Wide = __int128;
    const Wide x = v, lo = std::numeric_limits<D>::min(), hi = std::numeric_limits<D>::max();
    return static_cast<uint64_t>(static_cast<int64_t>(x < lo   ? std::numeric_limits<D>::min()
                                                      : x > hi ? std::numeric_limits<D>::max()
                                                               : static_cast<D>(v)));
  }
}
using Convert = uint64_t (*)(uint64_t, Flags);

// op.a rounding, op.b 1 ftz | 2 sat, op.c bits kept of a narrow destination, op.imm the function.
template <class RowD, class RowS>
Act cvt_general(Warp& w, const Op& op) {
  const auto fn = reinterpret_cast<Convert>(op.imm);
  const Flags f{static_cast<Rounding>(op.a), (op.b & 1) != 0, (op.b & 2) != 0};
  const RowS* a = lanes<RowS>(w, op.o[1]);
  RowD* d = lanes<RowD>(w, op.o[0]);
  const uint64_t keep = op.c >= 64 ? ~uint64_t{0} : (uint64_t{1} << op.c) - 1;
  for_mask(w.exec, [&](int i) { d[i] = static_cast<RowD>(fn(a[i], f) & keep); });
  return Act::kNext;
}

// Fast cases.
template <class D>
struct Cast {
  template <class S>
  static D f(S v) {
    return static_cast<D>(v);
  }
};
struct ToInt {
  static int32_t f(float v) {
    return v != v                ? 0
           : v >= 2147483648.0f  ? INT32_MAX
           : v <= -2147483648.0f ? INT32_MIN
                                 : static_cast<int32_t>(v);
  }
};
struct FromBf {
  static float f(uint16_t v) { return bf16_to_float(v); }
};
struct ToBf {
  static uint16_t f(float v) { return float_to_bf16(v); }
};
struct FromF16 {
  static float f(uint16_t v) { return f16_to_float(v); }
};
struct ToF16 {
  static uint16_t f(float v) { return float_to_f16(v); }
};
struct ToBf2 {
  static uint32_t f(float hi, float lo) {
    return uint32_t{float_to_bf16(hi)} << 16 | float_to_bf16(lo);
  }
};
struct ToF16x2 {
  static uint32_t f(float hi, float lo) {
    return uint32_t{float_to_f16(hi)} << 16 | float_to_f16(lo);
  }
};

template <class D, class S>
Handler fast(Flags f) {
  if (f.sat || f.ftz) return nullptr;
  if constexpr (std::is_integral_v<D> && std::is_integral_v<S>) return &unary<Cast<D>, D, S>;
  else if constexpr (std::is_same_v<D, int32_t> && std::is_same_v<S, float>)
    return f.round == kRzi ? &unary<ToInt, int32_t, float> : nullptr;
  else if constexpr (std::is_same_v<D, float> &&
                     (std::is_same_v<S, int32_t> || std::is_same_v<S, uint32_t>))
    return f.round == kRn ? &unary<Cast<float>, float, S> : nullptr;
  else if constexpr (std::is_same_v<D, double> &&
                     (std::is_same_v<S, int32_t> || std::is_same_v<S, float>))
    return f.round <= kRn ? &unary<Cast<double>, double, S> : nullptr;
  else if constexpr (std::is_same_v<D, float> && std::is_same_v<S, double>)
    return f.round <= kRn ? &unary<Cast<float>, float, double> : nullptr;
  else if constexpr (std::is_same_v<D, float> && std::is_same_v<S, Bf16>)
    return f.round == kNone ? &unary<FromBf, float, uint16_t> : nullptr;
  else if constexpr (std::is_same_v<D, Bf16> && std::is_same_v<S, float>)
    return f.round == kRn ? &unary<ToBf, uint16_t, float> : nullptr;
  else if constexpr (std::is_same_v<D, float> && std::is_same_v<S, F16>)
    return f.round == kNone ? &unary<FromF16, float, uint16_t> : nullptr;
  else if constexpr (std::is_same_v<D, F16> && std::is_same_v<S, float>)
    return f.round == kRn ? &unary<ToF16, uint16_t, float> : nullptr;
  else return nullptr;
}
struct Choice {
  Handler fast;
  Convert general;
};
template <class D, class S>
Choice choice(Flags f) {
  return {fast<D, S>(f), &convert<D, S>};
}
template <class D>
std::optional<Choice> by_source(const ptx::Type& t, Flags f) {
  const bool s = t.letter == 's';
  if (t.letter == 'h') return choice<D, F16>(f);
  if (t.letter == 'H') return choice<D, Bf16>(f);
  if (t.letter == 'f') return t.bits == 32 ? choice<D, float>(f) : choice<D, double>(f);
  if (t.letter != 's' && t.letter != 'u') return std::nullopt;
  switch (t.bits) {
    case 8: return s ? choice<D, int8_t>(f) : choice<D, uint8_t>(f);
    case 16: return s ? choice<D, int16_t>(f) : choice<D, uint16_t>(f);
    case 32: return s ? choice<D, int32_t>(f) : choice<D, uint32_t>(f);
    default: return s ? choice<D, int64_t>(f) : choice<D, uint64_t>(f);
  }
}
std::optional<Choice> by_types(const ptx::Type& d, const ptx::Type& t, Flags f) {
  const bool s = d.letter == 's';
  if (d.letter == 'h') return by_source<F16>(t, f);
  if (d.letter == 'H') return by_source<Bf16>(t, f);
  if (d.letter == 'f') return d.bits == 32 ? by_source<float>(t, f) : by_source<double>(t, f);
  if (d.letter != 's' && d.letter != 'u') return std::nullopt;
  switch (d.bits) {
    case 8: return s ? by_source<int8_t>(t, f) : by_source<uint8_t>(t, f);
    case 16: return s ? by_source<int16_t>(t, f) : by_source<uint16_t>(t, f);
    case 32: return s ? by_source<int32_t>(t, f) : by_source<uint32_t>(t, f);
    default: return s ? by_source<int64_t>(t, f) : by_source<uint64_t>(t, f);
  }
}

// ---- Packed forms: d = {a, b}, a in the upper half.
template <class H, bool kRelu, int kRound>
struct Pack2 {
  static uint32_t one(float v) {
    return H::put_exact(kRelu && v < 0 ? 0.0 : static_cast<double>(v), kRound);
  }
  static uint32_t f(float hi, float lo) { return one(hi) << 16 | one(lo); }
};
// e4m3 has no infinity: its largest is 448 (0x7e); e5m2's is 57344 (0x7b). Saturating to finite.
uint32_t to_e4m3(float v) {
  if (v != v) return 0x7f;
  const uint32_t sign = std::signbit(v) ? 0x80 : 0;
  const float m = std::fabs(v);
  if (m >= 448.0f) return sign | 0x7e;
  int e = 0;
  (void)std::frexp(m, &e);
  e = e - 1 < -6 ? -6 : e - 1;
  const double scaled = std::nearbyint(std::ldexp(static_cast<double>(m), 3 - e));
  auto q = static_cast<uint32_t>(scaled);
  if (q >= 16) {
    q = 8;
    ++e;
  }
  if (q < 8) return sign | q;
  return sign | static_cast<uint32_t>(e + 7) << 3 | (q & 7);
}
uint32_t to_e5m2(float v) {
  if (v != v) return 0x7f;
  const uint32_t r = double_to_small<5, 2>(static_cast<double>(v));
  return (r & 0x7f) >= 0x7c ? (r & 0x80) | 0x7b : r;
}
float from_e4m3(uint32_t v) {
  if ((v & 0x7f) == 0x7f) return std::bit_cast<float>(0x7fffffffu);
  const float s = (v & 0x80) != 0 ? -1.0f : 1.0f;
  const int e = static_cast<int>(v >> 3 & 15);
  return e == 0 ? s * std::ldexp(static_cast<float>(v & 7), -9)
                : s * std::ldexp(static_cast<float>(8 | (v & 7)), e - 10);
}
float from_e5m2(uint32_t v) { return small_to_float<5, 2>(v & 0xff); }

template <bool kE5, bool kRelu>
struct Fp8Pack {
  static uint32_t one(float v) {
    if (kRelu && v < 0) v = 0;
    return kE5 ? to_e5m2(v) : to_e4m3(v);
  }
  static uint16_t f(float hi, float lo) { return static_cast<uint16_t>(one(hi) << 8 | one(lo)); }
};
template <bool kE5, bool kRelu>
struct Fp8FromHalves {
  static uint16_t f(uint32_t v) {
    return Fp8Pack<kE5, kRelu>::f(F16::get(v >> 16), F16::get(v & 0xffffu));
  }
};
template <bool kE5, bool kRelu>
struct HalvesFromFp8 {
  static uint32_t one(uint32_t v) {
    const float x = kE5 ? from_e5m2(v) : from_e4m3(v);
    return F16::put(kRelu && x < 0 ? 0.0f : x);
  }
  static uint32_t f(uint16_t v) { return one(v >> 8) << 16 | one(v & 0xffu); }
};
template <bool kAway, bool kRelu>
struct Tf32 {  // keeps 10 bits of mantissa
  static uint32_t f(float v) {
    uint32_t u = std::bit_cast<uint32_t>(kRelu && v < 0 ? 0.0f : v);
    if ((u & 0x7f800000u) == 0x7f800000u) return u;
    u += kAway ? 0x1000u : 0xfffu + (u >> 13 & 1u);
    return u & ~0x1fffu;
  }
};

template <class H>
Handler pack_handler(Rounding r, bool relu) {
  if (r == kRz)
    return relu ? &binary<Pack2<H, true, 1>, uint32_t, float>
                : &binary<Pack2<H, false, 1>, uint32_t, float>;
  if (relu) return &binary<Pack2<H, true, 0>, uint32_t, float>;
  return std::is_same_v<H, F16> ? &binary<ToF16x2, uint32_t, float>
                                : &binary<ToBf2, uint32_t, float>;
}

void decode_packed(Emit& e, Rounding round, bool relu, bool satfinite, std::string_view d) {
  const std::string_view from = e.peek();
  e.take(from);
  const bool pair = d == "f16x2" || d == "bf16x2";
  const bool fp8 = d == "e4m3x2" || d == "e5m2x2", e5 = d == "e5m2x2";
  if (pair && from == "f32" && !satfinite && (round == kRn || round == kRz)) {
    e.op.run = d == "f16x2" ? pack_handler<F16>(round, relu) : pack_handler<Bf16>(round, relu);
    same_operands(e, 3, 32, true);
  } else if (fp8 && from == "f32" && satfinite && round == kRn) {
    e.op.run = e5 ? (relu ? &binary<Fp8Pack<true, true>, uint16_t, float>
                          : &binary<Fp8Pack<true, false>, uint16_t, float>)
                  : (relu ? &binary<Fp8Pack<false, true>, uint16_t, float>
                          : &binary<Fp8Pack<false, false>, uint16_t, float>);
    if (!e.operands(3)) return;
    e.dst(0, size_t{0}, 16);
    e.src(1, 1, 32, true);
    e.src(2, 2, 32, true);
  } else if (fp8 && from == "f16x2" && satfinite && round == kRn && e.operands(2)) {
    e.op.run = e5 ? (relu ? &unary<Fp8FromHalves<true, true>, uint16_t, uint32_t>
                          : &unary<Fp8FromHalves<true, false>, uint16_t, uint32_t>)
                  : (relu ? &unary<Fp8FromHalves<false, true>, uint16_t, uint32_t>
                          : &unary<Fp8FromHalves<false, false>, uint16_t, uint32_t>);
    e.dst(0, size_t{0}, 16);
    e.src(1, 1, 32);
  } else if (d == "f16x2" && (from == "e4m3x2" || from == "e5m2x2") && round == kRn &&
             e.operands(2)) {
    e.op.run = from == "e5m2x2" ? (relu ? &unary<HalvesFromFp8<true, true>, uint32_t, uint16_t>
                                        : &unary<HalvesFromFp8<true, false>, uint32_t, uint16_t>)
                                : (relu ? &unary<HalvesFromFp8<false, true>, uint32_t, uint16_t>
                                        : &unary<HalvesFromFp8<false, false>, uint32_t, uint16_t>);
    e.dst(0, size_t{0}, 32);
    e.src(1, 1, 16);
  } else if (d == "tf32" && from == "f32" && !satfinite && (round == kRna || round == kRn) &&
             e.operands(2)) {
    e.op.run = round == kRna ? (relu ? &unary<Tf32<true, true>, uint32_t, float>
                                     : &unary<Tf32<true, false>, uint32_t, float>)
                             : (relu ? &unary<Tf32<false, true>, uint32_t, float>
                                     : &unary<Tf32<false, false>, uint32_t, float>);
    e.dst(0, size_t{0}, 32);
    e.src(1, 1, 32, true);
  } else {
    e.unsupported();
  }
}

// cvt.pack.sat.{u8,s8,u16,s16}.s32{.b32}: two saturated integers, optionally above what c holds.
template <class T>
struct PackSat {
  static uint32_t one(int32_t v) {
    const int32_t lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
    return static_cast<std::make_unsigned_t<T>>(v < lo ? lo : v > hi ? hi : v);
  }
  static uint32_t f(int32_t a, int32_t b) { return one(a) << (8 * sizeof(T)) | one(b); }
  static uint32_t f(int32_t a, int32_t b, uint32_t c) {
    return c << (16 * sizeof(T) % 32) | f(a, b);
  }
};
void decode_pack(Emit& e) {
  if (!e.take("sat")) return e.unsupported();
  const auto d = e.type(), s = e.type();
  const bool three = e.take("b32");
  if (!d || !s || s->name != "s32" || d->bits > 16 || (three && d->bits != 8))
    return e.unsupported();
  const bool sg = d->letter == 's';
  if (three)
    e.op.run = sg ? &ternary<PackSat<int8_t>, uint32_t, int32_t, int32_t, uint32_t>
                  : &ternary<PackSat<uint8_t>, uint32_t, int32_t, int32_t, uint32_t>;
  else if (d->bits == 16)
    e.op.run = sg ? &binary<PackSat<int16_t>, uint32_t, int32_t>
                  : &binary<PackSat<uint16_t>, uint32_t, int32_t>;
  else
    e.op.run = sg ? &binary<PackSat<int8_t>, uint32_t, int32_t>
                  : &binary<PackSat<uint8_t>, uint32_t, int32_t>;
  same_operands(e, three ? 4 : 3, 32);
}

void decode_cvt(Emit& e) {
  if (e.take("pack")) return decode_pack(e);
  const auto round = static_cast<Rounding>(e.choice(kRoundings) + 1);
  bool relu = false, satfinite = false, ftz = false, sat = false;
  for (bool more = true; more;) {
    more = false;
    if (!relu && e.take("relu")) relu = more = true;
    if (!satfinite && e.take("satfinite")) satfinite = more = true;
    if (!ftz && e.take("ftz")) ftz = more = true;
    if (!sat && e.take("sat")) sat = more = true;
  }
  const std::string_view to = e.peek();
  const auto d = e.type();
  if (!d) return e.unsupported();
  if (d->letter == 'x') {
    if (ftz || sat) return e.unsupported();
    return decode_packed(e, round, relu, satfinite, to);
  }
  const auto s = e.type();
  if (!s || relu || satfinite || round == kRna || !e.operands(2)) return e.unsupported();
  const bool df = is_float(*d), sf = is_float(*s);
  const bool integer_rounding = round >= kRni && round <= kRpi;
  if (integer_rounding && !sf) return e.unsupported("integer rounding of an integer");
  if (!df && sf && !integer_rounding) return e.unsupported("rounding is missing");
  if (df && !sf && (round < kRn || round > kRp)) return e.unsupported("rounding is missing");
  const Flags flags{round, ftz, sat};
  const auto pick = by_types(*d, *s, flags);
  if (!pick) return e.unsupported();
  const unsigned db = e.dst_any(0, e.operand(0), d->bits),
                 sb = e.src_any(1, e.operand(1), s->bits, sf);
  if (e.failed()) return;
  const bool exact_d = db == d->bits, exact_s = (sb > 32) == (s->bits > 32);
  if (pick->fast != nullptr && exact_d && exact_s) {
    e.op.run = pick->fast;
    return;
  }
  e.op.imm = reinterpret_cast<int64_t>(pick->general);
  e.op.a = round;
  e.op.b = static_cast<uint8_t>((ftz ? 1 : 0) | (sat ? 2 : 0));
  // Signed results are extended to the register's width, floats and unsigned ones are zero above.
  e.op.c = static_cast<uint8_t>(d->letter == 's' ? db : d->bits);
  const bool wd = db > 32, ws = sb > 32;
  e.op.run = wd ? (ws ? &cvt_general<uint64_t, uint64_t> : &cvt_general<uint64_t, uint32_t>)
                : (ws ? &cvt_general<uint32_t, uint64_t> : &cvt_general<uint32_t, uint32_t>);
}

}  // namespace

void register_convert(DecodeTable& t) { t["cvt"] = &decode_cvt; }

}  // namespace sculler::emu::vm
