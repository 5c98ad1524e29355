#include "base/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/process.h"

namespace sculler {
namespace {

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
volatile sig_atomic_t worker_pid = 0;

void pass_on(int number) {
  if (worker_pid > 0) ::kill(static_cast<pid_t>(worker_pid), number);
}

// Ends this process as `status` (of waitpid) says.
[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    std::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
    ::_exit(128 + WTERMSIG(status));
  }
  ::_exit(WEXITSTATUS(status));
}

}  // namespace

void run_guarded(const char* name, const std::function<void()>& after) {
  std::array<int, 2> life{};
  if (::pipe2(life.data(), O_CLOEXEC) != 0) return;
  (void)become_subreaper();
  sigset_t passed, old;
  sigemptyset(&passed);
  for (const int number : kPassedOn) sigaddset(&passed, number);
  sigprocmask(SIG_BLOCK, &passed, &old);
  const pid_t worker = ::fork();
  if (worker < 0) {
    ::close(life[0]);
    ::close(life[1]);
  } else if (worker > 0) {
    // The write end stays with this process alone: its death is an end of file for the worker.
    ::close(life[0]);
    ::prctl(PR_SET_NAME, name);
    worker_pid = worker;
    for (const int number : kPassedOn) std::signal(number, pass_on);
    sigprocmask(SIG_SETMASK, &old, nullptr);
    int status = 0;
    // Orphans that end are reaped on the way.
    for (pid_t ended = 0; ended != worker;) {
      ended = ::waitpid(-1, &status, 0);
      if (ended < 0 && errno != EINTR) break;
    }
    const int killed = kill_orphans({});
    if (WIFSIGNALED(status)) {
      const char* text = sigabbrev_np(WTERMSIG(status));
      ::dprintf(STDERR_FILENO, "%s: process %d ended by SIG%s; %d below it were killed\n", name,
                worker, text == nullptr ? "?" : text, killed);
    }
    after();
    end_as(status);
  } else {
    ::close(life[1]);
    // Who kills the pair stops it first, so that it starts nothing more (kill_tree). Where that one
    // dies in between, the guardian dies of it, and this process must wake up to see that.
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
    (void)become_subreaper();
    std::thread([watched = life[0], after] {
      char byte = 0;
      while (::read(watched, &byte, 1) < 0 && errno == EINTR) {}
      ::dprintf(STDERR_FILENO, "process %d: its guardian was killed; it ends\n", ::getpid());
      end_with_all(3, after);
    }).detach();
  }
  sigprocmask(SIG_SETMASK, &old, nullptr);
}

void end_with_all(int code, const std::function<void()>& last) {
  stop_spawning();
  kill_orphans({});
  last();
  ::_exit(code);
}

}  // namespace sculler
