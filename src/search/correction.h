// Scores that were predicted beside scores that were measured: what was measured counts as
// measured, what was not is corrected by what the measured ones were off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sculler::search {

class Correction {
 public:
  // Both scores of one program, above 0, higher is better. The last word on a program counts.
  void add(int64_t program, double predicted, double measured) {
    if (predicted <= 0 || measured <= 0) return;
    seen_[program] = {measured, measured / predicted};
    std::vector<double> quotients;
    for (const auto& [id, seen] : seen_) quotients.push_back(seen.second);
    const auto middle = quotients.begin() + static_cast<std::ptrdiff_t>(quotients.size() / 2);
    std::nth_element(quotients.begin(), middle, quotients.end());
    scale_ = *middle;
  }
  void remove(int64_t program) { seen_.erase(program); }
  [[nodiscard]] bool measured(int64_t program) const { return seen_.count(program) > 0; }
  // Measured over predicted, the (upper) median; 1 where nothing was measured.
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] double score(int64_t program, double predicted) const {
    const auto at = seen_.find(program);
    return at != seen_.end() ? at->second.first : predicted * scale_;
  }

 private:
  std::map<int64_t, std::pair<double, double>> seen_;  // program → measured score, quotient
  double scale_ = 1;
};

}  // namespace sculler::search
