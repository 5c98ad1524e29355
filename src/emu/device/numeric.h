// 16- and 8-bit floating point on the host, rounding to nearest even as the hardware's cvt.rn does.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sculler::emu::numeric {

[[nodiscard]] inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

[[nodiscard]] inline uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A binary float of `exponent_bits` and `mantissa_bits`. `finite_only`: e4m3's "fn" form, where the
// largest exponent holds numbers and only all-ones is NaN; overflow saturates there, as
// cvt.rn.satfinite does.
template <int exponent_bits, int mantissa_bits, bool finite_only>
[[nodiscard]] inline float small_to_float(uint32_t bits) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  constexpr uint32_t kMaxExponent = (1u << exponent_bits) - 1;
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = (bits >> mantissa_bits) & kMaxExponent;
  const float sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0f : 1.0f;
  if constexpr (finite_only) {
    if (exponent == kMaxExponent && mantissa == (1u << mantissa_bits) - 1) return std::nanf("");
  } else if (exponent == kMaxExponent) {
    return mantissa != 0 ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa | (1u << mantissa_bits)),
                           static_cast<int>(exponent) - kBias - mantissa_bits);
}

template <int exponent_bits, int mantissa_bits, bool finite_only>
[[nodiscard]] inline uint32_t float_to_small(float value) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  constexpr uint32_t kMaxExponent = (1u << exponent_bits) - 1;
  constexpr uint32_t kMantissa = (1u << mantissa_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  constexpr uint32_t kNan = (kMaxExponent << mantissa_bits) | kMantissa;
  if (std::isnan(value)) return kNan;
  constexpr uint32_t kLargest = finite_only ? (kMaxExponent << mantissa_bits) | (kMantissa - 1)
                                            : ((kMaxExponent - 1) << mantissa_bits) | kMantissa;
  constexpr uint32_t kOverflow = finite_only ? kLargest : kMaxExponent << mantissa_bits;
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | kOverflow;
  if (magnitude == 0.0f) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  --exponent;  // magnitude = 1.x * 2^exponent
  const int scale = exponent < 1 - kBias ? 1 - kBias : exponent;
  // The unit in the last place is 2^(scale - mantissa_bits); nearbyint rounds to nearest even.
  const float units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - scale));
  auto encoded = static_cast<uint32_t>(units);
  if (exponent >= 1 - kBias) {
    encoded += static_cast<uint32_t>(exponent + kBias - 1) << mantissa_bits;
  }
  return sign | (encoded > kLargest ? kOverflow : encoded);
}

[[nodiscard]] inline float f16_to_float(uint16_t bits) {
  return small_to_float<5, 10, false>(bits);
}
[[nodiscard]] inline uint16_t float_to_f16(float value) {
  return static_cast<uint16_t>(float_to_small<5, 10, false>(value));
}
[[nodiscard]] inline float e4m3_to_float(uint8_t bits) { return small_to_float<4, 3, true>(bits); }
[[nodiscard]] inline uint8_t float_to_e4m3(float value) {
  return static_cast<uint8_t>(float_to_small<4, 3, true>(value));
}
[[nodiscard]] inline float e5m2_to_float(uint8_t bits) { return small_to_float<5, 2, false>(bits); }
[[nodiscard]] inline uint8_t float_to_e5m2(float value) {
  return static_cast<uint8_t>(float_to_small<5, 2, false>(value));
}

}  // namespace sculler::emu::numeric
