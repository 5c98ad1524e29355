#include "verify/recognition.h"

#include <algorithm>
#include <cstdio>

namespace sculler::verify {
namespace {

// Noise makes single samples slower, hardly ever all of them by so much.
constexpr double kFactor = 1.5, kLeastNs = 30'000;
constexpr std::size_t kLeastFresh = 5, kLeastKnown = 12;

}  // namespace

int Recognition::next_content() {
  if (++drawn_ % kEvery != 0 || used_ == kFresh) return -1;
  return first_ + used_++;
}

void Recognition::add(const IterationResult& result) {
  if (result.warm_up) return;
  (result.content >= first_ ? fresh_ns_ : known_ns_)
      .push_back(static_cast<double>(result.latency_ns));
}

std::optional<std::string> Recognition::finding() const {
  if (fresh_ns_.size() < kLeastFresh || known_ns_.size() < kLeastKnown) return std::nullopt;
  auto known = known_ns_;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  const double fresh = *std::min_element(fresh_ns_.begin(), fresh_ns_.end());
  if (!(fresh > kFactor * *middle) || !(fresh - *middle > kLeastNs)) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "inputs that came before take %.0f us (median), inputs that never came take at "
                "least %.0f us: answers are kept and found again by the inputs' values",
                *middle / 1e3, fresh / 1e3);
  return text;
}

}  // namespace sculler::verify
