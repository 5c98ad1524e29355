// The inner half of the sandbox, each part tried in a child of this test.
#include "rank/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "base/files.h"
#include "support/temp_folder.h"

namespace sculler::rank {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

// The exit code of a child that does `body`; 128 + signal where one ended it.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// What the filter answers to one call.
uint32_t judge(const SyscallRules& rules, uint32_t number, uint64_t first = 0, uint64_t second = 0,
#if defined(__x86_64__)
               uint32_t architecture = AUDIT_ARCH_X86_64) {
#else
               uint32_t architecture = AUDIT_ARCH_AARCH64) {
#endif
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = architecture;
  data.args[0] = first;
  data.args[1] = second;
  const auto program = seccomp_program(rules);
  uint32_t loaded = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const Instruction& i = program[at];
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&loaded, reinterpret_cast<const char*>(&data) + i.k, 4);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K: at += loaded == i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JGE | BPF_K: at += loaded >= i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JSET | BPF_K: at += (loaded & i.k) != 0 ? i.jt : i.jf; break;
      case BPF_RET | BPF_K: return i.k;
      default: ADD_FAILURE() << "instruction " << i.code; return 0;
    }
  }
  ADD_FAILURE() << "the program runs off its end";
  return 0;
}

TEST(Seccomp, RefusesWhatItListsAndNothingElse) {
  const SyscallRules report{.refuse = Syscalls::kReport}, quiet{.refuse = Syscalls::kQuiet};
  constexpr uint32_t kError = SECCOMP_RET_ERRNO | EPERM;
  for (const long call : {long{SYS_ptrace}, long{SYS_process_vm_readv}, long{SYS_mount},
                          long{SYS_bpf}, long{SYS_unshare}, long{SYS_userfaultfd}, 425L, 438L}) {
    EXPECT_EQ(judge(report, static_cast<uint32_t>(call)), uint32_t{SECCOMP_RET_TRAP}) << call;
    EXPECT_EQ(judge(quiet, static_cast<uint32_t>(call)), kError) << call;
    EXPECT_FALSE(refused_call_name(call, 0).empty()) << call;
  }
  for (const long call :
       {long{SYS_read}, long{SYS_openat}, long{SYS_mmap}, long{SYS_futex}, long{SYS_execve},
        long{SYS_sendmsg}, long{SYS_socketpair}, long{SYS_exit_group}, long{SYS_kill}}) {
    EXPECT_EQ(judge(report, static_cast<uint32_t>(call)), uint32_t{SECCOMP_RET_ALLOW}) << call;
    EXPECT_EQ(judge({}, static_cast<uint32_t>(call)), uint32_t{SECCOMP_RET_ALLOW}) << call;
  }
}

TEST(Seccomp, JudgesArguments) {
  const SyscallRules closed{.refuse = Syscalls::kQuiet},
      nccl{.refuse = Syscalls::kQuiet, .sockets = true};
  constexpr uint32_t kError = SECCOMP_RET_ERRNO | EPERM;
  EXPECT_EQ(judge(closed, SYS_socket, AF_UNIX), kError);
  EXPECT_EQ(judge(closed, SYS_socket, AF_INET), kError);
  EXPECT_EQ(judge(nccl, SYS_socket, AF_INET), uint32_t{SECCOMP_RET_ALLOW});
  EXPECT_EQ(judge(nccl, SYS_socket, AF_NETLINK), uint32_t{SECCOMP_RET_ALLOW});
  EXPECT_EQ(judge(nccl, SYS_socket, AF_PACKET), kError);
  EXPECT_EQ(judge(nccl, SYS_socket, AF_VSOCK), kError);
  EXPECT_EQ(judge(closed, SYS_clone, 0x3d0f00), uint32_t{SECCOMP_RET_ALLOW});  // a thread
  EXPECT_EQ(judge(closed, SYS_clone, 0x10000000), kError);                     // NEWUSER
  EXPECT_EQ(judge(closed, SYS_clone, 0x40000000), kError);                     // NEWNET
  EXPECT_EQ(judge(closed, 435), uint32_t{SECCOMP_RET_ERRNO | ENOSYS});
  EXPECT_EQ(judge(closed, SYS_ioctl, 0, 0x5412), kError);
  EXPECT_EQ(judge(closed, SYS_ioctl, 0, 0x5401), uint32_t{SECCOMP_RET_ALLOW});
  EXPECT_EQ(judge(closed, SYS_read, 0, 0, AUDIT_ARCH_I386), uint32_t{SECCOMP_RET_KILL_PROCESS});
#if defined(__x86_64__)
  EXPECT_EQ(judge(closed, 0x40000000 | SYS_ptrace), uint32_t{SECCOMP_RET_ERRNO | ENOSYS});
#endif
  const SyscallRules own{.signals_only_to = 42};
  EXPECT_EQ(judge(own, SYS_kill, 42), uint32_t{SECCOMP_RET_ALLOW});
  EXPECT_EQ(judge(own, SYS_kill, 43), kError);
  EXPECT_EQ(judge(own, SYS_tgkill, 42), uint32_t{SECCOMP_RET_ALLOW});
  EXPECT_EQ(judge(own, SYS_kill, static_cast<uint32_t>(-1)), kError);
}

TEST(Seccomp, RefusedCallsAreReportedAndThreadsStillStart) {
  if (!seccomp_available()) GTEST_SKIP() << "this kernel takes no filter";
  if (kThreadSanitizer) GTEST_SKIP() << "its runtime takes signals over";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(in_child([&] {
              if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
              if (!report_refused_calls(ends[1])) return 2;
              if (!seccomp_enter({.refuse = Syscalls::kReport})) return 3;
              errno = 0;
              if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != -1 || errno != EPERM) return 4;
              int value = 0;
              std::thread([&] {
                value = ::socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM ? 7 : 1;
              }).join();
              return value == 7 ? 0 : 5;
            }),
            0);
  char text[256] = {};
  const auto n = ::read(ends[0], text, sizeof text - 1);
  EXPECT_EQ(std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0),
            "syscall " + std::to_string(SYS_ptrace) + " 0\nsyscall " + std::to_string(SYS_socket) +
                " 2\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Landlock, OnlyWhatIsListedCanBeOpened) {
  if (landlock_abi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const test::TempFolder temporary("sculler_landlock");
  const std::string folder = temporary.path();
  ASSERT_TRUE(real_files().mkdirs(folder + "/open"));
  ASSERT_TRUE(real_files().mkdirs(folder + "/mine"));
  ASSERT_TRUE(real_files().write_atomic(folder + "/open/a", "a"));
  ASSERT_TRUE(real_files().write_atomic(folder + "/secret", "s"));
  EXPECT_EQ(in_child([&] {
              ConfinePolicy policy;
              policy.landlock = true;
              policy.files.files = true;
              policy.files.read = {folder + "/open", folder + "/missing"};
              policy.files.write = {folder + "/mine"};
              if (!confine(policy)) return 1;
              if (::open((folder + "/open/a").c_str(), O_RDONLY) < 0) return 2;
              if (::open((folder + "/open/a").c_str(), O_RDWR) >= 0) return 3;
              if (::open((folder + "/secret").c_str(), O_RDONLY) >= 0) return 4;
              if (::open((folder + "/mine/b").c_str(), O_RDWR | O_CREAT, 0600) < 0) return 5;
              if (::open((folder + "/c").c_str(), O_RDWR | O_CREAT, 0600) >= 0) return 6;
              return 0;
            }),
            0);
}

TEST(Landlock, SiblingsDoNotReadEachOther) {
  if (landlock_abi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  // The first sibling tells when it is confined, and waits.
  int ready[2], hold[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(hold), 0);
  ConfinePolicy policy;
  policy.separate_ranks = true;
  const pid_t first = ::fork();
  if (first == 0) {
    const bool done = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && confine_rank(policy);
    char byte = done ? 1 : 0;
    (void)!::write(ready[1], &byte, 1);
    ::close(hold[1]);
    (void)!::read(hold[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 1);
  EXPECT_EQ(in_child([&] {
              if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !confine_rank(policy)) return 1;
              const std::string path = "/proc/" + std::to_string(first);
              if (::open((path + "/mem").c_str(), O_RDONLY) >= 0) return 2;
              if (::ptrace(PTRACE_ATTACH, first, nullptr, nullptr) == 0) return 3;
              if (landlock_abi() >= kLandlockScopes && ::kill(first, 0) == 0) return 4;
              if (::kill(::getpid(), 0) != 0) return 5;
              return 0;
            }),
            0);
  for (const int fd : {hold[0], hold[1], ready[0], ready[1]}) ::close(fd);
  EXPECT_EQ(::waitpid(first, nullptr, 0), first);
}

TEST(Confine, PolicyTravels) {
  ConfinePolicy policy;
  policy.cgroups = {4, 5};
  policy.own_network = policy.landlock = policy.files.files = policy.sockets = true;
  policy.uid = 61000;
  policy.processes = 77;
  policy.shm_bytes = 4096;
  policy.files.read = {"/a b", "/\"c"};
  policy.refuse = Syscalls::kReport;
  policy.report_fd = 3;
  const std::string text = print_policy(policy);
  auto again = parse_policy(text);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(print_policy(*again), text);
  for (const char* bad : {"", "{}", "[]", "{\"refuse\":9}", "{\"refuse\":1,\"uid\":-1}"})
    EXPECT_FALSE(parse_policy(bad)) << bad;
}

TEST(Confine, SharedMemoryIsBoundedAndGoesWithTheRanks) {
  const std::string name = "/dev/shm/sculler-confine-" + std::to_string(::getpid());
  const int said = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr))
      return 77;
    if (!confine({.shm_bytes = 1 << 20})) return 1;
    const int fd = ::open(name.c_str(), O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return 2;
    const std::string block(64 << 10, 'x');
    std::size_t written = 0;
    for (int i = 0; i < 64; ++i) {
      const auto n = ::write(fd, block.data(), block.size());
      if (n < 0) return errno == ENOSPC && written == 1 << 20 ? 0 : 3;
      written += static_cast<std::size_t>(n);
    }
    return 4;
  });
  if (said == 77) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(said, 0);
  EXPECT_FALSE(real_files().exists(name));
}

TEST(Confine, CapabilitiesAreGone) {
  EXPECT_EQ(in_child([] {
              if (!confine({})) return 1;
              // The call itself: the library's asks every thread, a sanitizer's own too.
              if (::syscall(SYS_setgid, ::getegid() + 1) == 0) return 2;
              // NoNewPrivs and an empty effective set, as the kernel sees them.
              auto status = real_files().read("/proc/self/status", 1 << 16);
              if (!status) return 3;
              if (status->find("NoNewPrivs:\t1") == std::string::npos) return 4;
              return status->find("CapEff:\t0000000000000000") != std::string::npos ? 0 : 5;
            }),
            0);
}

}  // namespace
}  // namespace sculler::rank
