#include "emu/check/sync.h"

namespace sculler::emu::check {

SyncVar& SyncTable::get(uint64_t key) {
  if (SyncVar* var = find(key)) return *var;
  if ((used_ + 1) * 2 > index_.size()) rehash(index_.size() * 2);
  uint32_t number;
  if (!free_.empty()) {
    number = free_.back();
    free_.pop_back();
  } else {
    number = static_cast<uint32_t>(vars_.size());
    vars_.emplace_back();
  }
  vars_[number].key = key;
  size_t at = hash(key) & mask();
  while (index_[at].var != 0) at = (at + 1) & mask();
  index_[at] = {key, number + 1};
  ++used_;
  return vars_[number];
}

void SyncTable::rehash(size_t size) {
  std::vector<Entry> old(size);
  old.swap(index_);
  for (const Entry& entry : old) {
    if (entry.var == 0) continue;
    size_t at = hash(entry.key) & mask();
    while (index_[at].var != 0) at = (at + 1) & mask();
    index_[at] = entry;
  }
}

void SyncTable::erase(uint64_t key) {
  size_t at = hash(key) & mask();
  while (index_[at].var != 0 && index_[at].key != key) at = (at + 1) & mask();
  if (index_[at].var == 0) return;
  vars_[index_[at].var - 1] = SyncVar{};
  free_.push_back(index_[at].var - 1);
  --used_;
  // Close the gap, so that no later key of the same chain is lost.
  for (size_t next = (at + 1) & mask(); index_[next].var != 0; next = (next + 1) & mask()) {
    const size_t home = hash(index_[next].key) & mask();
    if (((next - home) & mask()) >= ((next - at) & mask())) {
      index_[at] = index_[next];
      at = next;
    }
  }
  index_[at] = {};
}

void SyncTable::erase_range(uint64_t begin, uint64_t end) {
  std::vector<uint64_t> keys;
  for (const Entry& entry : index_) {
    if (entry.var != 0 && entry.key >= begin && entry.key < end) keys.push_back(entry.key);
  }
  for (const uint64_t key : keys) erase(key);
}

}  // namespace sculler::emu::check
