// Decisions that were applied and what came of them: the change of hit rate and communication
// between the window before and the window after.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "steer/decision.h"
#include "steer/metrics.h"

namespace sculler::steer {

struct Outcome {
  Decision decision;
  uint64_t applied = 0;                    // minibatches done
  double hit_rate = 0, communication = 0;  // of the window before
  bool settled = false;
  double hit_rate_change = 0, communication_change = 0;
};

// How often the expected direction of the hit rate came true, and how often one that always says
// "stagnant" would have been right.
struct PassAt1 {
  uint64_t decisions = 0, right = 0, stagnant = 0;
};

class History {
 public:
  // Keeps the last `keep` decisions; an outcome is settled after `window` minibatches, or by the
  // next decision if that comes first and a quarter of the window has passed.
  History(uint64_t keep, uint64_t window) : keep_(keep), window_(window) {}
  void applied(const Decision& decision, uint64_t now, const Counts& window);
  // After every minibatch.
  void settle(uint64_t now, const Counts& window);
  [[nodiscard]] const std::deque<Outcome>& outcomes() const { return outcomes_; }
  [[nodiscard]] const PassAt1& pass_at_1() const { return pass_; }

 private:
  void settle_last(const Counts& window);
  uint64_t keep_, window_;
  std::deque<Outcome> outcomes_;  // oldest first; only the last may be open
  PassAt1 pass_;
};

}  // namespace sculler::steer
