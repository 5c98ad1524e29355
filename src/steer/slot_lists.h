// Several queues over the same slots: each slot is in one of them at most; all operations O(1).
#pragma once

#include <cstdint>

#include "steer/table.h"

namespace sculler::steer {

class SlotLists {
 public:
  // The ends of one queue. Young slots are pushed at the head; the tail is the oldest.
  struct List {
    uint32_t head = kNone, tail = kNone;
    uint64_t size = 0;
  };

  explicit SlotLists(uint64_t capacity) : younger_(capacity, kNone), older_(capacity, kNone) {}

  void push(List& list, uint32_t slot) {
    younger_[slot] = kNone;
    older_[slot] = list.head;
    if (list.head != kNone) younger_[list.head] = slot;
    else list.tail = slot;
    list.head = slot;
    ++list.size;
  }
  void remove(List& list, uint32_t slot) {
    const uint32_t younger = younger_[slot], older = older_[slot];
    (younger != kNone ? older_[younger] : list.head) = older;
    (older != kNone ? younger_[older] : list.tail) = younger;
    --list.size;
  }
  [[nodiscard]] uint32_t younger(uint32_t slot) const { return younger_[slot]; }
  [[nodiscard]] uint64_t bytes() const { return younger_.bytes() + older_.bytes(); }

 private:
  Block<uint32_t> younger_, older_;
};

}  // namespace sculler::steer
