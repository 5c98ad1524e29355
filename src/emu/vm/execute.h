// Running warps: instruction loop, divergence, calls, barriers.
#pragma once

#include "emu/vm/state.h"

namespace sculler::emu::vm {

enum class SliceEnd : uint8_t {
  kQuantum,  // can go on
  kYield,    // can go on, but waits for others
  kParked,   // see poll.cpp
  kBlocked,  // no group can run
  kDone,     // all lanes have exited
  kFault,
};

// Told when other warps of the block can run again.
struct Wakes {
  virtual ~Wakes() = default;
  virtual void wake(Warp& w) = 0;
};

void start_warp(Warp& w);
// Runs at most `quantum` instructions of one warp.
SliceEnd run_slice(Warp& w, uint64_t quantum, Wakes& wakes);
[[nodiscard]] uint32_t runnable_groups(const Warp& w);
// False as soon as what a parked warp waits for has changed.
[[nodiscard]] bool still_parked(const Warp& w);

}  // namespace sculler::emu::vm
