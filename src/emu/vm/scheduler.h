// Which warp runs next, and for how long. The choice is a function of the seed and of what the
// warps did.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "emu/vm/state.h"

namespace sculler::emu::vm {

// SplitMix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return n == 0 ? 0 : next() % n; }

 private:
  uint64_t state_;
};

class Scheduler {
 public:
  explicit Scheduler(const Schedule& schedule);
  void add(Warp& w);              // a warp that can run; once
  Warp* take(uint64_t* quantum);  // null: none; the warp is not queued then
  void put_back(Warp& w, bool yielded);
  void remove_rank(int rank);
  [[nodiscard]] size_t size() const;
  // The order in which the blocks of a grid become resident; empty = 0, 1, 2 ... Nearly ascending,
  // as hardware has it: where `resident` blocks fit at once, those are the first ones in every
  // order.
  std::vector<uint32_t> admission(uint32_t n_blocks, uint64_t resident);

 private:
  template <class Keep>
  void filter(Keep keep);
  Schedule schedule_;
  Random random_;
  std::deque<Warp*> queue_[2];             // round robin; [1] the delayed rank's
  std::vector<Warp*> bag_;                 // random
  std::map<uint64_t, Warp*> by_priority_;  // the largest key runs
  uint64_t lowest_;                        // counts down
  uint64_t change_in_ = 0;                 // slices until a priority changes
};

}  // namespace sculler::emu::vm
