// Open addressing over cache lines: four entries of 16 bytes a line, so that an id, the slot it
// lies in and its mark cost one cache miss together. Lines are probed in order.
#pragma once

#include <bit>
#include <cstdint>

#include "steer/memory.h"

namespace sculler::steer {

inline constexpr uint32_t kNone = UINT32_MAX;            // no slot
inline constexpr uint64_t kNoId = UINT64_MAX;            // a free entry, a free slot
inline constexpr uint64_t kMaxId = uint64_t{1} << 63;    // the largest id
inline constexpr uint64_t kMaxRows = uint64_t{1} << 31;  // the largest capacity

struct Entry {
  uint64_t id;
  uint32_t slot;
  float mark;  // what the policy counts of this id: accesses, misses, decayed or not
};
static_assert(sizeof(Entry) == 16);
inline constexpr Entry kFreeEntry{kNoId, kNone, 0};

class Table {
 public:
  static constexpr uint64_t kLine = 4;

  // Room for `entries` at a load of 0.75.
  explicit Table(uint64_t entries = 0)
      : lines_(lines_for(entries)),
        most_(lines_ * kLine * 3 / 4),
        entries_(lines_ * kLine, kFreeEntry) {}

  [[nodiscard]] uint64_t line_of(uint64_t id) const {
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{h} * lines_) >> 64);
  }
  void prefetch(uint64_t line) const { __builtin_prefetch(&entries_[line * kLine], 1, 3); }

  // The entry of `id`, or the free one where it belongs.
  [[nodiscard]] Entry& probe(uint64_t line, uint64_t id) {
    for (;;) {
      Entry* e = &entries_[line * kLine];
      const unsigned match = which(e, id);
      if (match != 0) return e[std::countr_zero(match)];
      const unsigned empty = which(e, kNoId);
      if (empty != 0) return e[std::countr_zero(empty)];
      if (++line == lines_) line = 0;
    }
  }
  [[nodiscard]] Entry* find(uint64_t id) {
    Entry& e = probe(line_of(id), id);
    return e.id == id ? &e : nullptr;
  }
  // `free` comes from probe(); full() must be false.
  void take(Entry& free, uint64_t id) {
    free.id = id;
    ++size_;
  }
  // Moves other entries: pointers to entries end here.
  void erase(Entry& entry);

  [[nodiscard]] bool full() const { return size_ >= most_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  // How many entries it takes.
  [[nodiscard]] uint64_t most() const { return most_; }
  [[nodiscard]] uint64_t bytes() const { return entries_.bytes(); }

  // A table with room for `entries`, with the entries for which keep(entry) says so.
  template <class Keep>
  [[nodiscard]] Table rebuilt(uint64_t entries, Keep&& keep) const {
    Table next(entries);
    for (uint64_t i = 0; i < entries_.size(); ++i) {
      const Entry& e = entries_[i];
      if (e.id == kNoId || !keep(e)) continue;
      Entry& to = next.probe(next.line_of(e.id), e.id);
      next.take(to, e.id);
      to.slot = e.slot;
      to.mark = e.mark;
    }
    return next;
  }
  template <class F>
  void each(F&& f) {
    for (uint64_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].id != kNoId) f(entries_[i]);
  }

 private:
  static constexpr uint64_t lines_for(uint64_t entries) { return entries / 3 + 2; }
  static unsigned which(const Entry* e, uint64_t id) {
    return static_cast<unsigned>(e[0].id == id) | static_cast<unsigned>(e[1].id == id) << 1 |
           static_cast<unsigned>(e[2].id == id) << 2 | static_cast<unsigned>(e[3].id == id) << 3;
  }

  uint64_t lines_, most_, size_ = 0;
  Block<Entry> entries_;
};

}  // namespace sculler::steer
