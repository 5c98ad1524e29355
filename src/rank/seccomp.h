// System calls that a candidate has no use for, refused by a seccomp filter written by hand (no
// library). docs/sandbox.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace sculler::rank {

enum class Syscalls : uint8_t {
  kAll,     // no filter
  kQuiet,   // refused with EPERM: compilers, and libraries that may ask without meaning harm
  kReport,  // refused with EPERM by a handler that also reports the attempt; a process that has
            // taken the handler away dies of SIGSYS
};

struct SyscallRules {
  Syscalls refuse = Syscalls::kAll;
  // Families that socket() may have: none (socketpair stays), or those that NCCL uses.
  bool sockets = false;
  // Where neither a PID namespace nor Landlock keeps signals in: only to this process itself.
  int signals_only_to = 0;
};

// A filter of classic BPF: pairs of (code, jt, jf, k), as struct sock_filter lays them out.
struct Instruction {
  uint16_t code = 0;
  uint8_t jt = 0, jf = 0;
  uint32_t k = 0;
};
[[nodiscard]] std::vector<Instruction> seccomp_program(const SyscallRules& rules);
// Installs it for the calling thread and all that it starts. PR_SET_NO_NEW_PRIVS must be set.
Status seccomp_enter(const SyscallRules& rules);
// True where the kernel takes filters that report.
[[nodiscard]] bool seccomp_available();

// The handler of kReport: writes lines "syscall NUMBER ARGUMENT" to `fd`, a few at most.
Status report_refused_calls(int fd);
// "ptrace", "socket(AF_INET)"; empty for a number that is not refused.
[[nodiscard]] std::string refused_call_name(int64_t number, int64_t argument);

}  // namespace sculler::rank
