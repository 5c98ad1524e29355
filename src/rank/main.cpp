// sculler-rank [--confine POLICY] --all N rank.json: forks the ranks of a job inside the sandbox.
// sculler-rank --confine POLICY -- PROGRAM...: confines itself, then becomes PROGRAM.
// docs/internals.md, "Launch"; docs/sandbox.md.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "rank/backend_cpu.h"
#include "rank/confine.h"
#include "rank/leftovers.h"
#include "rank/runner.h"

namespace {

using sculler::rank::ConfinePolicy;
using sculler::rank::RankSpec;
using sculler::rank::Target;

int complain(const std::string& text) {
  std::fprintf(stderr, "sculler-rank: %s\n", text.c_str());
  return 2;
}

// "5,7" -> numbers; empty where the variable is not set or is no such list.
std::vector<int> descriptors(const char* variable) {
  std::vector<int> out;
  const char* list = std::getenv(variable);
  if (list == nullptr) return out;
  for (const std::string_view part : sculler::split(list, ',')) {
    const auto number = sculler::parse_int(part);
    if (!number || *number < 3 || *number > 1 << 20 ||
        ::fcntl(static_cast<int>(*number), F_GETFD) < 0)
      return {};
    out.push_back(static_cast<int>(*number));
  }
  return out;
}

[[noreturn]] void be_rank(const RankSpec& spec, int rank, const std::vector<int>& control,
                          const std::vector<int>& vm, const ConfinePolicy& policy, void* shared,
                          pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const auto own = static_cast<std::size_t>(rank);
  for (std::size_t r = 0; r < control.size(); ++r) {
    if (r == own) continue;
    ::close(control[r]);
    if (!vm.empty()) ::close(vm[r]);
  }
  ::fcntl(control[own], F_SETFD, FD_CLOEXEC);
  ::unsetenv("SCULLER_CONTROL_FDS");
  ::unsetenv("SCULLER_VM_FDS");
  ::setenv("SCULLER_RANK", std::to_string(rank).c_str(), 1);
  // OpenBLAS' threads spin for 2^28 cycles after each call, on cores that the next contestant is
  // timed on; read when the library is loaded. 2^16: some 25 us, then they sleep.
  ::setenv("OPENBLAS_THREAD_TIMEOUT", "16", 1);
  ::setenv("SCULLER_CONTROL_FD", std::to_string(control[own]).c_str(), 1);
  if (!vm.empty()) ::setenv("SCULLER_VM_FD", std::to_string(vm[own]).c_str(), 1);
  if (auto done = sculler::rank::confine_rank(policy); !done)
    ::_exit(complain(done.error().text()));
  const int code = sculler::rank::run_rank(spec, rank, control[own], shared);
  std::fflush(nullptr);
  // Destructors of libraries whose peers may be gone have nothing to add.
  ::_exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  ConfinePolicy policy;
  int next = 1;
  if (argc > 3 && std::strcmp(argv[1], "--confine") == 0) {
    auto parsed = sculler::rank::parse_policy(argv[2]);
    if (!parsed) return complain(parsed.error().text());
    policy = std::move(*parsed);
    if (policy.report_fd >= 0) ::fcntl(policy.report_fd, F_SETFD, FD_CLOEXEC);
    if (auto done = sculler::rank::confine(policy); !done)
      return complain("the sandbox cannot be entered: " + done.error().text());
    next = 3;
  }
  if (next == 3 && argc > 4 && std::strcmp(argv[3], "--") == 0) {
    ::execvp(argv[4], argv + 4);
    return complain(std::string(argv[4]) + ": " + std::strerror(errno));
  }
  if (argc - next != 3 || std::strcmp(argv[next], "--all") != 0) {
    std::fprintf(stderr,
                 "usage: sculler-rank [--confine POLICY] --all N rank.json\n"
                 "       sculler-rank --confine POLICY -- PROGRAM [ARGUMENTS]\n");
    return 2;
  }
  const char* const file = argv[next + 2];
  const auto n = sculler::parse_int(argv[next + 1]);
  auto text = sculler::real_files().read(file, 1 << 20);
  if (!text) return complain(text.error().text());
  auto spec = sculler::rank::parse_rank_spec(*text);
  if (!spec) return complain(spec.error().text());
  if (!n || *n != spec->n_ranks) return complain("N is not n_ranks of " + std::string(file));

  const std::vector<int> control = descriptors("SCULLER_CONTROL_FDS");
  const std::vector<int> vm = descriptors("SCULLER_VM_FDS");
  const auto ranks = static_cast<std::size_t>(spec->n_ranks);
  if (control.size() != ranks)
    return complain("SCULLER_CONTROL_FDS does not name one open descriptor a rank");
  if (spec->target == Target::kEmu && vm.size() != ranks)
    return complain("SCULLER_VM_FDS does not name one open descriptor a rank");

  void* shared = nullptr;
  if (spec->target == Target::kCpu && spec->n_ranks > 1) {
    shared = sculler::rank::make_shared_barrier(spec->n_ranks);
    if (shared == nullptr) return complain("no shared memory for the ranks' barrier");
  }
  // What ranks leave behind becomes ours, is found and killed.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int r = 0; r < spec->n_ranks; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) be_rank(*spec, r, control, vm, policy, shared, parent);
    if (pid < 0) {
      const int error = errno;
      for (const pid_t child : children) ::kill(child, SIGKILL);
      return complain(std::string("fork: ") + std::strerror(error));
    }
    children.push_back(pid);
  }
  // Only then does the death of a rank close its socket.
  for (const int fd : control) ::close(fd);
  for (const int fd : vm) ::close(fd);
  int result = 0;
  for (std::size_t left = children.size(); left > 0;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, 0, &usage);
    if (pid < 0) {
      if (errno == EINTR) continue;
      break;
    }
    const auto at = std::find(children.begin(), children.end(), pid);
    if (at == children.end()) continue;
    --left;
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (result == 0) result = code;
    if (code != 0)
      sculler::rank::report_memory(policy.report_fd, static_cast<int>(at - children.begin()),
                                   static_cast<uint64_t>(usage.ru_maxrss) * 1024);
  }
  sculler::rank::report_leftovers(policy.report_fd);
  if (!policy.files.files) sculler::rank::report_full_folders(policy.report_fd);
  return result;
}
