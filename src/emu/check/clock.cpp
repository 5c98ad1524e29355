#include "emu/check/clock.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>

namespace sculler::emu::check {

uint32_t ClockRef::of(uint32_t slot, uint32_t warp) const {
  const auto known = entries();
  const uint32_t first = all_warps(slot), own = one_warp(slot, warp);
  auto at = std::lower_bound(known.begin(), known.end(), first,
                             [](const ClockEntry& entry, uint32_t key) { return entry.key < key; });
  uint32_t count = 0;
  for (; at != known.end() && at->key <= own; ++at) {
    if (at->key == first || at->key == own) count = std::max(count, at->count);
  }
  return count;
}

ClockRef ClockPool::make(std::span<const ClockEntry> sorted) {
  if (sorted.empty()) return ClockRef{};
  const auto size = static_cast<uint32_t>(sorted.size());
  const uint32_t size_class =
      std::max<uint32_t>(2, static_cast<uint32_t>(std::bit_width(size - 1)));
  Clock* clock = free_[size_class];
  if (clock != nullptr) {
    // The free list runs through the entries.
    free_[size_class] = *reinterpret_cast<Clock**>(clock->data());
  } else {
    const size_t bytes = sizeof(Clock) + (size_t{1} << size_class) * sizeof(ClockEntry);
    const size_t n = std::max<size_t>(1, 65536 / bytes);
    blocks_.push_back(std::make_unique<std::byte[]>(n * bytes));
    bytes_ += n * bytes;
    std::byte* memory = blocks_.back().get();
    for (size_t i = n; i-- > 1;) {
      auto* spare = new (memory + i * bytes) Clock{this, 0, 0, size_class, 0};
      *reinterpret_cast<Clock**>(spare->data()) = free_[size_class];
      free_[size_class] = spare;
    }
    clock = new (memory) Clock{this, 0, 0, size_class, 0};
  }
  clock->references = 1;
  clock->size = size;
  std::copy(sorted.begin(), sorted.end(), clock->data());
  return ClockRef{clock};
}

void ClockPool::recycle(Clock* clock) {
  *reinterpret_cast<Clock**>(clock->data()) = free_[clock->size_class];
  free_[clock->size_class] = clock;
}

ClockRef ClockPool::join(const ClockRef& a, const ClockRef& b) {
  if (a == b || b.size() == 0) return a;
  if (a.size() == 0) return b;
  return join(a, a.entries(), b.entries());
}

ClockRef ClockPool::join(const ClockRef& a, std::span<const ClockEntry> extra) {
  sorted_.assign(extra.begin(), extra.end());
  std::sort(sorted_.begin(), sorted_.end(),
            [](const ClockEntry& x, const ClockEntry& y) { return x.key < y.key; });
  return join(a, a.entries(), sorted_);
}

ClockRef ClockPool::join(const ClockRef& a, std::span<const ClockEntry> left,
                         std::span<const ClockEntry> right) {
  if (scratch_.size() < left.size() + right.size())
    scratch_.resize(2 * (left.size() + right.size()));
  ClockEntry* out = scratch_.data();
  bool grew = false;
  uint32_t slot = 0, level = 0;  // of the last entry that speaks of a whole block
  // A warp's own entry says nothing where its block's reaches as far.
  const auto idle = [&](const ClockEntry& entry) {
    if ((entry.key & 63u) != 0) return entry.key >> 6 == slot && entry.count <= level;
    slot = entry.key >> 6;
    level = entry.count;
    return false;
  };
  const ClockEntry* x = left.data();
  const ClockEntry* y = right.data();
  const ClockEntry* const x_end = x + left.size();
  const ClockEntry* const y_end = y + right.size();
  while (x != x_end && y != y_end) {
    if (x->key == y->key) {
      const ClockEntry both{x->key, std::max(x->count, y->count)};
      grew |= y->count > x->count;
      ++x;
      ++y;
      if (!idle(both)) *out++ = both;
    } else if (x->key < y->key) {
      if (!idle(*x)) *out++ = *x;
      ++x;
    } else {
      if (!idle(*y)) {
        *out++ = *y;
        grew = true;
      }
      ++y;
    }
  }
  for (; x != x_end; ++x) {
    if (!idle(*x)) *out++ = *x;
  }
  for (; y != y_end; ++y) {
    if (idle(*y)) continue;
    *out++ = *y;
    grew = true;
  }
  return grew ? make({scratch_.data(), static_cast<size_t>(out - scratch_.data())}) : a;
}

}  // namespace sculler::emu::check
