// What one minibatch asks of its caller: which rows lie where, which to fetch, where to keep them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "steer/table.h"

namespace sculler::steer {

// Order of execution: gather the hits; fetch `missed` and `extra` in one request; write the fetched
// rows to `into` and `extra_slot`. Plans of one buffer are executed in the order in which they were
// made; hits speak of what the slots hold before the plan's writes. No slot is written twice.
class Plan {
 public:
  // One a position of the minibatch: the slot of a hit, kNone for a miss.
  [[nodiscard]] std::span<const uint32_t> slot() const { return {slot_.data(), ids_.size()}; }
  // Positions of the misses in the minibatch, ascending.
  [[nodiscard]] std::span<const uint32_t> missed() const { return {missed_.data(), n_missed_}; }
  // One a miss: the slot that keeps the row, or kNone.
  [[nodiscard]] std::span<const uint32_t> into() const { return {into_.data(), n_missed_}; }
  // Rows to fetch that the minibatch did not ask for, and their slots.
  [[nodiscard]] std::span<const uint64_t> extra() const { return extra_; }
  [[nodiscard]] std::span<const uint32_t> extra_slot() const { return extra_slot_; }

  [[nodiscard]] uint64_t ids() const { return ids_.size(); }
  [[nodiscard]] uint64_t hits() const { return ids_.size() - n_missed_; }
  // Rows that left the buffer; a row that came and left within the plan does not count.
  [[nodiscard]] uint64_t evicted() const { return evicted_; }
  // Missed rows that stay, and extra rows.
  [[nodiscard]] uint64_t admitted() const { return admitted_ + extra_.size(); }
  [[nodiscard]] uint64_t fetched() const { return n_missed_ + extra_.size(); }

  // Memory: 16 bytes an id of the longest minibatch, 12 an extra row of the plan with most.
  [[nodiscard]] uint64_t bytes() const {
    return slot_.capacity() * 16 + extra_.capacity() * 8 + extra_slot_.capacity() * 4;
  }

  // For policies.
  [[nodiscard]] uint64_t id(uint64_t position) const { return ids_[position]; }
  [[nodiscard]] uint64_t missed_id(uint64_t miss) const { return ids_[missed_[miss]]; }
  // The mark of a missed id, this access counted.
  [[nodiscard]] float mark(uint64_t miss) const { return mark_[miss]; }

 private:
  friend class Rows;
  void begin(std::span<const uint64_t> ids) {
    ids_ = ids;
    n_missed_ = 0;
    evicted_ = admitted_ = 0;
    extra_.clear();
    extra_slot_.clear();
    if (slot_.size() >= ids.size()) return;
    missed_.resize(ids.size());
    into_.resize(ids.size());
    mark_.resize(ids.size());
    slot_.resize(ids.size());  // last: its size says that all are as long, also after bad_alloc
  }

  std::span<const uint64_t> ids_;  // the caller's, for the length of one call
  uint64_t n_missed_ = 0, evicted_ = 0, admitted_ = 0;
  // As long as the largest minibatch so far.
  std::vector<uint32_t> slot_, missed_, into_;
  std::vector<float> mark_;
  std::vector<uint64_t> extra_;
  std::vector<uint32_t> extra_slot_;
};

}  // namespace sculler::steer
