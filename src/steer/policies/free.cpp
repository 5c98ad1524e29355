// Free admission, the default: accesses of all ids are counted, and of the rows that a minibatch
// has fetched anyway those stay whose count is above the lowest in the buffer. No row is fetched
// for the buffer's sake. Counts decay by a growing weight of new accesses, so a minibatch costs
// what it touches.
#include <algorithm>

#include "steer/levels.h"
#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Free final : public Policy {
 public:
  Free(uint64_t capacity, double decay, const Knobs& knobs) : levels_(capacity), decay_(decay) {
    adjust(knobs);
  }

  [[nodiscard]] Touch touch() const override { return Touch::kAll; }

  void minibatch(Rows& rows, Plan& plan) override {
    if (rows.limit() > 0) admit(rows, plan);
    age(rows);
  }
  void placed(Rows& rows, uint32_t slot) override { levels_.push(slot, rows.mark(slot)); }
  void forgotten(uint32_t slot) override { levels_.remove(slot); }
  uint32_t victim(Rows& rows) override { return levels_.lowest(rows); }
  void adjust(const Knobs& knobs) override {
    knobs_ = knobs;
    if (knobs_.decay == 0) knobs_.decay = decay_;
  }
  [[nodiscard]] uint64_t bytes() const override {
    return levels_.bytes() + wanted_.capacity() * sizeof wanted_[0];
  }

 private:
  struct Wanted {
    float mark;
    uint32_t miss;
  };

  void admit(Rows& rows, Plan& plan) {
    const float bound = rows.has_room() ? 0.0F : levels_.bound();
    wanted_.clear();
    for (uint64_t miss = 0; miss < plan.missed().size(); ++miss)
      if (plan.mark(miss) > bound)
        wanted_.push_back({plan.mark(miss), static_cast<uint32_t>(miss)});
    // The most wanted first, so that none is let in and thrown out by the next.
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
      return a.mark != b.mark ? a.mark > b.mark : a.miss < b.miss;
    });
    uint64_t left = knobs_.rows;
    for (const Wanted& w : wanted_) {
      if (left == 0) break;
      if (rows.holds(plan.missed_id(w.miss))) continue;  // twice in the minibatch
      uint32_t slot;
      if (rows.has_room()) {
        slot = rows.free_slot();
      } else {
        slot = levels_.lowest(rows);
        if (!(w.mark > rows.mark(slot))) break;
        levels_.remove(slot);
      }
      rows.put(plan, w.miss, slot);
      levels_.push(slot, w.mark);
      --left;
    }
  }

  void age(Rows& rows) {
    if (knobs_.decay >= 1) return;
    const float weight = rows.weight() / static_cast<float>(knobs_.decay);
    rows.set_weight(weight);
    if (weight < 1e18F) return;
    rows.scale_marks(1 / weight);
    rows.set_weight(1);
    levels_.clear();
    for (uint64_t s = 0; s < rows.capacity(); ++s) {
      const auto slot = static_cast<uint32_t>(s);
      if (rows.id(slot) != kNoId) levels_.push(slot, rows.mark(slot));
    }
  }

  Levels levels_;
  double decay_;  // its own
  Knobs knobs_;
  std::vector<Wanted> wanted_;
};

}  // namespace
std::unique_ptr<Policy> make_free(uint64_t capacity, double decay, const Knobs& knobs) {
  return std::make_unique<Free>(capacity, decay, knobs);
}
}  // namespace sculler::steer
