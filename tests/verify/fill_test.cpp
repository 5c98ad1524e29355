#include "sculler/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace {

TEST(Fill, KnownValues) {
  // Fixed for ever: expected outputs are cached by seed.
  const uint64_t key = sculler_fill_key(1, 2, 3, 4);
  EXPECT_EQ(key, 0xe660be3bd5dd6cccull);
  EXPECT_EQ(sculler_element(key, 0, 16, SCULLER_NORMAL, SCULLER_F32), 0x3f7b3621u);
  EXPECT_EQ(sculler_element(key, 1'000'000'007, 16, SCULLER_NORMAL, SCULLER_BF16), 0x3f3bu);
  EXPECT_EQ(sculler_element(key, 5, 16, SCULLER_UNIFORM, SCULLER_F16), 0xb789u);
}

TEST(Fill, KeysDiffer) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (uint32_t content = 0; content < 8; ++content)
      for (uint32_t rank = 0; rank < 8; ++rank)
        for (uint32_t buffer = 0; buffer < 4; ++buffer)
          keys.insert(sculler_fill_key(seed, content, rank, buffer));
  EXPECT_EQ(keys.size(), 4u * 8 * 8 * 4);
}

TEST(Fill, NormalHasMomentsOfANormal) {
  const uint64_t key = sculler_fill_key(9, 0, 0, 0);
  double sum = 0, squares = 0, fourth = 0;
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    const double x = static_cast<double>(sculler_normal(key, static_cast<uint64_t>(i)));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
  EXPECT_NEAR(fourth / n, 2.85, 0.06);  // a sum of eight uniforms: 3 - 1.2 / 8
}

TEST(Fill, Families) {
  const uint64_t key = sculler_fill_key(3, 1, 0, 0);
  const uint64_t row = 64;
  double early = 0, late = 0;
  int denormal = 0;
  std::set<float> integers;
  for (uint64_t i = 0; i < 64 * row; ++i) {
    const auto value = [&](uint32_t family) {
      return sculler_value(key, i, row, family, SCULLER_F32);
    };
    EXPECT_LE(value(SCULLER_NEGATIVE), 0.0f);
    EXPECT_LT(std::abs(value(SCULLER_UNIFORM)), 1.0000001f);
    EXPECT_EQ(value(SCULLER_CONSTANT_ROWS),
              sculler_value(key, i - i % row, row, SCULLER_CONSTANT_ROWS, SCULLER_F32));
    const double x = static_cast<double>(value(SCULLER_LARGE_LATE));
    (i % row >= row - row / 8 ? late : early) += x * x;
    const uint32_t bits = sculler_element(key, i, row, SCULLER_DENORMAL, SCULLER_BF16);
    denormal += (bits >> 7 & 0xff) == 0 ? 1 : 0;
    const float k = value(SCULLER_INTEGERS);
    integers.insert(k);
    EXPECT_EQ(sculler_from_bf16(sculler_to_bf16(k)), k);
  }
  EXPECT_GT(late / 8, 30 * early / 56);
  EXPECT_NEAR(denormal, 32 * 64, 200);
  EXPECT_EQ(integers.size(), 9u);
}

TEST(Fill, ScaleAndSignAreThoseOfTheBuffer) {
  const uint64_t key = sculler_fill_key(3, 1, 0, 0);
  const uint32_t scaled = 50u << SCULLER_SCALE_SHIFT;
  for (uint64_t i = 0; i < 1000; ++i) {
    for (const uint32_t family : {SCULLER_NORMAL, SCULLER_NEGATIVE, SCULLER_LARGE_LATE}) {
      const float x = sculler_value(key, i, 64, family, SCULLER_F32);
      EXPECT_EQ(sculler_value(key, i, 64, family | SCULLER_POSITIVE, SCULLER_F32), std::abs(x));
      EXPECT_EQ(sculler_value(key, i, 64, family | scaled, SCULLER_F32), x * (50.0f * 0.001f));
      EXPECT_EQ(sculler_value(key, i, 64, family | scaled | SCULLER_POSITIVE, SCULLER_F32),
                std::abs(x * (50.0f * 0.001f)));
    }
  }
}

TEST(Fill, Bf16RoundsToNearestEven) {
  EXPECT_EQ(sculler_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(sculler_to_bf16(1.00390625f), 0x3f80);    // halfway, even below
  EXPECT_EQ(sculler_to_bf16(1.01171875f), 0x3f82);    // halfway, even above
  EXPECT_EQ(sculler_to_bf16(3.4028235e38f), 0x7f80);  // rounds up to infinity
  EXPECT_TRUE(std::isnan(sculler_from_bf16(sculler_to_bf16(std::nanf("")))));
}

TEST(Fill, F16RoundsAsTheHardwareDoes) {
  // _Float16 of the compiler is IEEE binary16 with round to nearest even.
  const uint64_t key = sculler_fill_key(5, 0, 0, 0);
  for (uint64_t i = 0; i < 200'000; ++i) {
    const float value = sculler_bits_float(static_cast<uint32_t>(sculler_draw(key, i, 0)));
    if (std::isnan(value)) continue;
    const _Float16 half = static_cast<_Float16>(value);
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    ASSERT_EQ(sculler_to_f16(value), bits) << value;
  }
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float value = sculler_from_f16(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(sculler_to_f16(value), bits);
  }
}

TEST(Fill, PoisonIsNotANumberAndNoInput) {
  for (const uint32_t dtype : {SCULLER_BF16, SCULLER_F16, SCULLER_F32})
    EXPECT_TRUE(std::isnan(sculler_bits_value(sculler_poison(dtype), dtype)));
}

}  // namespace
