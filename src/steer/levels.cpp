#include "steer/levels.h"

namespace sculler::steer {

void Levels::append(uint32_t slot, uint32_t level) {
  uint32_t& last = last_[level];
  if (last == kNone) {
    next_[slot] = before_[slot] = slot;
    words_[level / 64] |= uint64_t{1} << (level % 64);
    if (level < low_) low_ = level;
  } else {
    const uint32_t first = next_[last];
    next_[slot] = first;
    before_[slot] = last;
    next_[last] = before_[first] = slot;
  }
  last = slot;
  at_[slot] = static_cast<uint16_t>(level);
}

void Levels::remove(uint32_t slot) {
  const uint32_t level = at_[slot];
  if (level == kOut) return;
  at_[slot] = kOut;
  if (next_[slot] == slot) {
    last_[level] = kNone;
    words_[level / 64] &= ~(uint64_t{1} << (level % 64));
    return;
  }
  next_[before_[slot]] = next_[slot];
  before_[next_[slot]] = before_[slot];
  if (last_[level] == slot) last_[level] = before_[slot];
}

void Levels::clear() {
  for (uint64_t s = 0; s < at_.size(); ++s) at_[s] = kOut;
  for (uint32_t l = 0; l < kCount; ++l) last_[l] = kNone;
  for (uint64_t w = 0; w < words_.size(); ++w) words_[w] = 0;
  low_ = 0;
}

uint32_t Levels::first_level() {
  for (uint32_t w = low_ / 64; w < kCount / 64; ++w) {
    if (words_[w] == 0) continue;
    low_ = w * 64 + static_cast<uint32_t>(std::countr_zero(words_[w]));
    return low_;
  }
  return kCount;
}

float Levels::bound() {
  const uint32_t level = first_level();
  return level == kCount ? 0.0F : std::bit_cast<float>(level << 16);
}

uint32_t Levels::lowest(Rows& rows) {
  for (;;) {
    const uint32_t level = first_level();
    if (level == kCount) return kNone;
    const uint32_t slot = next_[last_[level]];
    const uint32_t now = level_of(rows.mark(slot));
    if (now <= level) return slot;
    remove(slot);
    append(slot, now);
  }
}

}  // namespace sculler::steer
