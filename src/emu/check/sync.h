// Synchronisation through memory: what an acquire or relaxed read of an address may learn.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/check/clock.h"
#include "emu/check/observer.h"

namespace sculler::emu::check {

// All that an actor knew at some moment, its own doings included; taking one costs no allocation.
struct Snapshot {
  ClockRef known;
  uint32_t slot = 0;  // 0: `known` holds everything
  uint32_t warp = 0;
  uint32_t count = 0;
  uint32_t base = 0;  // every warp of the block up to here
  bool valid = false;
};

// A release (or the fence before a relaxed write) that heads a release sequence on an address.
struct Release {
  Snapshot what;
  uint8_t level = 0;  // 0 block, 1 device, 2 system: the narrowest scope of the pattern
  int rank = -1;
  uint32_t slot = 0;  // kMixed where several blocks' are joined
  static constexpr uint32_t kMixed = ~0u;
};

struct SyncVar {
  uint64_t key = 0;
  uint64_t stable = 0;   // names the address without being one: for the hash of the order
  uint32_t version = 0;  // changes with `releases`
  uint32_t bytes = 0;    // of the last write
  uint32_t unread = 0;   // read-modify-writes since the last plain read
  std::vector<Release> releases;
  Snapshot relaxed;  // what follows from any atomic write, ordered or not
};

// Open-addressed table of SyncVars.
class SyncTable {
 public:
  SyncTable() : index_(1024) {}
  [[nodiscard]] SyncVar* find(uint64_t key) {
    for (size_t at = hash(key) & mask();; at = (at + 1) & mask()) {
      if (index_[at].var == 0) return nullptr;
      if (index_[at].key == key) return &vars_[index_[at].var - 1];
    }
  }
  [[nodiscard]] SyncVar& get(uint64_t key);
  void erase(uint64_t key);
  void erase_range(uint64_t begin, uint64_t end);
  [[nodiscard]] bool empty() const { return used_ == 0; }

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t var = 0;  // number + 1; 0 = free
  };
  static size_t hash(uint64_t key) {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 20);
  }
  [[nodiscard]] size_t mask() const { return index_.size() - 1; }
  void rehash(size_t size);

  std::vector<Entry> index_;
  std::vector<SyncVar> vars_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
};

}  // namespace sculler::emu::check
