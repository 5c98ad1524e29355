// The published rule of MassiveGNN and Rudder (arXiv 2602.23556). A row in the buffer has a score
// that starts at what it was wanted when it came, falls by `decay` every minibatch and is held up
// by a hit; a missed id's score grows by one a miss. A replacement puts the most wanted ids into
// the places of stale rows, whose scores they take on. Replacement rows are fetched.
//
// Scores are kept as the number of minibatches without a hit, and a row becomes stale at a
// minibatch that is known unless it is hit, so a minibatch costs its hits; a replacement looks at
// all missed ids, as the published code does. Here all remote ids count, not the 1-hop halo alone.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Scores final : public Policy {
 public:
  Scores(uint64_t capacity, uint64_t interval, uint64_t delta, const Knobs& knobs)
      : interval_(interval), delta_(delta), start_(capacity), base_(capacity), due_(capacity) {
    adjust(knobs);
  }

  [[nodiscard]] Touch touch() const override { return Touch::kMissed; }

  void minibatch(Rows& rows, Plan& plan) override {
    ++now_;
    for (const uint32_t slot : plan.slot())
      if (slot != kNone) ++base_[slot];
    find_stale(rows);
    const bool due = interval_ > 0 && now_ % interval_ == 0;
    if (due || asked_) replace_stale(rows, plan);
    asked_ = false;
  }
  void placed(Rows& /*rows*/, uint32_t slot) override {
    // A slot that was stale, was freed and is filled must not stand among the stale ones twice.
    if (forgot_stale_) erase_fresh();
    enter(slot, 1.0F);
  }
  void forgotten(uint32_t slot) override {
    forgot_stale_ = forgot_stale_ || due_[slot] == kStale;
    start_[slot] = 0;
    due_[slot] = kNever;
  }
  uint32_t victim(Rows& rows) override {
    uint32_t worst = kNone;
    for (uint64_t s = 0; s < rows.capacity(); ++s) {
      const auto slot = static_cast<uint32_t>(s);
      if (rows.id(slot) == kNoId) continue;
      if (worst == kNone || score(slot) < score(worst)) worst = slot;
    }
    return worst;
  }
  void replace() override { asked_ = true; }
  void adjust(const Knobs& knobs) override {
    most_ = knobs.rows;
    const double decay = knobs.decay == 0 ? 0.95 : knobs.decay;  // the published one
    if (decay_ == decay) return;
    decay_ = decay;
    // Decimal rounding of the exact value, as Python's round(γ^Δ, 3) does.
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", std::pow(decay_, static_cast<double>(delta_)));
    threshold_ = std::strtof(text, nullptr);
    // Rows that are not stale yet become so at another time, those that a decay of 1 kept for ever
    // as well.
    queue_.clear();
    for (uint64_t s = 0; s < start_.size(); ++s)
      if (start_[s] > 0 && due_[s] != kStale) expect(static_cast<uint32_t>(s));
  }
  [[nodiscard]] uint64_t bytes() const override {
    return start_.bytes() + base_.bytes() + due_.bytes() + queue_.capacity() * sizeof(Due) +
           stale_.capacity() * sizeof(uint32_t);
  }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr uint64_t kStale = UINT64_MAX - 1;
  struct Due {
    uint64_t at;
    uint32_t slot;
    // The soonest on top of the heap, slots in order.
    bool operator<(const Due& o) const { return at != o.at ? at > o.at : slot > o.slot; }
  };

  [[nodiscard]] float score(uint32_t slot) const {
    return after(slot, now_ > base_[slot] ? now_ - base_[slot] : 0);
  }
  [[nodiscard]] float after(uint32_t slot, uint64_t minibatches) const {
    return start_[slot] * static_cast<float>(std::pow(decay_, static_cast<double>(minibatches)));
  }
  void enter(uint32_t slot, float start) {
    start_[slot] = start;
    base_[slot] = now_;
    expect(slot);
  }
  // The minibatch at whose end the row is stale if it is not hit any more.
  void expect(uint32_t slot) {
    const double ratio = static_cast<double>(threshold_) / static_cast<double>(start_[slot]);
    uint64_t n = 0;
    if (ratio <= 1) {
      if (decay_ >= 1 || threshold_ <= 0) {
        due_[slot] = kNever;
        return;
      }
      n = static_cast<uint64_t>(std::log(ratio) / std::log(decay_));
      n -= std::min<uint64_t>(n, 2);  // rounding is decided by the score itself
      if (!(after(slot, n) < threshold_)) {
        // A decay just below 1 moves a float once in millions of minibatches: bisected.
        uint64_t step = 1;
        while (!(after(slot, n + step) < threshold_)) step *= 2;
        uint64_t low = n + step / 2;
        n += step;
        while (n - low > 1) {
          const uint64_t middle = low + (n - low) / 2;
          (after(slot, middle) < threshold_ ? n : low) = middle;
        }
      }
    }
    due_[slot] = base_[slot] + n;
    if (queue_.size() > 2 * due_.size() + 64) {  // entries of rows that were taken out
      std::erase_if(queue_, [&](const Due& d) { return due_[d.slot] != d.at; });
      std::make_heap(queue_.begin(), queue_.end());
    }
    queue_.push_back({due_[slot], slot});
    std::push_heap(queue_.begin(), queue_.end());
  }
  void find_stale(Rows& rows) {
    while (!queue_.empty() && queue_.front().at <= now_) {
      const Due d = queue_.front();
      std::pop_heap(queue_.begin(), queue_.end());
      queue_.pop_back();
      if (due_[d.slot] != d.at || rows.id(d.slot) == kNoId) continue;
      if (score(d.slot) < threshold_) {
        due_[d.slot] = kStale;
        stale_.push_back(d.slot);
      } else {
        expect(d.slot);
      }
    }
  }

  void erase_fresh() {
    std::erase_if(stale_, [&](uint32_t slot) { return due_[slot] != kStale; });
    forgot_stale_ = false;
  }

  struct Wanted {
    float mark;
    uint64_t id;
  };
  void replace_stale(Rows& rows, Plan& plan) {
    erase_fresh();
    const uint64_t room = rows.limit() - std::min(rows.limit(), rows.used());
    uint64_t k = std::min(room + stale_.size(), most_);
    if (k == 0) return;
    std::vector<Wanted> wanted;
    rows.each_entry([&](const Entry& e) {
      if (e.slot == kNone && e.mark > 0) wanted.push_back({e.mark, e.id});
    });
    k = std::min<uint64_t>(k, wanted.size());
    const auto end = wanted.begin() + static_cast<int64_t>(k);
    std::partial_sort(wanted.begin(), end, wanted.end(), [](const Wanted& a, const Wanted& b) {
      return a.mark != b.mark ? a.mark > b.mark : a.id < b.id;
    });
    std::unordered_map<uint64_t, uint64_t> missed;
    missed.reserve(plan.missed().size());
    for (uint64_t m = 0; m < plan.missed().size(); ++m) missed.emplace(plan.missed_id(m), m);
    uint64_t next_stale = 0;
    for (auto w = wanted.begin(); w != end; ++w) {
      uint32_t slot;
      if (rows.has_room()) {
        slot = rows.free_slot();
      } else {
        slot = stale_[next_stale++];
        rows.set_mark(slot, score(slot));
      }
      const auto at = missed.find(w->id);
      if (at != missed.end()) rows.put(plan, at->second, slot);
      else rows.put_extra(plan, w->id, slot);
      enter(slot, w->mark);
    }
    stale_.erase(stale_.begin(), stale_.begin() + static_cast<int64_t>(next_stale));
  }

  uint64_t interval_, delta_, most_ = UINT64_MAX, now_ = 0;
  double decay_ = 0;
  float threshold_ = 0;
  bool asked_ = false, forgot_stale_ = false;
  Block<float> start_;    // the score at base_
  Block<uint64_t> base_;  // the minibatch it came, and one more a hit
  Block<uint64_t> due_;   // when it may be stale; kStale, kNever
  std::vector<Due> queue_;
  std::vector<uint32_t> stale_;  // longest first
};

}  // namespace
std::unique_ptr<Policy> make_scores(uint64_t capacity, uint64_t interval, uint64_t delta,
                                    const Knobs& knobs) {
  return std::make_unique<Scores>(capacity, interval, delta, knobs);
}
}  // namespace sculler::steer
