// `sculler-vm --run N -- PROGRAM args`: any CUDA program under the emulator, N copies as N ranks.
// Findings go to stderr, as compute-sanitizer's do.
#pragma once

#include <string>
#include <vector>

#include "emu/server/options.h"

namespace sculler::emu {

struct RunOptions {
  VmOptions vm;
  int n_ranks = 1;
  std::vector<std::string> command;
  std::string library_dir;  // of the drop-ins; empty: lib/emu beside bin/
  int error_exitcode = 1;   // where anything was found
  bool json = false;        // the verdict as one JSON line on stdout
  bool relaxed_is_error = false;
  uint64_t timeout_s = 0;  // 0: none
};

// The exit code: error_exitcode where something was found, else the first program's that is not 0.
int run_programs(const RunOptions& options);

}  // namespace sculler::emu
