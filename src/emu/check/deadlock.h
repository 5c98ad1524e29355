// Why nothing goes on: the states of all warps, alike ones together, and one sentence that says
// what to do.
#pragma once

#include <string>
#include <vector>

#include "emu/check/report.h"
#include "emu/vm/engine.h"

namespace sculler::emu {

// Warps of one kernel of one rank that are stuck at the same place for the same reason.
struct StuckWarps {
  int rank = 0;
  std::string kernel;
  WarpState::Wait wait = WarpState::Wait::kRunning;
  SourcePlace at;
  std::string target;        // kSpin: "window 1 of rank 0 + 64"; kMbarrier: which
  Address address = 0;       // kSpin, kMbarrier
  int owner = -1;            // rank whose memory it is, -1 where it is no device or host memory
  uint64_t value = 0;        // kSpin: what it holds; kMbarrier: parity of the phase
  int32_t transactions = 0;  // kMbarrier: bytes that are still to come
  uint32_t barrier = 0, arrived = 0, expected = 0;
  uint64_t blocks = 0, warps = 0;
  uint32_t first_block = 0;
  std::string text;  // one line
};

struct StuckGrid {  // a kernel whose blocks are not all resident
  int rank = 0;
  std::string kernel;
  uint64_t resident = 0, waiting = 0, total = 0;  // blocks; total also counts those that are done
};

struct DeadlockText {
  std::vector<StuckWarps> groups;  // spinning ones first, then barriers; at most kMaxGroups
  std::vector<StuckGrid> grids;
  std::string message;  // one sentence: the first group
  std::string advice;   // one imperative sentence
  std::string text;     // all of it, a line a group
  int rank = -1;
  SourcePlace at;
};

inline constexpr size_t kMaxGroups = 64;

DeadlockText explain_deadlock(const std::vector<WarpState>& warps, const LocateCode& locate,
                              const DescribeAddress& describe);

}  // namespace sculler::emu
