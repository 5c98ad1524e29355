// The built-in lowering: a host program in the candidate ABI that communicates by NCCL's host calls
// becomes one that communicates from kernels, with no model. Text to text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::analyze {

enum class Stage : unsigned char {
  kInfrastructure,  // A: windows and a device communicator; host collectives stay
  kCollectives,     // B: each host collective is a kernel between two barriers of all ranks
};

struct LoweredCall {
  int line = 0;      // in the program that was given
  std::string name;  // "ncclAllGather"
};

struct Lowered {
  std::string text;                  // with evolve blocks, and a directive on top
  std::vector<LoweredCall> calls;    // that were (stage B) or will be (stage A) replaced
  std::vector<std::string> scratch;  // allocations that became windows, "line 42: st->slice"
  int n_blocks = 0;
};

// kUnsupported with "origin:line", the reason and what to do, where the program cannot be lowered
// without knowing more than its text says. Both stages refuse the same programs.
[[nodiscard]] Result<Lowered> lower(std::string_view text, std::string_view origin, Stage stage);

}  // namespace sculler::analyze
