#include "eval/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

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

// Log ratios of rounds: AR(1) noise, a share of disturbed rounds, a drift that hits both sides.
std::vector<double> log_ratios(Random& random, int n, double effect, double sd, double rho,
                               double disturbed = 0, double drift = 0) {
  const auto normal = [&] { return normal_quantile(std::clamp(random.unit(), 1e-9, 1 - 1e-9)); };
  std::vector<double> out;
  double state = normal();
  for (int i = 0; i < n; ++i) {
    state = rho * state + std::sqrt(1 - rho * rho) * normal();
    double value = std::log1p(effect) + sd * state + drift * i;
    if (random.unit() < disturbed) value += (random.unit() - 0.5) * 20 * sd;
    out.push_back(value);
  }
  return out;
}

// Rounds until the rule has decided, as a measurement plays them.
Comparison decide(const std::vector<double>& series, const StopRule& rule, uint64_t seed) {
  Comparison c;
  for (const int look : rule.looks) {
    c = compare_series({series.begin(), series.begin() + look}, rule, seed);
    if (c.decided) break;
  }
  return c;
}

struct Calls {
  int called = 0, slower = 0;
  double rounds = 0;
};
Calls calls(int trials, double effect, double sd, double rho, double disturbed, double drift,
            const StopRule& rule) {
  Random random(99, "calls");
  Calls out;
  for (int t = 0; t < trials; ++t) {
    const auto series = log_ratios(random, rule.looks.back(), effect, sd, rho, disturbed, drift);
    const auto c = decide(series, rule, static_cast<uint64_t>(t));
    out.called += c.call != "AMBIGUOUS" ? 1 : 0;
    out.slower += c.call == "SLOWER" ? 1 : 0;
    out.rounds += static_cast<double>(c.rounds) / trials;
  }
  return out;
}

TEST(Statistics, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 1e-5);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-9);
  EXPECT_NEAR(student_quantile(0.975, 10), 2.2281, 2e-3);
  EXPECT_NEAR(student_quantile(0.995, 8), 3.3554, 2e-2);
  EXPECT_NEAR(student_quantile(0.975, 1e6), 1.96, 1e-3);
}

TEST(Statistics, MidmeanBearsAQuarterOfNonsenseOnEitherSide) {
  EXPECT_EQ(midmean({}), 0);
  EXPECT_DOUBLE_EQ(midmean({1, 2, 3, 1e9}), 2.5);
  EXPECT_DOUBLE_EQ(midmean({-1e9, 10, 10, 10, 10, 10, 10, 1e9}), 10);
}

TEST(Statistics, SeriesIntervalCoversTheTruth) {
  // Nominal 95 %; with correlated neighbours and with disturbed rounds it may lose a little.
  for (const auto& [n, rho, disturbed, least] :
       {std::tuple{8, 0.0, 0.0, 0.93}, std::tuple{16, 0.3, 0.0, 0.90},
        std::tuple{32, 0.3, 0.1, 0.90}, std::tuple{64, 0.5, 0.1, 0.85}}) {
    Random random(7, "coverage");
    int covered = 0;
    constexpr int kTrials = 400;
    for (int t = 0; t < kTrials; ++t) {
      const auto series = log_ratios(random, n, 0.2, 0.02, rho, disturbed);
      const auto i = series_interval(series, static_cast<uint64_t>(t), 0.95, 300);
      if (i.low <= std::log(1.2) && std::log(1.2) <= i.high) ++covered;
    }
    EXPECT_GE(covered, static_cast<int>(least * kTrials)) << n << " rounds, rho " << rho;
    EXPECT_LT(covered, kTrials) << "an interval that always covers says nothing";
  }
}

TEST(Statistics, AProgramAgainstItselfIsHardlyEverCalled) {
  StopRule rule;
  rule.looks = {8, 16, 32, 64};
  rule.margin = 0.01;
  // Noise as on a shared machine, correlated, with disturbed rounds and with a drift of the ratio.
  EXPECT_LE(calls(300, 0, 0.03, 0.4, 0.1, 0, rule).called, 6);
  EXPECT_LE(calls(300, 0, 0.01, 0.6, 0.0, 0, rule).called, 6);
  EXPECT_LE(calls(300, 0, 0.02, 0.3, 0.0, 0.0002, rule).called, 6);
  // Without a margin the share of alpha is all there is, and it is kept too.
  rule.margin = 0;
  EXPECT_LE(calls(300, 0, 0.02, 0.0, 0.0, 0, rule).called, 9);
}

TEST(Statistics, PlantedSlowdownsAreCalled) {
  StopRule cpu;
  cpu.looks = {8, 16, 32, 64};
  cpu.margin = 0.015;
  const auto noisy = calls(200, -0.05, 0.04, 0.2, 0.1, 0, cpu);
  EXPECT_GE(noisy.slower, 180);
  EXPECT_EQ(noisy.called, noisy.slower);
  StopRule gpu;
  gpu.looks = {8, 16, 32};
  gpu.margin = 0.004;
  gpu.target = 0.015;
  EXPECT_GE(calls(200, -0.015, 0.006, 0.2, 0.02, 0, gpu).slower, 180);
  // A large effect is decided at the first look.
  EXPECT_NEAR(calls(50, 0.5, 0.02, 0, 0, 0, gpu).rounds, 8, 0.5);
}

TEST(Statistics, ABurstOnOneSideIsNoEffect) {
  StopRule rule;
  rule.looks = {8, 16};
  // Half of the rounds were slowed fourfold on one side, the others were not.
  const std::vector<double> burst{1.4, 1.5, 0.01, 1.3, 1.4, -0.01, 1.5, 1.2};
  const auto c = compare_series(burst, rule, 1);
  EXPECT_EQ(c.call, "AMBIGUOUS");
  EXPECT_FALSE(c.decided);
  // The same size of effect in every round is one.
  const auto plain = compare_series({1.4, 1.5, 1.3, 1.3, 1.4, 1.35, 1.5, 1.2}, rule, 1);
  EXPECT_EQ(plain.call, "FASTER");
}

TEST(Statistics, NothingIsCalledFromAFewRounds) {
  const auto c = compare_series({0.5, 0.5, 0.5}, StopRule{}, 1);
  EXPECT_EQ(c.call, "AMBIGUOUS");
  EXPECT_FALSE(c.decided);
}

TEST(Statistics, TrendsAreSeenAndWidenTheInterval) {
  Random random(3, "trend");
  const auto flat = log_ratios(random, 32, 0, 0.01, 0);
  const auto rising = log_ratios(random, 32, 0, 0.01, 0, 0, 0.002);
  EXPECT_FALSE(trend_of(flat).significant);
  const Trend t = trend_of(rising);
  EXPECT_TRUE(t.significant);
  EXPECT_NEAR(t.change, 0.062, 0.02);
  const auto a = compare_series(flat, StopRule{}, 1), b = compare_series(rising, StopRule{}, 1);
  EXPECT_EQ(a.trend, 0);
  EXPECT_GT(b.ratio.high - b.ratio.low, a.ratio.high - a.ratio.low + 0.04);
}

TEST(Statistics, WarmingUpIsFoundAtTheBeginningOnly) {
  std::vector<double> rounds{140, 120, 108, 100, 101, 100, 99, 100, 101, 100, 100, 99};
  EXPECT_EQ(warm_up_length(rounds), 3);
  std::reverse(rounds.begin(), rounds.end());
  EXPECT_EQ(warm_up_length(rounds), 0);
}

TEST(Statistics, JudgesOnlyBeyondTheMargin) {
  EXPECT_EQ(judge_ratio({1.1, 1.05, 1.15}, 0.01), "FASTER");
  EXPECT_EQ(judge_ratio({1.1, 1.05, 1.15}, 0.06), "AMBIGUOUS");
  EXPECT_EQ(judge_ratio({0.9, 0.85, 0.95}, 0.01), "SLOWER");
  EXPECT_EQ(judge_ratio({1.0, 0.99, 1.01}, 0.0), "AMBIGUOUS");
}

TEST(Statistics, WilsonsIntervalIsThatOfTheTables) {
  const auto none = wilson(0, 200), some = wilson(54, 60);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.0188, 5e-4);
  EXPECT_NEAR(some.low, 0.7985, 2e-3);
  EXPECT_NEAR(some.high, 0.9534, 2e-3);
}

Comparison part_of(const char* call, double median, bool small = false) {
  Comparison c;
  c.call = call;
  c.ratio = {median, median - 0.02, median + 0.02};
  c.rounds = 8;
  c.decided = true;
  c.small = small;
  return c;
}

TEST(Parts, ACallNeedsTwoThatAgree) {
  StopRule rule;
  rule.parts = 3;
  const auto faster = part_of("FASTER", 1.1), slower = part_of("SLOWER", 0.9),
             ambiguous = part_of("AMBIGUOUS", 1.0, true);
  EXPECT_FALSE(parts_settled({}, rule));
  EXPECT_FALSE(parts_settled({faster}, rule));
  EXPECT_TRUE(parts_settled({ambiguous}, rule));
  EXPECT_FALSE(parts_settled({part_of("AMBIGUOUS", 1.0)}, rule));  // undecided: once more
  EXPECT_FALSE(parts_settled({faster, ambiguous}, rule));
  EXPECT_TRUE(parts_settled({faster, faster}, rule));
  EXPECT_TRUE(parts_settled({faster, slower, ambiguous}, rule));
  EXPECT_EQ(combine_parts({faster}, rule).call, "AMBIGUOUS");
  EXPECT_EQ(combine_parts({faster, slower}, rule).call, "AMBIGUOUS");
  EXPECT_EQ(combine_parts({faster, slower, faster}, rule).call, "FASTER");
  const auto both = combine_parts({part_of("FASTER", 1.1), slower, part_of("FASTER", 1.21)}, rule);
  EXPECT_DOUBLE_EQ(both.ratio.low, 1.08);
  EXPECT_DOUBLE_EQ(both.ratio.high, 1.23);
  EXPECT_NEAR(both.ratio.median, std::sqrt(1.1 * 1.21), 1e-12);
  EXPECT_EQ(both.rounds, 24);
  // The same call twice, but not the same effect: a disturbance. A third part may agree with one.
  const auto burst = part_of("FASTER", 2.5), small = part_of("FASTER", 1.08);
  EXPECT_FALSE(parts_settled({burst, small}, rule));
  EXPECT_EQ(combine_parts({burst, small, ambiguous}, rule).call, "AMBIGUOUS");
  rule.parts = 5;
  const auto third = combine_parts({burst, small, part_of("FASTER", 1.1)}, rule);
  EXPECT_EQ(third.call, "FASTER");
  EXPECT_NEAR(third.ratio.median, std::sqrt(1.08 * 1.1), 1e-12);
  EXPECT_DOUBLE_EQ(third.ratio.high, 1.12);
  rule.parts = 3;
  const auto neither = combine_parts({faster, slower, ambiguous}, rule);
  EXPECT_DOUBLE_EQ(neither.ratio.low, 0.88);
  EXPECT_DOUBLE_EQ(neither.ratio.high, 1.12);
  rule.parts = 1;
  EXPECT_TRUE(parts_settled({faster}, rule));
  EXPECT_EQ(combine_parts({faster}, rule).call, "FASTER");
}

}  // namespace
}  // namespace sculler::eval
