#include "rank/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler::rank {
namespace {

using nlohmann::json;

Status failed(const std::string& what) {
  return fail(ErrorCode::kIo, what + ": " + std::strerror(errno));
}

Status join_cgroups(const std::vector<int>& fds) {
  for (const int fd : fds) {
    // 0 is the writer, whatever its number is in which namespace.
    if (::write(fd, "0", 1) != 1) return failed("joining the job's control group");
    ::close(fd);
  }
  return {};
}

Status own_network() {
  if (::unshare(CLONE_NEWNET) != 0) return failed("a network namespace");
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed("lo");
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return up ? Status{} : failed("lo");
}

// What ranks share by files lies in memory: bounded, and gone with them.
Status own_shared_memory(uint64_t bytes) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return failed("a mount namespace");
  const std::string options = "mode=1777,size=" + std::to_string(bytes);
  if (::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return failed("a /dev/shm of its own");
  return {};
}

// Nothing may be left to a process that stays root: neither now nor by executing a file.
Status drop_capabilities() {
  for (int capability = 0; capability <= 63; ++capability)
    (void)::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  (void)::prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
                                       SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capset, &header, data) != 0) return failed("giving up capabilities");
  return {};
}

Status drop_root(uint32_t uid) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 ||
      ::setresuid(uid, uid, uid) != 0) {
    return failed("giving up root for uid " + std::to_string(uid));
  }
  if (::setuid(0) == 0) return fail(ErrorCode::kIo, "root came back");
  return {};
}

}  // namespace

std::string print_policy(const ConfinePolicy& p) {
  json object{{"cgroups", p.cgroups},
              {"own_network", p.own_network},
              {"own_ipc", p.own_ipc},
              {"shm_bytes", p.shm_bytes},
              {"uid", p.uid},
              {"landlock", p.landlock},
              {"files", p.files.files},
              {"read", p.files.read},
              {"write", p.files.write},
              {"signals", p.files.signals},
              {"abstract_sockets", p.files.sockets},
              {"refuse", static_cast<int>(p.refuse)},
              {"sockets", p.sockets},
              {"separate_ranks", p.separate_ranks},
              {"signals_by_filter", p.signals_by_filter},
              {"report_fd", p.report_fd}};
  if (p.processes) object["processes"] = *p.processes;
  return dump_json(object);
}

Result<ConfinePolicy> parse_policy(std::string_view text) {
  auto parsed = parse_json(text, "--confine", std::size_t{1} << 20);
  if (!parsed) return fail(parsed.error());
  const json& o = *parsed;
  if (!o.is_object() || find_member(o, "refuse") == nullptr)
    return fail(ErrorCode::kUsage, "--confine: no policy");
  ConfinePolicy p;
  if (const auto* list = find_member(o, "cgroups"); list != nullptr && list->is_array()) {
    for (const auto& fd : *list) {
      if (fd.is_number_integer()) p.cgroups.push_back(fd.get<int>());
    }
  }
  const int64_t uid = int_or(o, "uid", 0), refuse = int_or(o, "refuse", 0);
  if (uid < 0 || uid > 0x7fffffff || refuse < 0 || refuse > 2)
    return fail(ErrorCode::kUsage, "--confine: uid or refuse is out of range");
  p.uid = static_cast<uint32_t>(uid);
  p.refuse = static_cast<Syscalls>(refuse);
  p.own_network = bool_or(o, "own_network", false);
  p.own_ipc = bool_or(o, "own_ipc", false);
  if (const int64_t n = int_or(o, "shm_bytes", 0); n > 0) p.shm_bytes = static_cast<uint64_t>(n);
  p.landlock = bool_or(o, "landlock", false);
  p.files.files = bool_or(o, "files", false);
  p.files.read = strings_of(o, "read");
  p.files.write = strings_of(o, "write");
  p.files.signals = bool_or(o, "signals", false);
  p.files.sockets = bool_or(o, "abstract_sockets", false);
  p.sockets = bool_or(o, "sockets", false);
  p.separate_ranks = bool_or(o, "separate_ranks", false);
  p.signals_by_filter = bool_or(o, "signals_by_filter", false);
  p.report_fd = static_cast<int>(int_or(o, "report_fd", -1));
  if (const int64_t n = int_or(o, "processes", 0); n > 0) p.processes = static_cast<uint64_t>(n);
  return p;
}

Status confine(const ConfinePolicy& policy) {
  const pid_t parent = ::getppid();
  if (auto done = join_cgroups(policy.cgroups); !done) return done;
  if (policy.own_network) {
    if (auto done = own_network(); !done) return done;
  }
  if (policy.own_ipc && ::unshare(CLONE_NEWIPC) != 0) return failed("an IPC namespace");
  if (policy.shm_bytes > 0) {
    if (auto done = own_shared_memory(policy.shm_bytes); !done) return done;
  }
  int ruleset = -1;
  if (policy.landlock) {
    auto made = landlock_rules(policy.files);
    if (!made) return fail(made.error());
    ruleset = *made;
    if (ruleset < 0) return fail(ErrorCode::kIo, "this kernel has no Landlock");
  }
  if (policy.processes) {
    const rlimit limit{*policy.processes, *policy.processes};
    if (::setrlimit(RLIMIT_NPROC, &limit) != 0) return failed("RLIMIT_NPROC");
  }
  if (policy.uid != 0) {
    if (auto done = drop_root(policy.uid); !done) return done;
  }
  if (auto done = drop_capabilities(); !done) return done;
  // The change of uid has taken it away.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)
    return fail(ErrorCode::kIo, "the evaluator is gone");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  if (ruleset >= 0) {
    if (auto done = landlock_enter(ruleset); !done) return done;
  }
  if (policy.refuse == Syscalls::kReport) {
    if (auto done = report_refused_calls(policy.report_fd); !done) return done;
  }
  return seccomp_enter({.refuse = policy.refuse, .sockets = policy.sockets});
}

Status confine_rank(const ConfinePolicy& policy) {
  if (!policy.separate_ranks) return {};
  if (!landlock_separate()) {
    // The next best: /proc/PID of this process belongs to root. It can take that back, but only
    // for itself.
    (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
  if (!policy.signals_by_filter) return {};
  return seccomp_enter({.refuse = Syscalls::kAll, .signals_only_to = ::getpid()});
}

}  // namespace sculler::rank
