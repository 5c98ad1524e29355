// Medians and bootstrap intervals of interleaved samples: deterministic by seed.
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

// Interleaved pairs: a[i] and b[i] were measured one after the other. The ratio is median(a) /
// median(b); pairs are drawn together, so drift that hits both cancels. a.size() == b.size(), else
// the shorter length counts.
[[nodiscard]] Interval ratio_interval(const std::vector<double>& a, const std::vector<double>& b,
                                      uint64_t seed, double confidence = 0.95,
                                      int resamples = 2000);

// The machine's own spread: half the width of the ratio's interval that samples of one program give
// against themselves, odd against even positions.
[[nodiscard]] double self_spread(const std::vector<double>& samples, uint64_t seed);

// FASTER where the interval of baseline / candidate lies above 1 by more than the spread, SLOWER
// where below, else AMBIGUOUS.
[[nodiscard]] std::string judge_ratio(const Interval& ratio, double spread);

}  // namespace sculler::eval
