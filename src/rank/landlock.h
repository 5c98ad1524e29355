// Landlock by raw system calls: what a process and all that it starts may open, and whom it may
// signal or trace. Needs no privilege and no user namespace; a kernel that knows less of it holds
// less.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace sculler::rank {

// Version of the kernel's Landlock; 0 where there is none. 2: renames. 3: truncate. 4: TCP ports.
// 5: device ioctls. 6: signals and abstract sockets.
[[nodiscard]] int landlock_abi();
inline constexpr int kLandlockScopes = 6;  // the first that keeps signals inside

struct LandlockRules {
  // False: every path stays open, only the other rules count.
  bool files = false;
  std::vector<std::string> read{};   // read and execute, beneath; what is missing is skipped
  std::vector<std::string> write{};  // all of it
  // No signal to, and no abstract socket of, a process outside of this domain (ABI 6).
  bool signals = false, sockets = false;
};

// A ruleset's descriptor; made before root is given up, since it opens the paths. -1 where the
// kernel has no Landlock.
[[nodiscard]] Result<int> landlock_rules(const LandlockRules& rules);
// Puts the calling process under it, for ever, and closes it. PR_SET_NO_NEW_PRIVS must be set.
Status landlock_enter(int ruleset);

// A domain of its own for this process: siblings under the same outer domain can then neither trace
// it nor read its memory or environment through /proc, nor (ABI 6) signal it, and the other way
// round. False where the kernel has no Landlock.
[[nodiscard]] bool landlock_separate();

}  // namespace sculler::rank
