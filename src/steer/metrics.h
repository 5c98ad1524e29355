// Counters of a buffer: since its begin, and over a window of the last minibatches. Hit rates are
// over all remote ids asked for; rows fetched include replacements and preloaded rows.
#pragma once

#include <cstdint>
#include <vector>

#include "steer/plan.h"

namespace sculler::steer {

struct Counts {
  uint64_t minibatches = 0, ids = 0, hits = 0;
  uint64_t fetched = 0;   // misses and rows that no minibatch had asked for
  uint64_t extra = 0;     // the latter alone
  uint64_t admitted = 0;  // rows that came in
  uint64_t evicted = 0;

  // 0 where nothing was asked for.
  [[nodiscard]] double hit_rate() const {
    return ids == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(ids);
  }
  // Rows fetched a remote id: 1 without a buffer, above 1 where replacements cost more than hits
  // save.
  [[nodiscard]] double communication() const {
    return ids == 0 ? 0.0 : static_cast<double>(fetched) / static_cast<double>(ids);
  }
  Counts& operator+=(const Counts& o);
  Counts& operator-=(const Counts& o);
};

class Metrics {
 public:
  explicit Metrics(uint64_t window) : last_(window == 0 ? 1 : window) {}
  void add(const Plan& plan);
  // Rows fetched outside minibatches (preload).
  void add_outside(const Plan& plan);
  void add_evicted(uint64_t rows) { total_.evicted += rows; }
  [[nodiscard]] const Counts& total() const { return total_; }
  // The last minibatches, at most as many as the window has.
  [[nodiscard]] const Counts& window() const { return window_; }

 private:
  std::vector<Counts> last_;  // one a minibatch, a ring
  uint64_t at_ = 0;
  Counts total_, window_;
};

}  // namespace sculler::steer
