#include "steer/rows.h"

#include <algorithm>
#include <functional>

namespace sculler::steer {

namespace {
// How far ahead of the probe a line is asked for: enough to have every line fill buffer in use.
constexpr uint64_t kAhead = 40;
}  // namespace

Rows::Rows(uint64_t capacity, uint64_t max_tracked)
    : limit_(capacity),
      max_tracked_(std::max(max_tracked, 2 * capacity + 64)),
      table_(capacity),
      slot_id_(capacity, kNoId),
      admitted_by_(capacity, kNone) {}

void Rows::set_touch(Touch touch) {
  const bool tracked = tracks();
  touch_ = touch;
  // Marks of another policy mean something else.
  weight_ = 1;
  if (tracked && !tracks()) {
    table_ = Table(capacity());
    for (uint64_t s = 0; s < fresh_; ++s)
      if (slot_id_[s] != kNoId) occupy(slot_id_[s], static_cast<uint32_t>(s));
  }
  table_.each([](Entry& e) { e.mark = e.slot == kNone ? 0.0F : 1.0F; });
}

template <Touch touch>
void Rows::look_as(std::span<const uint64_t> ids, Plan& plan) {
  constexpr bool tracking = touch == Touch::kAll || touch == Touch::kMissed;
  const uint64_t n = ids.size();
  uint64_t lines[kAhead];
  for (uint64_t i = 0; i < std::min(kAhead, n); ++i) {
    lines[i] = table_.line_of(ids[i]);
    table_.prefetch(lines[i]);
  }
  uint32_t* slots = plan.slot_.data();
  uint32_t* missed = plan.missed_.data();
  float* marks = plan.mark_.data();
  const float weight = weight_;
  uint64_t m = 0, ring = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t line = lines[ring];
    if (i + kAhead < n) {
      lines[ring] = table_.line_of(ids[i + kAhead]);
      table_.prefetch(lines[ring]);
    }
    if (++ring == kAhead) ring = 0;
    Entry* e = &table_.probe(line, ids[i]);
    if constexpr (tracking) {
      if (e->id == kNoId) [[unlikely]] {
        if (table_.full()) {
          make_room();
          for (uint64_t j = i + 1; j < std::min(n, i + 1 + kAhead); ++j)
            lines[(ring + j - i - 1) % kAhead] = table_.line_of(ids[j]);
          e = &table_.probe(table_.line_of(ids[i]), ids[i]);
        }
        table_.take(*e, ids[i]);
      }
    }
    const uint32_t s = e->slot;
    if constexpr (touch == Touch::kAll) e->mark += weight;
    if constexpr (touch == Touch::kMissed) e->mark += s == kNone ? weight : 0.0F;
    if constexpr (touch == Touch::kResident) e->mark += s == kNone ? 0.0F : weight;
    slots[i] = s;
    missed[m] = static_cast<uint32_t>(i);
    marks[m] = e->mark;
    m += s == kNone ? 1 : 0;
  }
  plan.n_missed_ = m;
  std::fill_n(plan.into_.begin(), m, kNone);
}

void Rows::look(std::span<const uint64_t> ids, Plan& plan) {
  plan.begin(ids);
  switch (touch_) {
    case Touch::kNothing: return look_as<Touch::kNothing>(ids, plan);
    case Touch::kResident: return look_as<Touch::kResident>(ids, plan);
    case Touch::kAll: return look_as<Touch::kAll>(ids, plan);
    case Touch::kMissed: return look_as<Touch::kMissed>(ids, plan);
  }
}

// Doubles the table up to the bound; at the bound the lower half of what lies outside the buffer
// is forgotten, so that the next time is at least a quarter of the table away.
void Rows::make_room() {
  if (table_.most() < max_tracked_) {
    refill(std::min(max_tracked_, 2 * table_.most() + 64), 0, UINT64_MAX);
    return;
  }
  std::vector<float> marks;
  marks.reserve(table_.size());
  table_.each([&](const Entry& e) {
    if (e.slot == kNone) marks.push_back(e.mark);
  });
  const uint64_t keep = marks.size() / 2;  // the bound is twice the capacity: there are many
  const auto middle = marks.begin() + static_cast<int64_t>(keep - 1);
  std::nth_element(marks.begin(), middle, marks.end(), std::greater<>());
  const float least = *middle;
  const auto above = std::count_if(marks.begin(), marks.end(), [&](float m) { return m > least; });
  refill(max_tracked_, least, keep - static_cast<uint64_t>(above));
}

// Of the ids outside the buffer those above `least` stay, and `of_least` of those that equal it.
void Rows::refill(uint64_t entries, float least, uint64_t of_least) {
  table_ = table_.rebuilt(entries, [&](const Entry& e) {
    if (e.slot != kNone || e.mark > least) return true;
    if (e.mark < least || of_least == 0) return false;
    --of_least;
    return true;
  });
}

uint32_t Rows::free_slot() {
  if (!freed_.empty()) return freed_.back();
  return static_cast<uint32_t>(fresh_);
}

void Rows::occupy(uint64_t id, uint32_t slot) {
  Entry* e = &table_.probe(table_.line_of(id), id);
  if (e->id == kNoId) {
    if (table_.full()) {
      make_room();
      e = &table_.probe(table_.line_of(id), id);
    }
    table_.take(*e, id);
    e->mark = weight_;
  }
  e->slot = slot;
}

void Rows::evict(Plan& plan, uint32_t slot) {
  const uint32_t miss = admitted_by_[slot];
  if (miss < plan.n_missed_ && plan.into_[miss] == slot) {
    plan.into_[miss] = kNone;  // came and leaves within this plan
    --plan.admitted_;
  } else {
    ++plan.evicted_;
  }
  unindex(slot);
}

void Rows::unindex(uint32_t slot) {
  Entry* e = table_.find(slot_id_[slot]);
  if (tracks()) e->slot = kNone;
  else table_.erase(*e);
}

void Rows::put(Plan& plan, uint64_t miss, uint32_t slot) {
  place(plan, plan.missed_id(miss), slot);
  plan.into_[miss] = slot;
  ++plan.admitted_;
  admitted_by_[slot] = static_cast<uint32_t>(miss);
}

void Rows::put_extra(Plan& plan, uint64_t id, uint32_t slot) {
  place(plan, id, slot);
  admitted_by_[slot] = kNone;
  plan.extra_.push_back(id);
  plan.extra_slot_.push_back(slot);
}

void Rows::place(Plan& plan, uint64_t id, uint32_t slot) {
  if (slot_id_[slot] != kNoId) {
    evict(plan, slot);
  } else {
    if (slot == fresh_) ++fresh_;
    else freed_.pop_back();
    ++used_;
  }
  slot_id_[slot] = id;
  occupy(id, slot);
}

void Rows::drop(uint32_t slot) {
  unindex(slot);
  slot_id_[slot] = kNoId;
  freed_.push_back(slot);
  --used_;
}

void Rows::scale_marks(float factor) {
  table_.each([&](Entry& e) { e.mark *= factor; });
}

uint64_t Rows::bytes() const {
  return table_.bytes() + slot_id_.bytes() + admitted_by_.bytes() +
         freed_.capacity() * sizeof(uint32_t);
}

}  // namespace sculler::steer
