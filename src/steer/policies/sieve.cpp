// SIEVE (Zhang et al., NSDI 2024): one queue, a visited bit, and a hand that moves from the oldest
// to the youngest, clears bits, and stops at the first row that was not visited. Rows never move.
#include "steer/policies/policies.h"
#include "steer/slot_lists.h"

namespace sculler::steer {
namespace {

class Sieve final : public Policy {
 public:
  explicit Sieve(uint64_t capacity) : lists_(capacity), visited_(capacity) {}

  void minibatch(Rows& rows, Plan& plan) override {
    for (const uint32_t slot : plan.slot())
      if (slot != kNone) visited_[slot] = 1;
    const auto leaving = [&] {
      const uint32_t slot = victim(rows);
      forgotten(slot);
      return slot;
    };
    admit_all(rows, plan, leaving, [&](uint32_t slot) { placed(rows, slot); });
  }
  void placed(Rows& /*rows*/, uint32_t slot) override {
    lists_.push(queue_, slot);
    visited_[slot] = 0;
  }
  void forgotten(uint32_t slot) override {
    if (hand_ == slot) hand_ = lists_.younger(slot);
    lists_.remove(queue_, slot);
  }
  uint32_t victim(Rows& /*rows*/) override {
    for (;;) {
      if (hand_ == kNone) hand_ = queue_.tail;
      if (visited_[hand_] == 0) return hand_;
      visited_[hand_] = 0;
      hand_ = lists_.younger(hand_);
    }
  }
  [[nodiscard]] uint64_t bytes() const override { return lists_.bytes() + visited_.bytes(); }

 private:
  SlotLists lists_;
  SlotLists::List queue_;
  Block<uint8_t> visited_;
  uint32_t hand_ = kNone;
};

}  // namespace
std::unique_ptr<Policy> make_sieve(uint64_t capacity) { return std::make_unique<Sieve>(capacity); }
}  // namespace sculler::steer
