#include "steer/history.h"

namespace sculler::steer {

void History::settle_last(const Counts& window) {
  Outcome& last = outcomes_.back();
  last.settled = true;
  last.hit_rate_change = window.hit_rate() - last.hit_rate;
  last.communication_change = window.communication() - last.communication;
  if (!last.decision.hit_rate) return;
  const Direction came = direction_of(last.hit_rate_change);
  ++pass_.decisions;
  pass_.right += came == *last.decision.hit_rate ? 1 : 0;
  pass_.stagnant += came == Direction::kStagnant ? 1 : 0;
}

void History::settle(uint64_t now, const Counts& window) {
  if (outcomes_.empty() || outcomes_.back().settled) return;
  if (now - outcomes_.back().applied >= window_) settle_last(window);
}

void History::applied(const Decision& decision, uint64_t now, const Counts& window) {
  if (!outcomes_.empty() && !outcomes_.back().settled) {
    // Too soon for its window to say anything: it stays without an outcome.
    if (now - outcomes_.back().applied >= (window_ + 3) / 4) settle_last(window);
  }
  Outcome outcome;
  outcome.decision = decision;
  outcome.applied = now;
  outcome.hit_rate = window.hit_rate();
  outcome.communication = window.communication();
  outcomes_.push_back(std::move(outcome));
  while (outcomes_.size() > keep_) outcomes_.pop_front();
}

}  // namespace sculler::steer
