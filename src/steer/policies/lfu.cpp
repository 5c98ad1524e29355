// Least frequently used: every missed row comes in and starts at one; the lowest count leaves,
// among equals the one that has been at its level longest.
#include "steer/levels.h"
#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Lfu final : public Policy {
 public:
  explicit Lfu(uint64_t capacity) : levels_(capacity) {}
  [[nodiscard]] Touch touch() const override { return Touch::kResident; }

  void minibatch(Rows& rows, Plan& plan) override {
    if (rows.limit() == 0) return;
    for (uint64_t miss = 0; miss < plan.missed().size(); ++miss) {
      rows.ahead(plan, miss);
      if (rows.holds(plan.missed_id(miss))) continue;
      uint32_t slot;
      if (rows.has_room()) {
        slot = rows.free_slot();
      } else {
        slot = levels_.lowest(rows);
        levels_.remove(slot);
      }
      rows.put(plan, miss, slot);
      levels_.push(slot, 1.0F);
    }
  }
  void placed(Rows& rows, uint32_t slot) override { levels_.push(slot, rows.mark(slot)); }
  void forgotten(uint32_t slot) override { levels_.remove(slot); }
  uint32_t victim(Rows& rows) override { return levels_.lowest(rows); }
  [[nodiscard]] uint64_t bytes() const override { return levels_.bytes(); }

 private:
  Levels levels_;
};

}  // namespace
std::unique_ptr<Policy> make_lfu(uint64_t capacity) { return std::make_unique<Lfu>(capacity); }
}  // namespace sculler::steer
