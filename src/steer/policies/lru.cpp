// Least recently used, exact. Uses are appended to a queue and not moved within it: a hit writes
// one word in order and one at the slot; entries that a later use has outdated are skipped.
#include <algorithm>

#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Lru final : public Policy {
 public:
  explicit Lru(uint64_t capacity)
      : used_at_(capacity, kNone),
        queue_(std::min<uint64_t>(2 * capacity + kSlack, kNone), kNone) {}

  void minibatch(Rows& rows, Plan& plan) override {
    for (const uint32_t slot : plan.slot())
      if (slot != kNone) use(slot);
    const auto leaving = [&] {
      look_ahead(rows);
      return victim(rows);
    };
    admit_all(rows, plan, leaving, [&](uint32_t slot) { use(slot); });
  }
  void placed(Rows& /*rows*/, uint32_t slot) override { use(slot); }
  void forgotten(uint32_t slot) override { used_at_[slot] = kNone; }
  uint32_t victim(Rows& /*rows*/) override {
    while (head_ < tail_) {
      const uint32_t slot = queue_[head_];
      if (used_at_[slot] == head_) return slot;
      ++head_;
    }
    return kNone;
  }
  [[nodiscard]] uint64_t bytes() const override { return used_at_.bytes() + queue_.bytes(); }

 private:
  static constexpr uint64_t kSlack = 64;

  // The rows that are about to leave stand in the queue in order.
  void look_ahead(const Rows& rows) const {
    constexpr uint64_t kRow = 8, kSlot = 16;
    if (head_ + kSlot < tail_) {
      const uint32_t slot = queue_[head_ + kSlot];
      __builtin_prefetch(&used_at_[slot], 1, 3);
      rows.ahead_of_slot(slot);
    }
    if (head_ + kRow < tail_) rows.ahead_of_row(queue_[head_ + kRow]);
  }

  void use(uint32_t slot) {
    if (tail_ == queue_.size()) compact();
    queue_[tail_] = slot;
    used_at_[slot] = static_cast<uint32_t>(tail_++);
  }
  // At most one entry a slot is alive, so at least half of the queue is free afterwards.
  void compact() {
    uint64_t to = 0;
    for (uint64_t i = head_; i < tail_; ++i) {
      const uint32_t slot = queue_[i];
      if (used_at_[slot] != i) continue;
      queue_[to] = slot;
      used_at_[slot] = static_cast<uint32_t>(to++);
    }
    head_ = 0;
    tail_ = to;
  }

  Block<uint32_t> used_at_;  // where in the queue a slot's last use stands
  Block<uint32_t> queue_;
  uint64_t head_ = 0, tail_ = 0;
};

}  // namespace
std::unique_ptr<Policy> make_lru(uint64_t capacity) { return std::make_unique<Lru>(capacity); }
}  // namespace sculler::steer
