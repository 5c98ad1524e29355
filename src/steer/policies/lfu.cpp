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
    const auto leaving = [&] {
      const uint32_t slot = levels_.lowest(rows);
      levels_.remove(slot);
      return slot;
    };
    admit_all(rows, plan, leaving, [&](uint32_t slot) { levels_.push(slot, 1.0F); });
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
