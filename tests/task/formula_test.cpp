#include "task/formula.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sculler::task {
namespace {

const Variables kVariables{{"S", 512}, {"K", 256}, {"R", 2}};

std::string integer_of(std::string_view text) {
  auto formula = Formula::parse(text);
  if (!formula) return formula.error().message;
  auto value = formula->integer(kVariables);
  return value ? std::to_string(*value) : value.error().message;
}

TEST(Formula, Arithmetic) {
  EXPECT_EQ(integer_of("S / R * K"), "65536");
  EXPECT_EQ(integer_of("2 * (S + K) - -3"), "1539");
  EXPECT_EQ(integer_of("7 / 2 * 2"), "6");
  EXPECT_EQ(integer_of("8 - 3 - 2"), "3");
  EXPECT_EQ(integer_of("S % 100 == 12"), "1");
  EXPECT_EQ(integer_of("S <= K"), "0");
  EXPECT_EQ(integer_of("max(min(S, K), 300)"), "300");
  EXPECT_EQ(integer_of("ceil_div(S + 1, K)"), "3");
  EXPECT_EQ(integer_of("sqrt(K) * 2"), "32");
  EXPECT_EQ(integer_of("1.5 * 2"), "3");
  EXPECT_DOUBLE_EQ(*Formula::parse("0.03 * sqrt(K)")->real(kVariables), 0.48);
  EXPECT_DOUBLE_EQ(*Formula::parse("4.1e-3")->real({}), 0.0041);
}

TEST(Formula, ErrorsSayWhatAndWhere) {
  EXPECT_EQ(integer_of("2 * (S"), "\"2 * (S\" ends too early");
  EXPECT_EQ(integer_of("2 ** S"), "\"2 ** S\": unexpected '*' at character 4");
  EXPECT_EQ(integer_of("2 * Q"), "\"2 * Q\" uses Q, which is not defined here; known: K, R, S");
  EXPECT_EQ(integer_of("sqr(2)"),
            "\"sqr(2)\": unknown function sqr at character 1, did you mean sqrt?");
  EXPECT_EQ(integer_of("S / (R - 2)"), "\"S / (R - 2)\" divides by zero");
  EXPECT_EQ(integer_of("9223372036854775807 + 1"), "\"9223372036854775807 + 1\" exceeds 64 bits");
  EXPECT_EQ(integer_of("S / 3.0"), "\"S / 3.0\" is 170.66666666666666, a whole number is needed");
  EXPECT_EQ(integer_of(std::string(100'000, '(')), "the formula is longer than 4096 characters");
  EXPECT_EQ(integer_of(std::string(4000, '(')), "the formula is nested deeper than 64 levels");
  EXPECT_EQ(integer_of(std::string(4000, '-') + "1"),
            "the formula is nested deeper than 64 levels");
}

RC_GTEST_PROP(Formula, AnyTextParsesOrFailsAndNeverCrashes, (const std::string& text)) {
  auto formula = Formula::parse(text);
  if (formula) (void)formula->integer(kVariables);
  RC_ASSERT(formula || !formula.error().message.empty());
}

RC_GTEST_PROP(Formula, LinearExpressionsAreExact, (int32_t a, int32_t b, int32_t c)) {
  const Variables variables{{"a", a}, {"b", b}, {"c", c}};
  RC_ASSERT(*Formula::parse("a * b + c - (a - b)")->integer(variables) ==
            int64_t{a} * b + c - (int64_t{a} - b));
}

}  // namespace
}  // namespace sculler::task
