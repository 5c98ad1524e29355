// Which rows lie in which slots, and what is counted of ids that do not. Policies decide; this
// keeps the index right: never over the limit, no id twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "steer/plan.h"
#include "steer/table.h"

namespace sculler::steer {

// What a lookup does to the marks.
enum class Touch {
  kNothing,   // only rows in the buffer have an entry
  kResident,  // marks of rows in the buffer grow
  kAll,       // every id seen has an entry (bounded), and its mark grows
  kMissed,    // every id seen has an entry, and its mark grows when it is missed
};

class Rows {
 public:
  // `max_tracked` bounds the entries of Touch::kAll and kMissed; it is raised to twice the capacity
  // where it is less. What is beyond it is forgotten, lowest marks first.
  Rows(uint64_t capacity, uint64_t max_tracked);

  void set_touch(Touch touch);
  // What an access adds to a mark from now on.
  void set_weight(float weight) { weight_ = weight; }
  [[nodiscard]] float weight() const { return weight_; }
  // Fills the plan's slots and misses.
  void look(std::span<const uint64_t> ids, Plan& plan);
  // A plan that looks up nothing, for rows put in unasked.
  static void begin_empty(Plan& plan) { plan.begin({}); }

  [[nodiscard]] uint64_t capacity() const { return slot_id_.size(); }
  [[nodiscard]] uint64_t limit() const { return limit_; }
  void set_limit(uint64_t limit) { limit_ = limit < capacity() ? limit : capacity(); }
  [[nodiscard]] uint64_t used() const { return used_; }
  [[nodiscard]] bool has_room() const { return used_ < limit_; }
  // The id in a slot, kNoId in a free one.
  [[nodiscard]] uint64_t id(uint32_t slot) const { return slot_id_[slot]; }
  [[nodiscard]] bool holds(uint64_t id) {
    const Entry* e = table_.find(id);
    return e != nullptr && e->slot != kNone;
  }
  [[nodiscard]] Entry* find(uint64_t id) { return table_.find(id); }
  // The mark of the row in an occupied slot.
  [[nodiscard]] float mark(uint32_t slot) { return table_.find(slot_id_[slot])->mark; }
  void set_mark(uint32_t slot, float mark) { table_.find(slot_id_[slot])->mark = mark; }

  // A free slot; only where has_room().
  [[nodiscard]] uint32_t free_slot();
  // The missed row `miss` of the plan goes into `slot`, whose row leaves. The id must not lie in
  // the buffer (holds()).
  void put(Plan& plan, uint64_t miss, uint32_t slot);
  // A row that is fetched beyond the minibatch; as put().
  void put_extra(Plan& plan, uint64_t id, uint32_t slot);
  // Frees an occupied slot.
  void drop(uint32_t slot);

  // For loops over misses and victims: what they will touch a few places on is asked for now.
  void ahead(const Plan& plan, uint64_t miss) const {
    constexpr uint64_t kNext = 8;
    if (miss + kNext < plan.missed().size())
      table_.prefetch(table_.line_of(plan.missed_id(miss + kNext)));
  }
  void ahead_of_slot(uint32_t slot) const { __builtin_prefetch(&slot_id_[slot], 1, 3); }
  void ahead_of_row(uint32_t slot) const {
    if (slot_id_[slot] != kNoId) table_.prefetch(table_.line_of(slot_id_[slot]));
  }

  // Multiplies every mark.
  void scale_marks(float factor);
  template <class F>
  void each_entry(F&& f) {
    table_.each(f);
  }
  [[nodiscard]] uint64_t bytes() const;

 private:
  template <Touch touch>
  void look_as(std::span<const uint64_t> ids, Plan& plan);
  [[nodiscard]] bool tracks() const { return touch_ == Touch::kAll || touch_ == Touch::kMissed; }
  void make_room();
  void refill(uint64_t entries, float least, uint64_t of_least);
  void evict(Plan& plan, uint32_t slot);
  // The id in `slot` lies in the buffer no more; its count stays where ids outside are counted.
  void unindex(uint32_t slot);
  // What put() and put_extra() do alike.
  void place(Plan& plan, uint64_t id, uint32_t slot);
  void occupy(uint64_t id, uint32_t slot);

  Touch touch_ = Touch::kNothing;
  float weight_ = 1;
  uint64_t limit_, used_ = 0, fresh_ = 0, max_tracked_;
  Table table_;
  Block<uint64_t> slot_id_;
  Block<uint32_t> admitted_by_;  // the miss of the current plan that filled a slot, where it did
  std::vector<uint32_t> freed_;
};

}  // namespace sculler::steer
