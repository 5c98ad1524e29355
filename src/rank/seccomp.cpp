#include "rank/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace sculler::rank {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "seccomp_program: this architecture's audit number and registers are not written down"
#endif

struct Refused {
  long number;
  const char* name;
};
// Numbers from 424 on are the same everywhere; the build machine's headers may lack them.
constexpr std::array kRefused{
    // other processes
    Refused{SYS_ptrace, "ptrace"},
    Refused{SYS_process_vm_readv, "process_vm_readv"},
    Refused{SYS_process_vm_writev, "process_vm_writev"},
    Refused{SYS_kcmp, "kcmp"},
    Refused{438, "pidfd_getfd"},
    Refused{440, "process_madvise"},
    Refused{448, "process_mrelease"},
    // namespaces and file systems
    Refused{SYS_unshare, "unshare"},
    Refused{SYS_setns, "setns"},
    Refused{SYS_mount, "mount"},
    Refused{SYS_umount2, "umount2"},
    Refused{SYS_pivot_root, "pivot_root"},
    Refused{SYS_chroot, "chroot"},
    Refused{428, "open_tree"},
    Refused{429, "move_mount"},
    Refused{430, "fsopen"},
    Refused{431, "fsconfig"},
    Refused{432, "fsmount"},
    Refused{433, "fspick"},
    Refused{442, "mount_setattr"},
    Refused{SYS_open_by_handle_at, "open_by_handle_at"},
    Refused{SYS_quotactl, "quotactl"},
    Refused{SYS_fanotify_init, "fanotify_init"},
    // the kernel
    Refused{SYS_bpf, "bpf"},
    Refused{SYS_perf_event_open, "perf_event_open"},
    Refused{SYS_kexec_load, "kexec_load"},
    Refused{SYS_kexec_file_load, "kexec_file_load"},
    Refused{SYS_init_module, "init_module"},
    Refused{SYS_finit_module, "finit_module"},
    Refused{SYS_delete_module, "delete_module"},
    Refused{SYS_userfaultfd, "userfaultfd"},
    Refused{425, "io_uring_setup"},
    Refused{426, "io_uring_enter"},
    Refused{427, "io_uring_register"},
    Refused{SYS_keyctl, "keyctl"},
    Refused{SYS_add_key, "add_key"},
    Refused{SYS_request_key, "request_key"},
    // the machine
    Refused{SYS_reboot, "reboot"},
    Refused{SYS_swapon, "swapon"},
    Refused{SYS_swapoff, "swapoff"},
    Refused{SYS_settimeofday, "settimeofday"},
    Refused{SYS_clock_settime, "clock_settime"},
    Refused{SYS_clock_adjtime, "clock_adjtime"},
    Refused{SYS_adjtimex, "adjtimex"},
    Refused{SYS_acct, "acct"},
    Refused{SYS_syslog, "syslog"},
    Refused{SYS_sethostname, "sethostname"},
    Refused{SYS_setdomainname, "setdomainname"},
    Refused{SYS_vhangup, "vhangup"},
#if defined(__x86_64__)
    Refused{SYS_iopl, "iopl"},
    Refused{SYS_ioperm, "ioperm"},
    Refused{SYS_modify_ldt, "modify_ldt"},
#endif
};

// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (NEWTIME is clone3's alone.)
constexpr uint32_t kNewNamespaces = 0x7e020000;
constexpr uint32_t kPushInput = 0x5412, kConsole = 0x541c;  // TIOCSTI, TIOCLINUX
constexpr long kClone3 = 435;

struct Family {
  int number;
  const char* name;
};
constexpr std::array kFamilies{Family{AF_UNIX, "AF_UNIX"},     Family{AF_INET, "AF_INET"},
                               Family{AF_INET6, "AF_INET6"},   Family{AF_NETLINK, "AF_NETLINK"},
                               Family{AF_PACKET, "AF_PACKET"}, Family{AF_VSOCK, "AF_VSOCK"}};

class Program {
 public:
  void add(uint32_t code, uint32_t k, uint8_t jt = 0, uint8_t jf = 0) {
    list_.push_back({static_cast<uint16_t>(code), jt, jf, k});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  // The low half of an argument; all that we judge are 32 bits wide in the kernel too.
  void load_argument(std::size_t i) { load(offsetof(seccomp_data, args) + 8 * i); }
  void when_equal(uint32_t value, uint32_t verdict) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    add(BPF_RET | BPF_K, verdict);
  }
  void when_bits(uint32_t bits, uint32_t verdict) {
    add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    add(BPF_RET | BPF_K, verdict);
  }
  // `body` is run for one system call only, with its number loaded before and after.
  template <class Body>
  void for_call(long number, Body&& body) {
    const std::size_t at = list_.size();
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 0);
    body();
    load_number();
    list_[at].jf = static_cast<uint8_t>(list_.size() - at - 1);
  }
  std::vector<Instruction> take() { return std::move(list_); }

 private:
  std::vector<Instruction> list_;
};

std::atomic<int> g_report{-1};
std::atomic<int> g_reports_left{64};

char* append_number(char* at, uint64_t value) {
  std::array<char, 20> digits;
  std::size_t n = 0;
  do { digits[n++] = static_cast<char>('0' + value % 10); } while ((value /= 10) != 0);
  while (n > 0) *at++ = digits[--n];
  return at;
}

// Gives the call that was refused its answer, EPERM, and lets the program go on.
void on_refused(int, siginfo_t* info, void* context) {
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto argument = static_cast<uint32_t>(machine->gregs[REG_RDI]);
#else
  const auto argument = static_cast<uint32_t>(machine->regs[0]);
#endif
  if (g_reports_left.fetch_sub(1) > 0) {
    std::array<char, 64> line;
    char* at = line.data();
    std::memcpy(at, "syscall ", 8);
    at = append_number(at + 8, static_cast<uint64_t>(info->si_syscall));
    *at++ = ' ';
    at = append_number(at, argument);
    *at++ = '\n';
    (void)!::write(g_report.load(), line.data(), static_cast<std::size_t>(at - line.data()));
  }
#if defined(__x86_64__)
  machine->gregs[REG_RAX] = -EPERM;
#else
  machine->regs[0] = static_cast<unsigned long long>(-EPERM);
#endif
}

}  // namespace

std::vector<Instruction> seccomp_program(const SyscallRules& rules) {
  constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
  constexpr uint32_t kError = SECCOMP_RET_ERRNO | EPERM;
  const uint32_t refuse =
      rules.refuse == Syscalls::kReport ? uint32_t{SECCOMP_RET_TRAP} : uint32_t{kError};
  Program p;
  p.load(offsetof(seccomp_data, arch));
  p.add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  p.add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  p.load_number();
#if defined(__x86_64__)
  // x32 has numbers of its own for what is refused below.
  p.add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
  p.add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
#endif
  if (rules.refuse != Syscalls::kAll) {
    for (const Refused& call : kRefused) p.when_equal(static_cast<uint32_t>(call.number), refuse);
    p.for_call(SYS_clone, [&] {
      p.load_argument(0);
      p.when_bits(kNewNamespaces, refuse);
    });
    // Its flags lie in memory, out of a filter's reach; the C library then takes clone.
    p.when_equal(kClone3, SECCOMP_RET_ERRNO | ENOSYS);
    p.for_call(SYS_ioctl, [&] {
      p.load_argument(1);
      p.when_equal(kPushInput, refuse);
      p.when_equal(kConsole, refuse);
    });
    p.for_call(SYS_socket, [&] {
      p.load_argument(0);
      if (rules.sockets) {
        for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
          p.when_equal(static_cast<uint32_t>(family), kAllow);
      }
      p.add(BPF_RET | BPF_K, refuse);
    });
  }
  if (rules.signals_only_to > 0) {
    for (const long call : {long{SYS_kill}, long{SYS_tgkill}, long{SYS_tkill},
                            long{SYS_rt_sigqueueinfo}, long{SYS_rt_tgsigqueueinfo}}) {
      p.for_call(call, [&] {
        p.load_argument(0);
        p.when_equal(static_cast<uint32_t>(rules.signals_only_to), kAllow);
        p.add(BPF_RET | BPF_K, refuse);
      });
    }
    p.when_equal(424, refuse);  // pidfd_send_signal
  }
  p.add(BPF_RET | BPF_K, kAllow);
  return p.take();
}

Status seccomp_enter(const SyscallRules& rules) {
  if (rules.refuse == Syscalls::kAll && rules.signals_only_to == 0) return {};
  auto program = seccomp_program(rules);
  static_assert(sizeof(Instruction) == sizeof(sock_filter));
  sock_fprog filter{static_cast<unsigned short>(program.size()),
                    reinterpret_cast<sock_filter*>(program.data())};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return fail(ErrorCode::kIo, std::string("seccomp: ") + std::strerror(errno));
  return {};
}

bool seccomp_available() {
  const uint32_t action = SECCOMP_RET_TRAP;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

Status report_refused_calls(int fd) {
  g_report = fd;
  struct sigaction action{};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSYS, &action, nullptr) != 0)
    return fail(ErrorCode::kIo, std::string("SIGSYS: ") + std::strerror(errno));
  return {};
}

std::string refused_call_name(int64_t number, int64_t argument) {
  for (const Refused& call : kRefused) {
    if (call.number == number) return call.name;
  }
  if (number == SYS_socket) {
    for (const Family& family : kFamilies) {
      if (family.number == argument) return std::string("socket(") + family.name + ")";
    }
    return "socket";
  }
  if (number == SYS_clone) return "clone with new namespaces";
  if (number == SYS_ioctl) return "ioctl on the terminal";
  for (const long call : {long{SYS_kill}, long{SYS_tgkill}, long{SYS_tkill},
                          long{SYS_rt_sigqueueinfo}, long{SYS_rt_tgsigqueueinfo}, 424L}) {
    if (call == number) return "a signal to another process";
  }
  return {};
}

}  // namespace sculler::rank
