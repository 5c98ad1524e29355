// f16, bf16 and their pairs: add sub mul fma neg abs min max ex2 tanh.
#include "emu/vm/half.h"

#include "emu/vm/arith.h"

namespace sculler::emu::vm {
namespace {

struct HAdd {
  static double f(double a, double b) { return a + b; }
};
struct HSub {
  static double f(double a, double b) { return a - b; }
};
struct HMul {
  static double f(double a, double b) { return a * b; }
};
struct HFma {
  static double f(double a, double b, double c) { return std::fma(a, b, c); }
};
struct HMin {
  static double f(double a, double b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
  }
};
struct HMax {
  static double f(double a, double b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
  }
};
template <class F>
struct HNan {
  static double f(double a, double b) {
    return a != a || b != b ? std::numeric_limits<double>::quiet_NaN() : F::f(a, b);
  }
};
struct HEx2 {
  static double f(double a) { return std::exp2(a); }
};
struct HTanh {
  static double f(double a) { return std::tanh(a); }
};

enum Clamp : uint8_t { kNoClamp = 0, kSat = 1, kRelu = 2 };

// One half of H. Flushing of subnormals (.ftz) applies to f16 only.
template <class H, class F, class... A>
uint32_t one(uint8_t clamp, bool ftz, A... bits) {
  const auto in = [&](uint32_t v) { return ftz && (v & 0x7fffu) < 0x400u ? (v & 0x8000u) : v; };
  double r = F::f(static_cast<double>(H::get(in(bits & 0xffffu)))...);
  if (clamp == kSat) r = r > 0 ? (r < 1 ? r : 1) : 0;
  if (clamp == kRelu && r < 0) r = 0;
  const uint32_t out = H::put_exact(r);
  return ftz ? in(out) : out;
}
template <class H, class F, int kArgs, bool kPair>
Act half_op(Warp& w, const Op& op) {
  auto* d = lanes<uint32_t>(w, op.o[0]);
  const uint32_t *a = lanes<uint32_t>(w, op.o[1]), *b = kArgs > 1 ? lanes<uint32_t>(w, op.o[2]) : a,
                 *c = kArgs > 2 ? lanes<uint32_t>(w, op.o[3]) : a;
  const uint8_t clamp = op.a;
  const bool ftz = op.b != 0;
  for_mask(w.exec, [&](int i) {
    const auto half = [&](int shift) {
      if constexpr (kArgs == 1) return one<H, F>(clamp, ftz, a[i] >> shift);
      else if constexpr (kArgs == 2) return one<H, F>(clamp, ftz, a[i] >> shift, b[i] >> shift);
      else return one<H, F>(clamp, ftz, a[i] >> shift, b[i] >> shift, c[i] >> shift);
    };
    d[i] = kPair ? half(0) | half(16) << 16 : half(0);
  });
  return Act::kNext;
}
template <class F, int kArgs>
Handler half_handler(bool bf, bool pair) {
  if (bf) return pair ? &half_op<Bf16, F, kArgs, true> : &half_op<Bf16, F, kArgs, false>;
  return pair ? &half_op<F16, F, kArgs, true> : &half_op<F16, F, kArgs, false>;
}

struct SignFlip {
  static uint32_t f(uint32_t a) { return a ^ 0x8000u; }
};
struct SignFlip2 {
  static uint32_t f(uint32_t a) { return a ^ 0x80008000u; }
};
struct SignClear {
  static uint32_t f(uint32_t a) { return a & 0x7fffu; }
};
struct SignClear2 {
  static uint32_t f(uint32_t a) { return a & 0x7fff7fffu; }
};

struct Format {
  bool bf, pair;
};
std::optional<Format> half_format(std::string_view name) {
  if (name == "f16") return Format{false, false};
  if (name == "f16x2") return Format{false, true};
  if (name == "bf16") return Format{true, false};
  if (name == "bf16x2") return Format{true, true};
  return std::nullopt;
}

}  // namespace

bool half_arith(Emit& e) {
  if (e.in.modifiers.empty()) return false;
  const auto format = half_format(e.in.modifiers.back());
  if (!format) return false;
  const std::string_view op = e.in.opcode;
  const bool approx = e.take("approx");
  const bool rn = e.take("rn");
  const bool ftz = e.take("ftz");
  const bool nan = e.take("NaN");
  const bool sat = e.take("sat"), relu = e.take("relu");
  e.take(e.peek());  // the format
  if (ftz && format->bf && op != "ex2") return e.unsupported(), true;
  e.op.a = sat ? kSat : relu ? kRelu : kNoClamp;
  e.op.b = ftz && !format->bf ? 1 : 0;
  const auto [bf, pair] = *format;
  size_t n = 3;
  const bool needs_approx = op == "ex2" || op == "tanh";
  const bool arithmetic = op == "add" || op == "sub" || op == "mul" || op == "fma";
  if (approx != needs_approx || (rn && !arithmetic) || (nan && op != "min" && op != "max") ||
      (sat && !arithmetic) || (relu && op != "fma"))
    return e.unsupported(), true;
  if (op == "add") e.op.run = half_handler<HAdd, 2>(bf, pair);
  else if (op == "sub") e.op.run = half_handler<HSub, 2>(bf, pair);
  else if (op == "mul") e.op.run = half_handler<HMul, 2>(bf, pair);
  else if (op == "min")
    e.op.run = nan ? half_handler<HNan<HMin>, 2>(bf, pair) : half_handler<HMin, 2>(bf, pair);
  else if (op == "max")
    e.op.run = nan ? half_handler<HNan<HMax>, 2>(bf, pair) : half_handler<HMax, 2>(bf, pair);
  else if (op == "fma") e.op.run = half_handler<HFma, 3>(bf, pair), n = 4;
  else if (op == "ex2") e.op.run = half_handler<HEx2, 1>(bf, pair), n = 2;
  else if (op == "tanh") e.op.run = half_handler<HTanh, 1>(bf, pair), n = 2;
  else if (op == "neg")
    e.op.run = pair ? &unary<SignFlip2, uint32_t, uint32_t> : &unary<SignFlip, uint32_t, uint32_t>,
    n = 2;
  else if (op == "abs")
    e.op.run =
        pair ? &unary<SignClear2, uint32_t, uint32_t> : &unary<SignClear, uint32_t, uint32_t>,
    n = 2;
  else return e.unsupported(), true;
  if (arithmetic) e.op.flops = static_cast<uint16_t>((op == "fma" ? 2 : 1) * (pair ? 2 : 1));
  same_operands(e, n, pair ? 32 : 16);
  return true;
}

}  // namespace sculler::emu::vm
