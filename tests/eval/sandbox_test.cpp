#include "eval/sandbox.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>

#include "eval/outcome.h"
#include "eval/sandbox_report.h"
#include "rank/confine.h"

namespace sculler::eval {
namespace {

std::map<std::string, std::string> map_of(const Environment& env) {
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : env) {
    EXPECT_TRUE(map.emplace(name, value).second) << name << " is there twice";
  }
  return map;
}

TEST(RankEnvironment, MulticastIsOffUnlessTheProfileAllowsIt) {
  const Environment wants{{"NCCL_NVLS_ENABLE", "2"},
                          {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "0"},
                          {"NVSHMEM_DISABLE_NVLS", "0"},
                          {"NCCL_DEBUG", "WARN"}};
  const auto off = map_of(rank_environment(wants, false));
  EXPECT_EQ(off.at("NCCL_NVLS_ENABLE"), "0");
  EXPECT_EQ(off.at("TORCH_SYMM_MEM_DISABLE_MULTICAST"), "1");
  EXPECT_EQ(off.at("NVSHMEM_DISABLE_NVLS"), "1");
  EXPECT_EQ(off.at("CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_EQ(off.at("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(off.at("NCCL_DEBUG"), "WARN");
  const auto on = map_of(rank_environment(wants, true));
  EXPECT_EQ(on.at("NCCL_NVLS_ENABLE"), "2");
}

TEST(RankEnvironment, NothingIsInheritedAndTheLoaderIsOutOfReach) {
  ::setenv("SCULLER_TEST_SECRET", "key", 1);
  const auto env = map_of(rank_environment({{"LD_PRELOAD", "/x.so"},
                                            {"LD_LIBRARY_PATH", "/x"},
                                            {"SCULLER_CONTROL_FDS", "0"},
                                            {"GLIBC_TUNABLES", "x"}},
                                           false));
  for (const auto& [name, value] : env) {
    EXPECT_FALSE(name.starts_with("LD_")) << name;
    EXPECT_FALSE(name.starts_with("SCULLER_")) << name;
    EXPECT_FALSE(name.starts_with("GLIBC_")) << name;
  }
}

TEST(Sandbox, LevelsHaveNamesAndNoneIsOnlyForTheAsking) {
  const auto none = Sandbox::detect(real_processes(), Containment::kNone, "");
  EXPECT_EQ(containment_name(none.level()), "none");
  EXPECT_FALSE(none.why().empty());
  FakeProcesses broken([](const SpawnOptions&) -> Result<FakeProcesses::Outcome> {
    FakeProcesses::Outcome outcome;
    outcome.status.code = 1;
    outcome.err = "bwrap: No permissions to create new namespace\n";
    return outcome;
  });
  const auto weak = Sandbox::detect(broken, Containment::kFull, "");
  EXPECT_EQ(containment_name(weak.level()), "no-userns");
  EXPECT_FALSE(weak.why().empty());
}

TEST(Sandbox, FullSharesNoNamespaceAndBindsReadOnly) {
  const Sandbox box(Containment::kFull, "", "/usr/bin/bwrap", false);
  Confined c;
  c.argv = {"/sculler/bin/sculler-rank"};
  c.binds = {{.source = "/data/a.so"}};
  const auto options = box.wrap(c);
  const auto has = [&](const char* word) {
    return std::find(options.argv.begin(), options.argv.end(), word) != options.argv.end();
  };
  for (const char* word :
       {"--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-user", "--die-with-parent"}) {
    EXPECT_TRUE(has(word)) << word;
  }
  EXPECT_FALSE(has("--share-net"));
  EXPECT_FALSE(has("--bind"));
  for (std::size_t i = 0; i + 1 < options.argv.size(); ++i) {  // of /usr, libraries only
    EXPECT_FALSE(options.argv[i] == "--ro-bind" && options.argv[i + 1] == "/usr");
  }
  EXPECT_TRUE(options.die_with_parent);
}

// Version 2 as the kernel keeps it: files appear with a folder, and a group that holds processes
// has no children with controllers.
class FakeCgroup final : public CgroupFiles {
 public:
  std::map<std::string, std::string> text;
  std::optional<std::string> read(const std::string& path) override {
    const auto at = text.find(path);
    return at == text.end() ? std::nullopt : std::optional(at->second);
  }
  bool write(const std::string& path, std::string_view value) override {
    if (path.ends_with("cgroup.subtree_control")) {
      const auto folder = path.substr(0, path.rfind('/'));
      if (!text[folder + "/cgroup.procs"].empty()) return false;
      text[path] = "pids memory\n";
      return true;
    }
    if (path.ends_with("cgroup.procs")) {  // moves: the pid leaves where it was
      for (auto& [name, list] : text) {
        if (name.ends_with("cgroup.procs")) list.clear();
      }
    }
    text[path] = value;
    return true;
  }
  bool make_folder(const std::string& path) override {
    made.push_back(path);
    return true;
  }
  bool remove_folder(const std::string& path) override {
    removed.push_back(path);
    return true;
  }
  std::vector<std::string> folders(const std::string&) override { return {}; }
  bool writable(const std::string&) override { return can_write; }
  int open_for_writing(const std::string&) override { return -1; }
  std::vector<std::string> made, removed;
  bool can_write = true;
};

constexpr const char* kMounts2 =
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, Version2LimitsReadsEventsAndGoes) {
  FakeCgroup files;
  const std::string own = "/sys/fs/cgroup/user.slice/run-1.scope";
  files.text[own + "/cgroup.controllers"] = "cpu memory pids\n";
  files.text[own + "/cgroup.procs"] = std::to_string(::getpid()) + "\n";
  const auto host = CgroupHost::find(files, "0::/user.slice/run-1.scope\n", kMounts2);
  EXPECT_EQ(host.version(), 2) << host.why();
  EXPECT_TRUE(host.limits_processes() && host.limits_memory());
  ASSERT_EQ(files.made, std::vector<std::string>{own + "/main-of-sculler"});
  const std::string folder = own + "/sculler-" + std::to_string(::getpid()) + "-run-1";
  {
    auto job = host.make("run-1", {.processes = 512, .memory_bytes = 1 << 30});
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(files.text[folder + "/pids.max"], "512");
    EXPECT_EQ(files.text[folder + "/memory.max"], "1073741824");
    files.text[folder + "/pids.events"] = "max 7\n";
    files.text[folder + "/memory.events"] = "low 0\noom 2\noom_kill 1\n";
    const auto events = job->events();
    EXPECT_EQ(events.forks_refused, 7U);
    EXPECT_EQ(events.memory_kills, 1U);
    EXPECT_EQ(events.left, 0U);
  }
  EXPECT_EQ(files.removed, std::vector<std::string>{folder});
}

TEST(Cgroup, WhatCannotBeUsedIsSaid) {
  FakeCgroup others;
  others.text["/sys/fs/cgroup/cgroup.controllers"] = "memory pids\n";
  others.text["/sys/fs/cgroup/cgroup.procs"] = "1\n2\n";
  const auto busy = CgroupHost::find(others, "0::/\n", kMounts2);
  EXPECT_EQ(busy.version(), 0);
  EXPECT_NE(busy.why().find("holds other processes"), std::string::npos) << busy.why();
  EXPECT_EQ(busy.make("x", {.processes = 1}), nullptr);
  FakeCgroup closed;
  closed.can_write = false;
  closed.text["/sys/fs/cgroup/cgroup.controllers"] = "memory pids\n";
  EXPECT_NE(CgroupHost::find(closed, "0::/\n", kMounts2).why(), "");
  EXPECT_NE(CgroupHost::find(closed, "", "").why(), "");
}

TEST(Cgroup, Version1HasAFolderAController) {
  FakeCgroup files;
  const auto host =
      CgroupHost::find(files, "8:pids:/\n4:memory:/api/7c\n0::/\n",
                       "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                       "1 2 0:2 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                       "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(host.version(), 1);
  auto job = host.make("a", {.processes = 5, .memory_bytes = 4096});
  ASSERT_NE(job, nullptr);
  const std::string name = "/sculler-" + std::to_string(::getpid()) + "-a";
  EXPECT_EQ(files.text["/sys/fs/cgroup/pids" + name + "/pids.max"], "5");
  EXPECT_EQ(files.text["/sys/fs/cgroup/memory/api/7c" + name + "/memory.limit_in_bytes"], "4096");
}

// The kernel's own groups, where this machine lets us make some.
TEST(Cgroup, TheKernelRefusesAndCounts) {
  const auto host = CgroupHost::find();
  if (!host.limits_processes() || !host.limits_memory()) GTEST_SKIP() << host.why();
  auto job = host.make("test", {.processes = 8, .memory_bytes = uint64_t{64} << 20});
  ASSERT_NE(job, nullptr);
  const auto child = [&](const std::function<int()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const int fd : job->join_fds()) {
        if (::write(fd, "0", 1) != 1) ::_exit(100);
      }
      ::_exit(body());
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  };
  EXPECT_EQ(child([] {
              for (int i = 0; i < 20; ++i) {
                const pid_t pid = ::fork();
                if (pid < 0) return i < 10 ? 7 : 8;
                if (pid == 0) {
                  for (;;) ::pause();
                }
              }
              return 9;
            }),
            7);
  const auto forked = job->events();
  EXPECT_GE(forked.forks_refused, 1U);
  EXPECT_EQ(forked.left, 7U);
  EXPECT_EQ(job->kill(), 7U);
  EXPECT_EQ(job->events().left, 0U);
  EXPECT_EQ(child([] {
              const std::size_t bytes = std::size_t{256} << 20;
              auto* memory = static_cast<volatile char*>(::malloc(bytes));
              for (std::size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
              return 0;
            }),
            128 + SIGKILL);
  EXPECT_GE(job->events().memory_kills, 1U);
}

TEST(Report, NamesCallsAndMakesVerdictsOnlyWorse) {
  const auto incidents = parse_report(
      "syscall " + std::to_string(SYS_ptrace) + " 16\nsyscall " + std::to_string(SYS_socket) +
      " 2\nsyscall " + std::to_string(SYS_ptrace) +
      " 0\nsyscall 1 1\nsyscall x y\nleft 3\nfull /tmp\nfull /etc\nmemory 1 90 100\n\xff");
  EXPECT_EQ(incidents.calls, (std::vector<std::string>{"ptrace", "socket(AF_INET)"}));
  EXPECT_EQ(incidents.left, 3U);
  EXPECT_EQ(incidents.notes.size(), 1U);
  RunResult passed;
  passed.status = "PASSED";
  judge_incidents(incidents, passed);
  EXPECT_EQ(passed.status, "CHEAT");
  EXPECT_NE(passed.message.find("ptrace, socket(AF_INET)"), std::string::npos) << passed.message;
  Incidents memory;
  memory.out_of_memory = "rank 1 held too much";
  RunResult crash, other;
  crash.status = "CRASH";
  other.status = "INCORRECT";
  judge_incidents(memory, crash);
  judge_incidents(memory, other);
  EXPECT_EQ(crash.status, "OOM");
  EXPECT_EQ(other.status, "INCORRECT");
  RunResult internal;
  judge_incidents(incidents, internal);
  EXPECT_EQ(internal.status, "INTERNAL");
}

TEST(Sandbox, NoUsernsHasALandlockListAndSaysWhatIsMissing) {
  Strength strength;
  strength.runner = "/p/sculler-rank";
  strength.landlock = 4;
  strength.seccomp = true;
  const Sandbox box(Containment::kNoUserns, "bwrap: no", "/usr/bin/bwrap", false, strength);
  Confined c;
  c.argv = {"/p/sculler-rank", "--all", "2", "rank.json"};
  c.ranks = true;
  c.report_fd = 9;
  c.cwd_outside = "/scratch/ranks";
  c.binds = {{.source = "/data/a.so"}};
  const auto options = box.wrap(c);
  ASSERT_EQ(options.argv.size(), 6U);
  EXPECT_EQ(options.argv[1], "--confine");
  EXPECT_EQ(options.argv[3], "--all");
  auto policy = rank::parse_policy(options.argv[2]);
  ASSERT_TRUE(policy) << policy.error().text();
  EXPECT_TRUE(policy->files.files);
  for (const char* path : {"/data/a.so", "/scratch/ranks", "/usr/lib"}) {
    EXPECT_EQ(std::count(policy->files.read.begin(), policy->files.read.end(), path), 1) << path;
  }
  for (const auto& path : policy->files.write) EXPECT_TRUE(path.starts_with("/dev/")) << path;
  EXPECT_EQ(policy->refuse, rank::Syscalls::kReport);
  EXPECT_FALSE(policy->sockets);
  EXPECT_TRUE(policy->signals_by_filter);  // Landlock 4 keeps no signals in
  EXPECT_NE(box.why().find("cuda can reach the network"), std::string::npos) << box.why();
  EXPECT_FALSE(box.cure().empty());
  Confined compiler;
  compiler.argv = {"/usr/bin/g++", "a.cpp"};
  compiler.env = {{"TMPDIR", "/tmp"}};
  compiler.cwd_outside = "/scratch/work";
  const auto compile = box.wrap(compiler);
  ASSERT_EQ(compile.argv.size(), 6U);
  EXPECT_EQ(compile.argv[3], "--");
  EXPECT_EQ(compile.env[0].second, "/scratch/work");
}

}  // namespace
}  // namespace sculler::eval
