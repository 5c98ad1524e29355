// f16, bf16 and the eight-bit floats on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sculler::emu::vm {

[[nodiscard]] inline float bf16_to_float(uint16_t v) {
  return std::bit_cast<float>(uint32_t{v} << 16);
}
[[nodiscard]] inline uint16_t float_to_bf16(float f) {  // to nearest, ties to even
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

// Any small binary format: exponent bits E, mantissa bits M. `kRound`: 0 nearest even, 1 towards
// zero, 2 up, 3 down.
template <int E, int M>
[[nodiscard]] inline float small_to_float(uint32_t v) {
  const uint32_t mantissa = v & ((1u << M) - 1), exponent = v >> M & ((1u << E) - 1);
  const float sign = (v >> (E + M) & 1u) != 0 ? -1.0f : 1.0f;
  constexpr int kBias = (1 << (E - 1)) - 1;
  if (exponent == (1u << E) - 1)
    return mantissa != 0 ? std::bit_cast<float>(0x7fffffffu) : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - M);
  return sign *
         std::ldexp(static_cast<float>(mantissa | 1u << M), static_cast<int>(exponent) - kBias - M);
}
template <int E, int M>
[[nodiscard]] inline uint32_t double_to_small(double d, int round = 0) {
  constexpr int kBias = (1 << (E - 1)) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(d);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << (E + M);
  if (std::isnan(d)) return (1u << (E + M)) - 1;
  constexpr uint32_t kInf = ((1u << E) - 1) << M;
  if (std::isinf(d)) return sign | kInf;
  const double magnitude = std::fabs(d);
  if (magnitude == 0) return sign;
  int e = 0;
  (void)std::frexp(magnitude, &e);
  --e;
  if (e < 1 - kBias) e = 1 - kBias;
  const double scaled = std::ldexp(magnitude, M - e);  // the mantissa as an integer and a fraction
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  const bool odd = std::fmod(whole, 2.0) != 0;
  bool up = false;
  switch (round) {
    case 0: up = rest > 0.5 || (rest == 0.5 && odd); break;
    case 2: up = rest > 0 && sign == 0; break;
    case 3: up = rest > 0 && sign != 0; break;
    default: break;
  }
  if (up) whole += 1;
  if (whole >= std::ldexp(1.0, M + 1)) {
    whole /= 2;
    ++e;
  }
  if (e > kBias) {
    const bool to_max = round == 1 || (round == 2 && sign != 0) || (round == 3 && sign == 0);
    return sign | (to_max ? kInf - 1 : kInf);
  }
  const auto m = static_cast<uint32_t>(whole);
  if (m < 1u << M) return sign | m;  // subnormal
  return sign | static_cast<uint32_t>(e + kBias) << M | (m & ((1u << M) - 1));
}

[[nodiscard]] inline float f16_to_float(uint16_t v) {
  const uint32_t sign = uint32_t{v & 0x8000u} << 16, rest = v & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Subnormals too: scale by a power of two.
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}
[[nodiscard]] inline uint16_t float_to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7fff;
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (a < 0x38800000u) {  // subnormal: let the adder round
    const float r = std::bit_cast<float>(a) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(r) - 0x3f000000u));
  }
  const uint32_t r = a + 0xfffu + (a >> 13 & 1u) - 0x38000000u;
  return static_cast<uint16_t>(sign | r >> 13);
}

struct F16 {
  static float get(uint32_t v) { return f16_to_float(static_cast<uint16_t>(v)); }
  static uint32_t put(float v) { return float_to_f16(v); }
  static uint32_t put_exact(double v, int round = 0) { return double_to_small<5, 10>(v, round); }
};
struct Bf16 {
  static float get(uint32_t v) { return bf16_to_float(static_cast<uint16_t>(v)); }
  static uint32_t put(float v) { return float_to_bf16(v); }
  static uint32_t put_exact(double v, int round = 0) { return double_to_small<8, 7>(v, round); }
};

}  // namespace sculler::emu::vm
