// S3-FIFO (Yang et al., SOSP 2023): a small queue for new rows, a main queue for rows that were hit
// twice there or that came back soon, and a ghost queue of ids that left the small one.
#include <algorithm>

#include "steer/policies/policies.h"
#include "steer/slot_lists.h"

namespace sculler::steer {
namespace {

// The ids that left last, oldest forgotten first.
class Ghost {
 public:
  explicit Ghost(uint64_t most) : most_(most), table_(most + 1), ring_(most, kNoId) {}
  void add(uint64_t id) {
    if (most_ == 0) return;
    uint64_t& place = ring_[at_];
    if (place != kNoId) {
      // An id that came back and left again stands in the ring twice; its younger place counts.
      Entry* e = table_.find(place);
      if (e != nullptr && e->slot == at_) table_.erase(*e);
    }
    place = id;
    Entry& e = table_.probe(table_.line_of(id), id);
    if (e.id == kNoId) table_.take(e, id);
    e.slot = static_cast<uint32_t>(at_);
    if (++at_ == most_) at_ = 0;
  }
  bool remove(uint64_t id) {
    Entry* e = table_.find(id);
    if (e == nullptr) return false;
    table_.erase(*e);
    return true;
  }
  [[nodiscard]] uint64_t bytes() const { return table_.bytes() + ring_.bytes(); }

 private:
  uint64_t most_, at_ = 0;
  Table table_;  // slot: the place in the ring
  Block<uint64_t> ring_;
};

class S3Fifo final : public Policy {
 public:
  explicit S3Fifo(uint64_t capacity)
      : lists_(capacity), hits_(capacity), in_main_(capacity), ghost_(capacity - capacity / 10) {}

  void minibatch(Rows& rows, Plan& plan) override {
    for (const uint32_t slot : plan.slot())
      if (slot != kNone && hits_[slot] < 3) ++hits_[slot];
    if (rows.limit() == 0) return;
    for (uint64_t miss = 0; miss < plan.missed().size(); ++miss) {
      rows.ahead(plan, miss);
      const uint64_t id = plan.missed_id(miss);
      if (rows.holds(id)) continue;
      const bool back = ghost_.remove(id);
      uint32_t slot;
      if (rows.has_room()) {
        slot = rows.free_slot();
      } else {
        slot = victim(rows);
        if (in_main_[slot] == 0) ghost_.add(rows.id(slot));
        forgotten(slot);
      }
      rows.put(plan, miss, slot);
      enter(slot, back);
    }
  }
  void placed(Rows& /*rows*/, uint32_t slot) override { enter(slot, false); }
  void forgotten(uint32_t slot) override {
    lists_.remove(in_main_[slot] != 0 ? main_ : small_, slot);
  }
  uint32_t victim(Rows& rows) override {
    const uint64_t small_share = std::max<uint64_t>(1, rows.limit() / 10);
    for (;;) {
      if (small_.size >= small_share || main_.size == 0) {
        const uint32_t slot = small_.tail;  // one of the two queues has a row
        if (hits_[slot] <= 1) return slot;
        promote(slot);
        continue;
      }
      const uint32_t slot = main_.tail;
      if (hits_[slot] == 0) return slot;
      --hits_[slot];
      lists_.remove(main_, slot);
      lists_.push(main_, slot);
    }
  }
  [[nodiscard]] uint64_t bytes() const override {
    return lists_.bytes() + hits_.bytes() + in_main_.bytes() + ghost_.bytes();
  }

 private:
  void enter(uint32_t slot, bool main) {
    in_main_[slot] = main ? 1 : 0;
    hits_[slot] = 0;
    lists_.push(main ? main_ : small_, slot);
  }
  void promote(uint32_t slot) {
    lists_.remove(small_, slot);
    enter(slot, true);
  }

  SlotLists lists_;
  SlotLists::List small_, main_;
  Block<uint8_t> hits_, in_main_;
  Ghost ghost_;
};

}  // namespace
std::unique_ptr<Policy> make_s3fifo(uint64_t capacity) {
  return std::make_unique<S3Fifo>(capacity);
}
}  // namespace sculler::steer
