#include "eval/statistics.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sculler::eval {
namespace {

std::vector<double> noisy(double center, double width, int n, uint64_t seed) {
  Random random(seed);
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(center + width * (random.unit() - 0.5));
  return values;
}

TEST(Statistics, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(Statistics, IntervalHoldsTheMedianAndIsFixedBySeed) {
  const auto values = noisy(100, 10, 40, 1);
  const auto a = median_interval(values, 5), b = median_interval(values, 5);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_LE(a.low, a.median);
  EXPECT_GE(a.high, a.median);
  EXPECT_GT(a.high - a.low, 0);
  EXPECT_LT(a.high - a.low, 10);
}

TEST(Statistics, RatioIntervalCoversTheTruthAsOftenAsItSays) {
  int covered = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const auto a = noisy(120, 30, 40, 1000 + trial), b = noisy(100, 25, 40, 5000 + trial);
    const auto r = ratio_interval(a, b, trial, 0.95, 400);
    if (r.low <= 1.2 && 1.2 <= r.high) ++covered;
  }
  EXPECT_GE(covered, 176);  // 95 % of 200 minus four standard deviations
}

TEST(Statistics, DriftThatHitsBothCancels) {
  std::vector<double> a, b;
  for (int i = 0; i < 40; ++i) {
    const double drift = 1 + 0.01 * i;
    a.push_back(110 * drift);
    b.push_back(100 * drift);
  }
  const auto r = ratio_interval(a, b, 3);
  EXPECT_NEAR(r.low, 1.1, 1e-9);
  EXPECT_NEAR(r.high, 1.1, 1e-9);
}

TEST(Statistics, JudgesOnlyBeyondTheSpread) {
  EXPECT_EQ(judge_ratio({1.1, 1.05, 1.15}, 0.01), "FASTER");
  EXPECT_EQ(judge_ratio({1.1, 1.05, 1.15}, 0.06), "AMBIGUOUS");
  EXPECT_EQ(judge_ratio({0.9, 0.85, 0.95}, 0.01), "SLOWER");
  EXPECT_EQ(judge_ratio({1.0, 0.99, 1.01}, 0.0), "AMBIGUOUS");
  EXPECT_GT(self_spread(noisy(100, 20, 40, 9), 1), 0);
}

}  // namespace
}  // namespace sculler::eval
