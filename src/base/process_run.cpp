#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "base/process.h"

namespace sculler {
namespace {

// Blocks SIGPIPE for this thread while a pipe is written, and swallows one that we caused.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~NoSigpipe() {
    if (sigismember(&old_, SIGPIPE) == 0) {
      const timespec now{0, 0};
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {}
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, old_;
};

// False at the end of the stream. At most a MiB at a time: a writer that never pauses must not
// keep the caller from its deadline.
bool drain(int fd, std::string& into, uint64_t max_bytes, bool& truncated) {
  char chunk[65536];
  for (int i = 0; i < 16; ++i) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    const uint64_t room = max_bytes - std::min<uint64_t>(max_bytes, into.size());
    into.append(chunk, std::min<uint64_t>(room, static_cast<uint64_t>(n)));
    if (room < static_cast<uint64_t>(n)) truncated = true;
  }
  return true;
}

class FakeChild final : public Child {
 public:
  FakeChild(int pid, FakeProcesses::Outcome outcome) : pid_(pid), outcome_(std::move(outcome)) {}
  [[nodiscard]] int pid() const override { return pid_; }
  [[nodiscard]] int pid_fd() const override { return -1; }
  [[nodiscard]] int stdin_fd() const override { return -1; }
  [[nodiscard]] int stdout_fd() const override { return -1; }
  [[nodiscard]] int stderr_fd() const override { return -1; }
  void close_stdin() override {}
  [[nodiscard]] std::optional<ExitStatus> wait(int64_t) override { return outcome_.status; }
  void kill_tree() override {}
  void signal(int) override {}
  [[nodiscard]] const FakeProcesses::Outcome& outcome() const { return outcome_; }

 private:
  int pid_;
  FakeProcesses::Outcome outcome_;
};

}  // namespace

Result<CommandResult> run_command(Processes& processes, SpawnOptions options,
                                  std::string_view input, int64_t timeout_ms, uint64_t max_bytes,
                                  RunBounds bounds) {
  options.in = input.empty() ? Stdio::null() : Stdio::pipe();
  options.out = options.err = Stdio::pipe();
  auto spawned = processes.spawn(options);
  if (!spawned) return fail(spawned.error());
  Child& child = **spawned;
  CommandResult result;
  if (const auto* fake = dynamic_cast<const FakeChild*>(&child)) {
    result.status = fake->outcome().status;
    result.out = fake->outcome().out.substr(0, max_bytes);
    result.err = fake->outcome().err.substr(0, max_bytes);
    return result;
  }
  const NoSigpipe guard;
  for (const int fd : {child.stdin_fd(), child.stdout_fd(), child.stderr_fd()}) {
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  const int64_t end = real_clock().now_ns() + timeout_ms * 1'000'000;
  bool out_open = true, err_open = true, in_open = child.stdin_fd() >= 0;
  std::optional<ExitStatus> status;
  // The streams may be held open by grandchildren; the program's own end is what counts, plus what
  // is readable then.
  while (!status) {
    const int64_t left_ms = (end - real_clock().now_ns()) / 1'000'000;
    if (timeout_ms >= 0 && left_ms <= 0) {
      child.kill_tree();
      status = child.wait(-1);
      if (status) status->timed_out = true;
      break;
    }
    pollfd polls[5] = {{child.pid_fd(), POLLIN, 0},
                       {out_open ? child.stdout_fd() : -1, POLLIN, 0},
                       {err_open ? child.stderr_fd() : -1, POLLIN, 0},
                       {in_open ? child.stdin_fd() : -1, POLLOUT, 0},
                       {bounds.cancel_fd, POLLIN, 0}};
    const int wait_ms =
        timeout_ms < 0 ? -1 : static_cast<int>(std::min<int64_t>(left_ms, 3'600'000));
    if (::poll(polls, 5, wait_ms) < 0 && errno != EINTR) break;
    if (polls[4].revents != 0) {
      child.kill_tree();
      status = child.wait(-1);
      break;
    }
    if (polls[1].revents != 0)
      out_open = drain(child.stdout_fd(), result.out, max_bytes, result.truncated);
    if (polls[2].revents != 0)
      err_open = drain(child.stderr_fd(), result.err, max_bytes, result.truncated);
    if (bounds.end_when_full && result.truncated) {
      child.kill_tree();
      status = child.wait(-1);
      break;
    }
    if (polls[3].revents != 0) {
      const ssize_t n = ::write(child.stdin_fd(), input.data(), input.size());
      if (n > 0) input.remove_prefix(static_cast<std::size_t>(n));
      if ((n < 0 && errno != EAGAIN && errno != EINTR) || input.empty()) {
        child.close_stdin();
        in_open = false;
      }
    }
    if (polls[0].revents != 0) {
      // Its descendants must not outlive it: stop them before it is reaped, while its group's
      // number is its own.
      child.kill_tree();
      status = child.wait(-1);
    }
  }
  if (out_open) (void)drain(child.stdout_fd(), result.out, max_bytes, result.truncated);
  if (err_open) (void)drain(child.stderr_fd(), result.err, max_bytes, result.truncated);
  if (status) result.status = *status;
  return result;
}

Result<std::unique_ptr<Child>> FakeProcesses::spawn(const SpawnOptions& options) {
  spawned_.push_back(options);
  auto outcome = script_(options);
  if (!outcome) return fail(outcome.error());
  return std::unique_ptr<Child>(
      std::make_unique<FakeChild>(1000 + static_cast<int>(spawned_.size()), std::move(*outcome)));
}

}  // namespace sculler
