// Slots by their mark, lowest first, while marks only grow: a hit costs nothing here. A slot stands
// where its mark was when it was last looked at and is moved up when it comes up as the lowest, at
// most once a hit.
#pragma once

#include <bit>
#include <cstdint>

#include "steer/rows.h"

namespace sculler::steer {

// Marks are positive floats; a level is their 15 upper bits: exact up to 256, then to 1 in 128.
class Levels {
 public:
  explicit Levels(uint64_t capacity)
      : next_(capacity, kNone),
        before_(capacity, kNone),
        at_(capacity, kOut),
        last_(kCount, kNone),
        words_(kCount / 64) {}

  static uint32_t level_of(float mark) { return std::bit_cast<uint32_t>(mark) >> 16; }

  // The slot must be out.
  void push(uint32_t slot, float mark) { append(slot, level_of(mark)); }
  // A slot that is out already stays out.
  void remove(uint32_t slot);
  void clear();
  // The slot of the lowest mark, oldest first among equals; kNone where there is none.
  [[nodiscard]] uint32_t lowest(Rows& rows);
  // No mark is below it: a bound that costs no look at a row.
  [[nodiscard]] float bound();
  [[nodiscard]] uint64_t bytes() const {
    return next_.bytes() + before_.bytes() + at_.bytes() + last_.bytes() + words_.bytes();
  }

 private:
  static constexpr uint32_t kCount = 1U << 15;
  static constexpr uint16_t kOut = UINT16_MAX;
  void append(uint32_t slot, uint32_t level);
  uint32_t first_level();

  // Circular doubly linked lists: last_[level] is the youngest, its next the oldest.
  Block<uint32_t> next_, before_;
  Block<uint16_t> at_;  // the level of a slot
  Block<uint32_t> last_;
  Block<uint64_t> words_;  // a bit a level that is not empty
  uint32_t low_ = 0;       // no level below this one is occupied
};

}  // namespace sculler::steer
