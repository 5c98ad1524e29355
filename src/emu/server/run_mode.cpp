#include "emu/server/run_mode.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "emu/server/report.h"
#include "emu/server/server.h"
#include "verify/socket_ranks.h"

extern char** environ;

namespace sculler::emu {
namespace {

struct Child {
  pid_t pid = -1;
  int exit = -1;  // as a shell gives it; -1: still there
};

std::string default_library_dir() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (self.parent_path().parent_path() / "lib" / "emu").string();
}

// LD_LIBRARY_PATH first in the drop-ins' folder, the rank's socket, and what keeps NCCL from
// multicast.
std::vector<std::string> child_environment(const RunOptions& options, int rank, int fd,
                                           const std::string& dir) {
  std::vector<std::string> env;
  std::string path = dir;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry = *e;
    if (entry.starts_with("LD_LIBRARY_PATH=")) {
      path += ":" + std::string(entry.substr(16));
    } else if (!entry.starts_with("SCULLER_VM_FD=") && !entry.starts_with("SCULLER_RANK=") &&
               !entry.starts_with("SCULLER_RANKS=")) {
      env.emplace_back(entry);
    }
  }
  env.push_back("LD_LIBRARY_PATH=" + path);
  env.push_back("SCULLER_VM_FD=" + std::to_string(fd));
  env.push_back("SCULLER_RANK=" + std::to_string(rank));
  env.push_back("SCULLER_RANKS=" + std::to_string(options.n_ranks));
  env.emplace_back("NCCL_NVLS_ENABLE=0");
  return env;
}

Child start(const RunOptions& options, int rank, int fd, const std::string& dir) {
  const std::vector<std::string> env = child_environment(options, rank, fd, dir);
  std::vector<char*> envp, argv;
  for (const std::string& e : env) envp.push_back(const_cast<char*>(e.c_str()));
  envp.push_back(nullptr);
  for (const std::string& a : options.command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  Child child;
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::fcntl(fd, F_SETFD, 0);
    ::execvpe(argv[0], argv.data(), envp.data());
    std::fprintf(stderr, "sculler-vm: cannot start %s: %s\n", argv[0], std::strerror(errno));
    ::_exit(127);
  }
  return child;
}

void reap(std::vector<Child>& children, bool wait) {
  for (Child& child : children) {
    if (child.exit >= 0) continue;
    int status = 0;
    const pid_t got = ::waitpid(child.pid, &status, wait ? 0 : WNOHANG);
    if (got != child.pid) continue;
    child.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

void kill_all(std::vector<Child>& children) {
  for (Child& child : children) {
    if (child.exit < 0) ::kill(child.pid, SIGKILL);
  }
}

void print(const verify::Outcome& outcome) {
  std::fprintf(stderr, "========= %s", outcome.status.c_str());
  if (outcome.rank >= 0) std::fprintf(stderr, " on rank %d", outcome.rank);
  if (!outcome.where.empty()) std::fprintf(stderr, " at %s", outcome.where.c_str());
  std::fprintf(stderr, "\n========= %s\n", outcome.message.c_str());
  if (!outcome.advice.empty()) std::fprintf(stderr, "========= %s\n", outcome.advice.c_str());
  for (const verify::FindingText& f : outcome.findings) {
    std::fprintf(stderr, "=========   [%s] %s\n", f.kind.c_str(), f.text.c_str());
  }
}

}  // namespace

int run_programs(const RunOptions& options) {
  const std::string dir = options.library_dir.empty() ? default_library_dir() : options.library_dir;
  if (!std::filesystem::exists(dir + "/libcudart.so.13")) {
    std::fprintf(stderr,
                 "sculler-vm: no drop-in libraries in '%s': build with CUDA headers, or name them "
                 "with --libs DIR\n",
                 dir.c_str());
    return 2;
  }
  VmOptions vm_options = options.vm;
  vm_options.host_object = std::filesystem::path(options.command.front()).filename().string();
  auto vm = make_vm(vm_options, options.n_ranks, false);
  if (!vm) {
    std::fprintf(stderr, "sculler-vm: %s\n", vm.error().text().c_str());
    return 2;
  }
  Machine& machine = *(*vm)->machine;
  const Observer* observer = (*vm)->observer.get();
  machine.engine().on_print = [](int, std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  ServerConfig server_config;
  server_config.schedule = options.vm.schedule;
  server_config.sleepers_settle = options.n_ranks > 1;
  server_config.multicast_allowed = machine.properties().multicast;
  Server server(machine, server_config, options.n_ranks);

  std::vector<Child> children;
  for (int r = 0; r < options.n_ranks; ++r) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      std::perror("sculler-vm: socketpair");
      kill_all(children);
      return 2;
    }
    children.push_back(start(options, r, pair[1], dir));
    ::close(pair[1]);
    server.attach(r, rank::UniqueFd(pair[0]), children.back().pid);
  }

  const uint64_t begin = verify::monotonic_ns();
  std::optional<verify::Outcome> stop;
  for (;;) {
    const Server::Step step = server.step(100);
    if (step == Server::Step::kGone) break;
    if (step == Server::Step::kStuck) {
      stop = deadlock(machine, observer);
      break;
    }
    if (options.timeout_s != 0 &&
        verify::monotonic_ns() - begin > options.timeout_s * 1'000'000'000u) {
      stop.emplace();
      stop->status = verify::status::kTimeout;
      stop->message = "no end within " + std::to_string(options.timeout_s) + " s";
      break;
    }
    if (step == Server::Step::kInput) reap(children, false);
  }
  if (stop) kill_all(children);
  reap(children, true);

  verify::Outcome outcome;
  auto found = judge(machine, observer, server, options.n_ranks);
  if (stop && !found) found = std::move(stop);
  int code = 0;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].exit != 0 && code == 0) code = children[i].exit;
  }
  if (found) {
    outcome = std::move(*found);
    print(outcome);
    code = options.error_exitcode;
  } else {
    outcome.status = code == 0 ? verify::status::kPassed : verify::status::kCrash;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i].exit == 0 || !outcome.message.empty()) continue;
      outcome.rank = static_cast<int>(i);
      outcome.message = "the program ended with " + std::to_string(children[i].exit) + " on rank " +
                        std::to_string(i);
    }
  }
  if (observer != nullptr) outcome.sync_hash = hex(observer->sync_hash());
  outcome.schedule = schedule_text(options.vm.schedule);
  if (!server.deterministic()) {
    std::fprintf(stderr,
                 "sculler-vm: a rank waited or computed outside of CUDA calls: this run may not "
                 "replay exactly\n");
  }
  if (options.json) std::printf("%s\n", verify::print_outcome(outcome).c_str());
  return code;
}

}  // namespace sculler::emu
