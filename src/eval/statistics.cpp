#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// `values` is reordered. Weights the two border values, so that 5 values lose 1.25 on either side.
double midmean_in_place(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const double cut = n / 4;
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double from = std::max(static_cast<double>(i), cut);
    const double to = std::min(static_cast<double>(i + 1), n - cut);
    if (to <= from) continue;
    sum += values[i] * (to - from);
    weights += to - from;
  }
  return sum / weights;
}

double standard_deviation(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Chance that of n fair coins at most `fewer` fall on the rarer side: the sign test, two-sided.
double sign_chance(int fewer, int n) {
  double sum = 0, term = std::pow(0.5, n);
  for (int k = 0; k <= fewer; ++k) {
    sum += term;
    term *= static_cast<double>(n - k) / (k + 1);
  }
  return std::min(1.0, 2 * sum);
}

// Whatever the noise is like: nearly all rounds point the same way, and the interval is clearly
// narrower than the effect. Bursts that hit one side for a while pass neither.
bool is_plain(const std::vector<double>& log_ratios, const Interval& log) {
  int below = 0;
  for (const double value : log_ratios) below += value < 0 ? 1 : 0;
  const int n = static_cast<int>(log_ratios.size());
  return sign_chance(std::min(below, n - below), n) <= 0.01 &&
         (log.high - log.low) / 2 <= 0.75 * std::abs(log.median);
}

}  // namespace

double median(std::vector<double> values) { return median_in_place(values); }
double midmean(std::vector<double> values) { return midmean_in_place(values); }

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

// Bisection on the complementary error function: monotone, and exact to 1e-12.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Cornish and Fisher's expansion (Abramowitz and Stegun 26.7.5); a few per cent short below 4
// degrees in the far tails, where no measurement is decided.
double student_quantile(double p, double df) {
  const double z = normal_quantile(p), z2 = z * z;
  const double g1 = z * (z2 + 1) / 4;
  const double g2 = z * ((5 * z2 + 16) * z2 + 3) / 96;
  const double g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  const double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  const double v = std::max(df, 1.0);
  return z + g1 / v + g2 / (v * v) + g3 / (v * v * v) + g4 / (v * v * v * v);
}

Interval series_interval(const std::vector<double>& values, uint64_t seed, double confidence,
                         int resamples) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t n = values.size();
  const double point = midmean(values);
  if (n < 4) return {point, -kInfinity, kInfinity};
  // A pair of rounds in either order stays together; longer series get longer blocks.
  const auto block = std::max<std::size_t>(
      2, static_cast<std::size_t>(std::lround(std::cbrt(static_cast<double>(n)))));
  Random random(seed, "series");
  std::vector<double> draws, sample(n);
  draws.reserve(static_cast<std::size_t>(resamples));
  for (int i = 0; i < resamples; ++i) {
    for (std::size_t k = 0; k < n;) {
      const auto start = random.below(n);
      for (std::size_t j = 0; j < block && k < n; ++j, ++k) sample[k] = values[(start + j) % n];
    }
    draws.push_back(midmean_in_place(sample));
  }
  const double count = static_cast<double>(n);
  // Half of the values carry the midmean, and blocks vary less than what they are drawn from.
  const double degrees = std::max(2.0, count / 2);
  const double shrunk = count / (count - static_cast<double>(block));
  const double half = student_quantile(1 - (1 - confidence) / 2, degrees) *
                      standard_deviation(draws) * std::sqrt(shrunk);
  return {point, point - half, point + half};
}

Trend trend_of(const std::vector<double>& values, double level) {
  const std::size_t n = values.size();
  if (n < 8) return {};
  double score = 0;
  std::vector<double> slopes;
  slopes.reserve(n * (n - 1) / 2);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double step = values[j] - values[i];
      score += step > 0 ? 1 : step < 0 ? -1 : 0;
      slopes.push_back(step / static_cast<double>(j - i));
    }
  }
  const double count = static_cast<double>(n);
  const double deviation = std::sqrt(count * (count - 1) * (2 * count + 5) / 18);
  const double z = (std::abs(score) - 1) / deviation;
  Trend out;
  out.significant = z > normal_quantile(1 - level / 2);
  out.change = median_in_place(slopes) * (count - 1);
  return out;
}

int warm_up_length(const std::vector<double>& values) {
  const std::size_t n = values.size();
  if (n < 9) return 0;
  std::vector<double> late(values.begin() + static_cast<std::ptrdiff_t>(n / 2), values.end());
  const double center = median(late);
  for (double& v : late) v = std::abs(v - center);
  // 4 robust deviations, and never less than half a per cent.
  const double band = std::max(4 * 1.4826 * median(late), 0.005 * std::abs(center));
  std::size_t length = 0;
  while (length < n / 3 && std::abs(values[length] - center) > band) ++length;
  return static_cast<int>(length);
}

std::string judge_ratio(const Interval& ratio, double margin) {
  if (ratio.low > 1 + margin) return "FASTER";
  if (ratio.high < 1 / (1 + margin)) return "SLOWER";
  return "AMBIGUOUS";
}

Interval wilson(int hits, int n) {
  if (n <= 0) return {0, 0, 1};
  const double z = normal_quantile(0.975), count = n, p = hits / count;
  const double scale = 1 + z * z / count;
  const double center = (p + z * z / (2 * count)) / scale;
  const double half = z * std::sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / scale;
  return {p, std::max(0.0, center - half), std::min(1.0, center + half)};
}

double StopRule::confidence() const {
  return 1 - alpha / static_cast<double>(std::max<std::size_t>(1, looks.size()));
}

bool StopRule::is_look(int rounds) const {
  return std::find(looks.begin(), looks.end(), rounds) != looks.end();
}

Comparison compare_series(const std::vector<double>& log_ratios, const StopRule& rule,
                          uint64_t seed) {
  Comparison out;
  out.rounds = static_cast<int>(log_ratios.size());
  if (log_ratios.empty()) return out;
  Interval log = series_interval(log_ratios, seed, rule.confidence());
  if (const Trend trend = trend_of(log_ratios); trend.significant) {
    out.trend = trend.change;
    log.low -= std::abs(trend.change) / 2;
    log.high += std::abs(trend.change) / 2;
  }
  out.ratio = {std::exp(log.median), std::exp(log.low), std::exp(log.high)};
  out.call = judge_ratio(out.ratio, rule.margin);
  if (!is_plain(log_ratios, log)) out.call = "AMBIGUOUS";
  const double target = std::log1p(rule.target);
  out.small = log.low > -target && log.high < target;
  const int last = rule.looks.empty() ? 0 : rule.looks.back();
  out.decided = out.call != "AMBIGUOUS" || out.small || out.rounds >= last;
  return out;
}

namespace {

// The parts that a call stands on: one where there is one a measurement, else the two that make the
// same call and agree best on how large it is. What a disturbance does twice is seldom twice the
// same.
struct Agreement {
  std::string call{};
  std::size_t first = 0, second = 0;
};

Agreement agreement(const std::vector<Comparison>& parts, const StopRule& rule) {
  Agreement out;
  double best = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].call == "AMBIGUOUS") continue;
    if (rule.parts <= 1) return {parts[i].call, i, i};
    for (std::size_t j = i + 1; j < parts.size(); ++j) {
      if (parts[j].call != parts[i].call) continue;
      const double low = std::log(std::min(parts[i].ratio.low, parts[j].ratio.low)),
                   high = std::log(std::max(parts[i].ratio.high, parts[j].ratio.high));
      const double effect =
          std::abs(std::log(parts[i].ratio.median) + std::log(parts[j].ratio.median)) / 2;
      const double half = (high - low) / 2;
      if (half > std::max(std::log1p(rule.target), effect / 2)) continue;
      if (!out.call.empty() && half >= best) continue;
      out = {parts[i].call, i, j};
      best = half;
    }
  }
  return out;
}

}  // namespace

bool parts_settled(const std::vector<Comparison>& parts, const StopRule& rule) {
  if (parts.empty()) return false;
  return static_cast<int>(parts.size()) >= rule.parts ||
         (parts.size() == 1 && parts[0].call == "AMBIGUOUS" && parts[0].small) ||
         !agreement(parts, rule).call.empty();
}

Comparison combine_parts(const std::vector<Comparison>& parts, const StopRule& rule) {
  Comparison out;
  out.parts = static_cast<int>(parts.size());
  if (parts.empty()) return out;
  const Agreement agreed = agreement(parts, rule);
  if (!agreed.call.empty()) out.call = agreed.call;
  double sum = 0;
  int n = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Comparison& part = parts[i];
    out.rounds += part.rounds;
    out.decided = out.decided || part.decided;
    if (!agreed.call.empty() && i != agreed.first && i != agreed.second) continue;
    sum += std::log(part.ratio.median);
    out.ratio.low = n == 0 ? part.ratio.low : std::min(out.ratio.low, part.ratio.low);
    out.ratio.high = std::max(out.ratio.high, part.ratio.high);
    if (std::abs(part.trend) > std::abs(out.trend)) out.trend = part.trend;
    out.small = n == 0 ? part.small : out.small && part.small;
    ++n;
  }
  out.ratio.median = std::exp(sum / n);
  return out;
}

}  // namespace sculler::eval
