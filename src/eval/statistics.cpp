#include "eval/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sculler::eval {
namespace {

// `values` is reordered.
double median_in_place(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const double upper = *middle;
  return (*std::max_element(values.begin(), middle) + upper) / 2;
}

Interval percentiles(double point, std::vector<double>& draws, double confidence) {
  std::sort(draws.begin(), draws.end());
  const double last = static_cast<double>(draws.size() - 1);
  const auto at = [&](double q) { return draws[static_cast<std::size_t>(std::lround(q * last))]; };
  const double tail = (1 - confidence) / 2;
  return {point, std::min(point, at(tail)), std::max(point, at(1 - tail))};
}

}  // namespace

double median(std::vector<double> values) { return median_in_place(values); }

Interval median_interval(const std::vector<double>& values, uint64_t seed, double confidence,
                         int resamples) {
  if (values.empty()) return {};
  const double point = median(values);
  Random random(seed, "median");
  std::vector<double> draws, sample(values.size());
  draws.reserve(static_cast<std::size_t>(resamples));
  for (int i = 0; i < resamples; ++i) {
    for (double& value : sample) value = values[random.below(values.size())];
    draws.push_back(median_in_place(sample));
  }
  return percentiles(point, draws, confidence);
}

Interval ratio_interval(const std::vector<double>& a, const std::vector<double>& b, uint64_t seed,
                        double confidence, int resamples) {
  const std::size_t n = std::min(a.size(), b.size());
  if (n == 0) return {};
  std::vector<double> left(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<double> right(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n));
  const auto quotient = [](double above, double below) { return below > 0 ? above / below : 0.0; };
  const double point = quotient(median(left), median(right));
  Random random(seed, "ratio");
  std::vector<double> draws;
  draws.reserve(static_cast<std::size_t>(resamples));
  for (int i = 0; i < resamples; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      const auto pick = random.below(n);
      left[k] = a[pick];
      right[k] = b[pick];
    }
    draws.push_back(quotient(median_in_place(left), median_in_place(right)));
  }
  return percentiles(point, draws, confidence);
}

double self_spread(const std::vector<double>& samples, uint64_t seed) {
  std::vector<double> even, odd;
  for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
    even.push_back(samples[i]);
    odd.push_back(samples[i + 1]);
  }
  const Interval own = ratio_interval(even, odd, seed);
  return (own.high - own.low) / 2;
}

std::string judge_ratio(const Interval& ratio, double spread) {
  if (ratio.low > 1 + spread) return "FASTER";
  if (ratio.high < 1 - spread) return "SLOWER";
  return "AMBIGUOUS";
}

}  // namespace sculler::eval
