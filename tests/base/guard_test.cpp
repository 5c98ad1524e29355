#include "base/guard.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/process.h"

namespace sculler {
namespace {

bool alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const auto close = text.str().rfind(") ");
  return close != std::string::npos && text.str()[close + 2] != 'Z';
}

bool all_dead_soon(const std::vector<pid_t>& pids) {
  for (int i = 0; i < 500; ++i) {
    bool any = false;
    for (const pid_t pid : pids) any = any || alive(pid);
    if (!any) return true;
    ::usleep(10'000);
  }
  return false;
}

// A guarded process whose worker started what tries to get away: children of children, in sessions
// of their own, one of them an orphan already. pids: worker, then those.
struct Guarded {
  pid_t guardian = 0;
  std::vector<pid_t> pids;
};

Guarded start_guarded() {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  Guarded out;
  out.guardian = ::fork();
  if (out.guardian == 0) {
    ::close(fds[0]);
    run_guarded("test-guard", [] {});
    SpawnOptions options;
    options.argv = {
        "/bin/sh", "-c",
        "setsid sh -c 'sleep 300 & echo $!; sleep 300 & echo $!' & sleep 300 & echo $!; "
        "(setsid sleep 300 & echo $!); echo end; wait; sleep 300"};
    options.env = {{"PATH", "/usr/bin:/bin"}};
    options.out = Stdio::from_fd(fds[1]);
    options.err = Stdio::null();
    ::dprintf(fds[1], "%d\n", ::getpid());
    auto child = real_processes().spawn(options);
    if (!child) ::_exit(1);
    ::close(fds[1]);
    for (;;) ::pause();
  }
  ::close(fds[1]);
  FILE* lines = ::fdopen(fds[0], "r");
  char text[64];
  // The worker, "end" and four sleepers, in some order after the first.
  for (int i = 0; i < 6 && std::fgets(text, sizeof text, lines) != nullptr; ++i) {
    if (std::string(text) != "end\n") out.pids.push_back(std::atoi(text));
  }
  std::fclose(lines);
  return out;
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Guard, AKilledWorkerLeavesNothing) {
  const Guarded g = start_guarded();
  ASSERT_EQ(g.pids.size(), 5u);
  for (const pid_t pid : g.pids) EXPECT_TRUE(alive(pid));
  ASSERT_EQ(::kill(g.pids[0], SIGKILL), 0);
  // Everything is dead when the guardian ends, and it ends as the worker did.
  const int status = status_of(g.guardian);
  for (const pid_t pid : g.pids) EXPECT_FALSE(alive(pid));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(Guard, AKilledGuardianLeavesNothing) {
  const Guarded g = start_guarded();
  ASSERT_EQ(g.pids.size(), 5u);
  ASSERT_EQ(::kill(g.guardian, SIGKILL), 0);
  (void)status_of(g.guardian);
  EXPECT_TRUE(all_dead_soon(g.pids));
}

// Who kills a tree stops it first; where that one dies in between, its guardian dies of it.
TEST(Guard, AKilledGuardianOfAStoppedTreeLeavesNothing) {
  const Guarded g = start_guarded();
  ASSERT_EQ(g.pids.size(), 5u);
  ASSERT_EQ(::kill(g.guardian, SIGSTOP), 0);
  for (const pid_t pid : g.pids) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::kill(g.guardian, SIGKILL), 0);
  (void)status_of(g.guardian);
  EXPECT_TRUE(all_dead_soon(g.pids));
}

TEST(Guard, ASignalIsPassedOn) {
  const Guarded g = start_guarded();
  ASSERT_EQ(g.pids.size(), 5u);
  ASSERT_EQ(::kill(g.guardian, SIGTERM), 0);
  const int status = status_of(g.guardian);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  for (const pid_t pid : g.pids) EXPECT_FALSE(alive(pid));
}

TEST(Guard, TheExitCodeIsTheWorkers) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    run_guarded("test-guard", [] {});
    ::_exit(7);
  }
  const int status = status_of(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(Guard, NothingIsSpawnedAfterTheStop) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    stop_spawning();
    SpawnOptions options;
    options.argv = {"/bin/true"};
    ::_exit(real_processes().spawn(options) ? 1 : 0);
  }
  EXPECT_EQ(status_of(pid), 0);
}

}  // namespace
}  // namespace sculler
