// Robust statistics of interleaved series: medians, block-bootstrap intervals, trends.
// Deterministic by seed. docs/measuring.md says why these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sculler::eval {

struct Interval {
  double median = 0, low = 0, high = 0;
};

// Of a copy; 0 where there is nothing.
[[nodiscard]] double median(std::vector<double> values);

// Median with a percentile-bootstrap interval of the given confidence (0 < confidence < 1).
[[nodiscard]] Interval median_interval(const std::vector<double>& values, uint64_t seed,
                                       double confidence = 0.95, int resamples = 1000);

// Mean of the middle half: bears a quarter of disturbed values on either side.
[[nodiscard]] double midmean(std::vector<double> values);

// Quantile of the standard normal distribution, 0 < p < 1, and of Student's with `df` >= 1 degrees.
[[nodiscard]] double normal_quantile(double p);
[[nodiscard]] double student_quantile(double p, double df);

// Interval of the midmean of a series whose neighbours correlate: standard error by a circular
// block bootstrap, Student's quantile for the few rounds that a measurement has. `median` is the
// midmean. Fewer than 4 values: low and high are infinite.
[[nodiscard]] Interval series_interval(const std::vector<double>& values, uint64_t seed,
                                       double confidence, int resamples = 500);

// Does a series rise or fall? Mann-Kendall's test at `level` (two-sided), Theil-Sen's slope.
struct Trend {
  bool significant = false;
  double change = 0;  // from the first to the last value by the slope; in units of the values
};
[[nodiscard]] Trend trend_of(const std::vector<double>& values, double level = 0.01);

// How many leading values lie beyond what the second half of the series shows: warming up. At most
// a third of the series.
[[nodiscard]] int warm_up_length(const std::vector<double>& values);

// FASTER where the whole interval of baseline / candidate lies above 1 by more than the margin,
// SLOWER where below, else AMBIGUOUS. The margin is a fraction: 0.01 is 1 %.
[[nodiscard]] std::string judge_ratio(const Interval& ratio, double margin);

// Wilson's interval of a proportion, `hits` of `n`, 95 %.
[[nodiscard]] Interval wilson(int hits, int n);

// How a comparison is stopped: at each of `looks` rounds, each at its share of `alpha`
// (Bonferroni), so that looking often calls no more often. docs/measuring.md.
struct StopRule {
  std::vector<int> looks{8, 16, 32};
  double alpha = 0.01;   // chance of an interval, at any look, that does not hold the truth
  double margin = 0.02;  // of judge_ratio
  double target = 0.05;  // the smallest effect that is looked for; less ends as AMBIGUOUS
  // Measured again after a pause until two parts make the same call of the same size, at most so
  // often. 1: once.
  int parts = 1;
  int64_t pause_ms = 1000;
  // Every part on processes of its own: what two groups differ by stays with them as long as they
  // live.
  bool fresh = false;
  [[nodiscard]] double confidence() const;
  [[nodiscard]] bool is_look(int rounds) const;
};

struct Comparison {
  Interval ratio{};  // other / candidate: above 1 the candidate is faster
  std::string call = "AMBIGUOUS";
  int rounds = 0;
  bool decided = false;  // by the rule: no further round is needed
  bool small = false;    // the interval excludes every effect of the size that is looked for
  int parts = 1;         // measurements apart in time that this is made of
  double trend = 0;  // change of the log ratio over the rounds where that is significant, else 0
};

// `log_ratios`: ln(other / candidate) of one round each, neighbours in time. A ratio that itself
// drifts widens the interval by half of its change.
[[nodiscard]] Comparison compare_series(const std::vector<double>& log_ratios, const StopRule& rule,
                                        uint64_t seed);

// No further part is needed: two make the same call, the first excludes the effect, or `rule.parts`
// are there.
[[nodiscard]] bool parts_settled(const std::vector<Comparison>& parts, const StopRule& rule);
// One comparison of its parts (1 and more), each a measurement of its own. FASTER or SLOWER where
// two parts say so (the only one where the rule asks for one), else AMBIGUOUS. The interval covers
// those of the parts that made the call, or of all; the point is the mean of their logarithms.
[[nodiscard]] Comparison combine_parts(const std::vector<Comparison>& parts, const StopRule& rule);

}  // namespace sculler::eval
