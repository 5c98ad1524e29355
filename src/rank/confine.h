// What `sculler-rank --confine POLICY` puts on itself before it forks ranks or becomes a compiler:
// control groups, namespaces that need no helper, an unprivileged uid, no capabilities, limits,
// Landlock, seccomp. The policy comes from sculler-eval (src/eval/sandbox.cpp) as JSON on the
// command line; it holds nothing secret. docs/sandbox.md says what each part stops.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rank/landlock.h"
#include "rank/seccomp.h"

namespace sculler::rank {

struct ConfinePolicy {
  // Descriptors of cgroup.procs files, opened by the evaluator: joined and closed.
  std::vector<int> cgroups{};
  bool own_network = false;  // unshare, `lo` brought up; needs CAP_SYS_ADMIN
  bool own_ipc = false;
  uint64_t shm_bytes = 0;  // a /dev/shm of its own of that size; 0: the machine's; CAP_SYS_ADMIN
  // Given up together with every group; 0: the uid stays (capabilities go all the same).
  uint32_t uid = 0;
  std::optional<uint64_t> processes{};  // RLIMIT_NPROC: of this uid, in this user namespace
  bool landlock = false;
  LandlockRules files{};
  Syscalls refuse = Syscalls::kAll;
  bool sockets = false;
  bool separate_ranks = false;     // a Landlock domain a rank, or what comes closest to it
  bool signals_by_filter = false;  // no PID namespace and Landlock too old to keep signals in
  int report_fd = -1;              // what was refused is told there
};

[[nodiscard]] std::string print_policy(const ConfinePolicy& policy);
[[nodiscard]] Result<ConfinePolicy> parse_policy(std::string_view text);

// All of it, for the calling process (which must have one thread). After an error the process is
// half confined and must end.
Status confine(const ConfinePolicy& policy);
// A rank's own part, after the fork: its siblings are kept off it.
Status confine_rank(const ConfinePolicy& policy);

}  // namespace sculler::rank
