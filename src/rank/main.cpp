// sculler-rank --all N rank.json: forks the ranks of a job inside the sandbox. docs/internals.md,
// "Launch".
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include "rank/runner.h"

namespace {

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

bool drop_root(const char* text) {
  const auto uid = sculler::parse_int(text);
  if (!uid || *uid <= 0 || *uid > 0x7fffffff) return false;
  const auto id = static_cast<uid_t>(*uid);
  return ::setgroups(0, nullptr) == 0 && ::setresgid(id, id, id) == 0 &&
         ::setresuid(id, id, id) == 0 && ::setuid(0) != 0;
}

[[noreturn]] void be_rank(const RankSpec& spec, int rank, const std::vector<int>& control,
                          const std::vector<int>& vm, void* shared, pid_t parent) {
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
  ::setenv("SCULLER_CONTROL_FD", std::to_string(control[own]).c_str(), 1);
  if (!vm.empty()) ::setenv("SCULLER_VM_FD", std::to_string(vm[own]).c_str(), 1);
  const int code = sculler::rank::run_rank(spec, rank, control[own], shared);
  std::fflush(nullptr);
  // Destructors of libraries whose peers may be gone have nothing to add.
  ::_exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::strcmp(argv[1], "--all") != 0) {
    std::fprintf(stderr, "usage: sculler-rank --all N rank.json\n");
    return 2;
  }
  const auto n = sculler::parse_int(argv[2]);
  auto text = sculler::real_files().read(argv[3], 1 << 20);
  if (!text) return complain(text.error().text());
  auto spec = sculler::rank::parse_rank_spec(*text);
  if (!spec) return complain(spec.error().text());
  if (!n || *n != spec->n_ranks) return complain("N is not n_ranks of " + std::string(argv[3]));

  const std::vector<int> control = descriptors("SCULLER_CONTROL_FDS");
  const std::vector<int> vm = descriptors("SCULLER_VM_FDS");
  const auto ranks = static_cast<std::size_t>(spec->n_ranks);
  if (control.size() != ranks)
    return complain("SCULLER_CONTROL_FDS does not name one open descriptor a rank");
  if (spec->target == Target::kEmu && vm.size() != ranks)
    return complain("SCULLER_VM_FDS does not name one open descriptor a rank");
  if (const char* uid = std::getenv("SCULLER_DROP_UID"); uid != nullptr && !drop_root(uid))
    return complain("cannot give up root: SCULLER_DROP_UID=" + std::string(uid));

  void* shared = nullptr;
  if (spec->target == Target::kCpu && spec->n_ranks > 1) {
    shared = sculler::rank::make_shared_barrier(spec->n_ranks);
    if (shared == nullptr) return complain("no shared memory for the ranks' barrier");
  }
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int r = 0; r < spec->n_ranks; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) be_rank(*spec, r, control, vm, shared, parent);
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
    const pid_t pid = ::waitpid(-1, &status, 0);
    if (pid < 0) {
      if (errno == EINTR) continue;
      break;
    }
    bool own = false;
    for (const pid_t child : children) own = own || child == pid;
    if (!own) continue;
    --left;
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (result == 0) result = code;
  }
  return result;
}
