// Inputs as a function of (seed, content, rank, buffer, index, family): the same bits on host and
// device, so that the checker can fill, refill and verify inputs without keeping a copy. Integer
// arithmetic and float products only: nothing that a compiler may contract or a math library may
// round otherwise. For C++ and CUDA.
#ifndef SCULLER_FILL_H
#define SCULLER_FILL_H

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define SCULLER_HD __host__ __device__ inline
#else
#define SCULLER_HD inline
#endif

enum sculler_dtype {
  SCULLER_BF16 = 1,
  SCULLER_F16 = 2,
  SCULLER_F32 = 3,
  SCULLER_I32 = 4,
};

enum sculler_family {
  SCULLER_NORMAL = 0,         // mean 0, variance 1, |x| < 4.9 (sum of eight uniforms)
  SCULLER_UNIFORM = 1,        // [-1, 1)
  SCULLER_LARGE_LATE = 2,     // normal, the last eighth of each row eight times as large
  SCULLER_CONSTANT_ROWS = 3,  // one normal value a row
  SCULLER_NEGATIVE = 4,       // -|normal|
  SCULLER_DENORMAL =
      5,  // half of the elements below the smallest normal number of the dtype, the rest normal
  SCULLER_INTEGERS = 6,  // -4 ... 4, exact in every dtype
};

// What a task asks of a buffer beside the run's family, in the same word: the sign bit cleared, and
// a factor in thousandths (0: none).
enum sculler_family_bits {
  SCULLER_FAMILY_MASK = 0xff,
  SCULLER_POSITIVE = 0x100,
  SCULLER_SCALE_SHIFT = 16,
};

SCULLER_HD uint32_t sculler_dtype_bytes(uint32_t dtype) {
  return dtype == SCULLER_BF16 || dtype == SCULLER_F16 ? 2u : 4u;
}

// splitmix64's finalizer.
SCULLER_HD uint64_t sculler_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
  return x;
}

// The key of one buffer's stream. Rank 0 where the content is replicated.
SCULLER_HD uint64_t sculler_fill_key(uint64_t seed, uint32_t content, uint32_t rank,
                                     uint32_t buffer) {
  uint64_t key = sculler_mix(seed + 0x9e3779b97f4a7c15ull);
  key = sculler_mix(key ^ ((uint64_t(content) << 32) + 0x632be59bd9b4e019ull));
  key = sculler_mix(key ^ ((uint64_t(rank) << 16) + buffer + 0xd1342543de82ef95ull));
  return key;
}

// Counter-based: draw `lane` (0 or 1) of element `index`.
SCULLER_HD uint64_t sculler_draw(uint64_t key, uint64_t index, uint32_t lane) {
  return sculler_mix(sculler_mix(key + (2 * index + lane) * 0x9e3779b97f4a7c15ull) ^ key);
}

SCULLER_HD float sculler_bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
SCULLER_HD uint32_t sculler_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

SCULLER_HD float sculler_normal(uint64_t key, uint64_t index) {
  const uint64_t a = sculler_draw(key, index, 0), b = sculler_draw(key, index, 1);
  int32_t sum = 0;
  for (int i = 0; i < 64; i += 16) sum += int32_t((a >> i) & 0xffff) + int32_t((b >> i) & 0xffff);
  // 2 sum - 8 * 65535 has variance 8 (2^32 - 1) / 3: the factor is sqrt(3 / 8) * 2^-16, an exact
  // product but for one rounding.
  return float(2 * sum - 8 * 65535) * 9.344062e-06f;
}

// The family's value. row_elements > 0.
SCULLER_HD float sculler_family_value(uint64_t key, uint64_t index, uint64_t row_elements,
                                      uint32_t family, uint32_t dtype) {
  switch (family) {
    case SCULLER_UNIFORM:
      return float(int32_t(sculler_draw(key, index, 0) >> 40) - (1 << 23)) *
             1.1920928955078125e-07f;
    case SCULLER_LARGE_LATE: {
      const float x = sculler_normal(key, index);
      return index % row_elements >= row_elements - row_elements / 8 ? x * 8.0f : x;
    }
    case SCULLER_CONSTANT_ROWS: return sculler_normal(key, index / row_elements);
    case SCULLER_NEGATIVE: {
      const float x = sculler_normal(key, index);
      return x < 0 ? x : -x;
    }
    case SCULLER_DENORMAL: {
      const uint64_t r = sculler_draw(key, index, 0);
      if (r & 1) return sculler_normal(key, index);
      const uint32_t sign = uint32_t(r >> 1 & 1) << 31;
      // bf16 keeps the upper half of the bits; an f16 denormal is k * 2^-24 with k < 1024.
      if (dtype == SCULLER_F16) {
        const float x = float(int32_t(r >> 32 & 1023)) * 5.9604644775390625e-08f;
        return sign ? -x : x;
      }
      if (dtype == SCULLER_BF16) return sculler_bits_float(sign | uint32_t(r >> 32 & 0x7f) << 16);
      return sculler_bits_float(sign | uint32_t(r >> 32 & 0x7fffff));
    }
    case SCULLER_INTEGERS: return float(int32_t((sculler_draw(key, index, 0) >> 32) % 9) - 4);
    default: return sculler_normal(key, index);
  }
}

// The value before it is rounded to the buffer's dtype. row_elements > 0; `family` may hold
// sculler_family_bits.
SCULLER_HD float sculler_value(uint64_t key, uint64_t index, uint64_t row_elements, uint32_t family,
                               uint32_t dtype) {
  float x = sculler_family_value(key, index, row_elements, family & SCULLER_FAMILY_MASK, dtype);
  const uint32_t scale = family >> SCULLER_SCALE_SHIFT;
  if (scale != 0) x *= float(scale) * 0.001f;
  if (family & SCULLER_POSITIVE) x = sculler_bits_float(sculler_float_bits(x) & 0x7fffffffu);
  return x;
}

// Round to nearest, ties to even.
SCULLER_HD uint16_t sculler_to_bf16(float value) {
  const uint32_t bits = sculler_float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
SCULLER_HD float sculler_from_bf16(uint16_t bits) {
  return sculler_bits_float(uint32_t(bits) << 16);
}

SCULLER_HD uint16_t sculler_to_f16(float value) {
  const uint32_t bits = sculler_float_bits(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00u);  // 65536 and above
  uint32_t mantissa, shift, base;
  if (magnitude < 0x38800000u) {                         // below 2^-14: subnormal
    if (magnitude < 0x33000000u) return uint16_t(sign);  // below 2^-25
    shift = 126u - (magnitude >> 23);
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    base = 0;
  } else {
    shift = 13;
    mantissa = magnitude & 0x7fffffu;
    base = ((magnitude >> 23) - 112u) << 10;
  }
  const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1),
                 half = 1u << (shift - 1);
  const uint32_t up = rest > half || (rest == half && (kept & 1)) ? 1u : 0u;
  return uint16_t(sign | (base + kept + up));  // a carry runs into the exponent, up to infinity
}
SCULLER_HD float sculler_from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = bits >> 10 & 31,
                 mantissa = bits & 1023;
  if (exponent == 31) return sculler_bits_float(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float x = float(int32_t(mantissa)) * 5.9604644775390625e-08f;
    return sign ? -x : x;
  }
  return sculler_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

// The bits of element `index`, in the low bytes.
SCULLER_HD uint32_t sculler_element(uint64_t key, uint64_t index, uint64_t row_elements,
                                    uint32_t family, uint32_t dtype) {
  if (dtype == SCULLER_I32)
    return uint32_t(int32_t((sculler_draw(key, index, 0) >> 32) % 2001) - 1000);
  const float value = sculler_value(key, index, row_elements, family, dtype);
  if (dtype == SCULLER_BF16) return sculler_to_bf16(value);
  if (dtype == SCULLER_F16) return sculler_to_f16(value);
  return sculler_float_bits(value);
}

// What outputs hold before a run: a quiet NaN that arithmetic does not make.
SCULLER_HD uint32_t sculler_poison(uint32_t dtype) {
  return dtype == SCULLER_BF16  ? 0x7fcau
         : dtype == SCULLER_F16 ? 0x7ecau
         : dtype == SCULLER_I32 ? 0x8badf00du
                                : 0x7fca5ca1u;
}

SCULLER_HD uint32_t sculler_load_bits(const void* data, uint64_t index, uint32_t dtype) {
  return sculler_dtype_bytes(dtype) == 2 ? (static_cast<const uint16_t*>(data))[index]
                                         : (static_cast<const uint32_t*>(data))[index];
}
SCULLER_HD void sculler_store_bits(void* data, uint64_t index, uint32_t dtype, uint32_t bits) {
  if (sculler_dtype_bytes(dtype) == 2) {
    static_cast<uint16_t*>(data)[index] = uint16_t(bits);
  } else {
    static_cast<uint32_t*>(data)[index] = bits;
  }
}
SCULLER_HD double sculler_bits_value(uint32_t bits, uint32_t dtype) {
  return dtype == SCULLER_BF16  ? double(sculler_from_bf16(uint16_t(bits)))
         : dtype == SCULLER_F16 ? double(sculler_from_f16(uint16_t(bits)))
         : dtype == SCULLER_I32 ? double(int32_t(bits))
                                : double(sculler_bits_float(bits));
}

// What an error may be beside the job's cap, as a fraction of the largest expected magnitude: twice
// the rounding of the output's dtype. Keeps the cap meaningful for families of other magnitudes.
SCULLER_HD double sculler_peak_fraction(uint32_t dtype) {
  return dtype == SCULLER_BF16  ? 1.0 / 128
         : dtype == SCULLER_F16 ? 1.0 / 1024
         : dtype == SCULLER_I32 ? 0.0
                                : 1.0 / (1 << 20);
}

#endif
