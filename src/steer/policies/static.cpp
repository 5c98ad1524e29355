// What was preloaded stays, nothing else comes in: static degree and static VIP, as the caller
// ranked the rows, and `none`, to which nothing is preloaded.
#include "steer/policies/policies.h"

namespace sculler::steer {
namespace {

class Static final : public Policy {
 public:
  void minibatch(Rows& /*rows*/, Plan& /*plan*/) override {}
  void placed(Rows& /*rows*/, uint32_t /*slot*/) override {}
  void forgotten(uint32_t /*slot*/) override {}
  // The highest slot: preloading puts the best into the lowest. `top_` falls while a buffer
  // shrinks, so that a shrink is one walk.
  uint32_t victim(Rows& rows) override {
    if (top_ > rows.capacity() || top_ < rows.used()) top_ = rows.capacity();
    for (int pass = 0; pass < 2; ++pass, top_ = rows.capacity()) {
      while (top_ > 0) {
        --top_;
        if (rows.id(static_cast<uint32_t>(top_)) != kNoId) return static_cast<uint32_t>(top_);
      }
    }
    return kNone;
  }
  [[nodiscard]] uint64_t bytes() const override { return sizeof *this; }

 private:
  uint64_t top_ = UINT64_MAX;
};

}  // namespace
std::unique_ptr<Policy> make_static() { return std::make_unique<Static>(); }
}  // namespace sculler::steer
