// CLOCK: a hand goes round the slots, takes a slot's second chance away, and stops at one that has
// none. New rows have none until they are hit.
#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class ClockPolicy final : public Policy {
 public:
  explicit ClockPolicy(uint64_t capacity) : used_(capacity) {}

  void minibatch(Rows& rows, Plan& plan) override {
    for (const uint32_t slot : plan.slot())
      if (slot != kNone) used_[slot] = 1;
    const auto leaving = [&] {
      const uint32_t slot = victim(rows);
      advance();
      return slot;
    };
    admit_all(rows, plan, leaving, [&](uint32_t slot) { used_[slot] = 0; });
  }
  void placed(Rows& /*rows*/, uint32_t slot) override { used_[slot] = 0; }
  void forgotten(uint32_t slot) override { used_[slot] = 0; }
  uint32_t victim(Rows& rows) override {
    for (;; advance()) {
      if (rows.id(hand_) == kNoId) continue;
      if (used_[hand_] == 0) return hand_;
      used_[hand_] = 0;
    }
  }
  [[nodiscard]] uint64_t bytes() const override { return used_.bytes(); }

 private:
  void advance() {
    if (++hand_ == used_.size()) hand_ = 0;
  }
  Block<uint8_t> used_;
  uint32_t hand_ = 0;
};

}  // namespace
std::unique_ptr<Policy> make_clock(uint64_t capacity) {
  return std::make_unique<ClockPolicy>(capacity);
}
}  // namespace sculler::steer
