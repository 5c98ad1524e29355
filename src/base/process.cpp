#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <shared_mutex>

#include "base/files.h"
#include "base/guard.h"
#include "base/strings.h"

namespace sculler {
namespace {

// Held shared by every spawn, for good by stop_spawning().
std::shared_mutex spawn_gate;
std::atomic<bool> spawn_stopped{false};

int pidfd_open(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// What stands behind the last ')' of the name in /proc/PID/stat: state, parent, ... Empty where the
// process is gone.
struct Stat {
  std::string state;
  pid_t parent = 0;
};
std::optional<Stat> stat_of(const std::string& pid) {
  auto text = real_files().read("/proc/" + pid + "/stat", 4096);
  if (!text) return std::nullopt;
  const auto close = text->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  const auto words = split(trim(std::string_view(*text).substr(close + 1)), ' ');
  if (words.size() < 2) return std::nullopt;
  const auto parent = parse_int(words[1]);
  if (!parent) return std::nullopt;
  return Stat{std::string(words[0]), static_cast<pid_t>(*parent)};
}

// (pid, parent) of every process that lives.
std::vector<std::pair<pid_t, pid_t>> process_table() {
  std::vector<std::pair<pid_t, pid_t>> table;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    const auto pid = parse_int(name);
    if (!pid) continue;
    const auto stat = stat_of(name);
    if (stat && stat->state != "Z") table.emplace_back(static_cast<pid_t>(*pid), stat->parent);
  }
  return table;
}

// Kills all descendants of `roots` (and them) until a scan finds no new one. Stopped first, so that
// they cannot fork.
void kill_descendants(std::set<pid_t> tree) {
  for (int round = 0; round < 16; ++round) {
    const auto table = process_table();
    bool grown = false;
    for (bool again = true; again;) {
      again = false;
      for (const auto& [pid, parent] : table) {
        if (tree.count(parent) > 0 && tree.insert(pid).second) again = grown = true;
      }
    }
    if (!grown && round > 0) break;
    for (const pid_t pid : tree) ::kill(pid, SIGSTOP);
  }
  for (const pid_t pid : tree) ::kill(pid, SIGKILL);
}

class RealChild final : public Child {
 public:
  RealChild(pid_t pid, bool group, int in, int out, int err)
      : pid_(pid), group_(group), pid_fd_(pidfd_open(pid)), in_(in), out_(out), err_(err) {
    if (pid_fd_ >= 0) fcntl(pid_fd_, F_SETFD, FD_CLOEXEC);
  }
  ~RealChild() override {
    if (!status_) {
      kill_tree();
      (void)wait(-1);
    }
    close_fd(in_);
    close_fd(out_);
    close_fd(err_);
    close_fd(pid_fd_);
  }
  RealChild(const RealChild&) = delete;
  RealChild& operator=(const RealChild&) = delete;

  [[nodiscard]] int pid() const override { return pid_; }
  [[nodiscard]] int pid_fd() const override { return pid_fd_; }
  [[nodiscard]] int stdin_fd() const override { return in_; }
  [[nodiscard]] int stdout_fd() const override { return out_; }
  [[nodiscard]] int stderr_fd() const override { return err_; }
  void close_stdin() override { close_fd(in_); }

  [[nodiscard]] std::optional<ExitStatus> wait(int64_t timeout_ms) override {
    if (status_) return status_;
    if (timeout_ms > 0 && pid_fd_ >= 0) {
      pollfd p{pid_fd_, POLLIN, 0};
      (void)::poll(&p, 1, static_cast<int>(std::min<int64_t>(timeout_ms, INT32_MAX)));
    }
    int raw = 0;
    rusage usage{};
    pid_t got = 0;
    do {
      got = ::wait4(pid_, &raw, timeout_ms < 0 ? 0 : WNOHANG, &usage);
    } while (got < 0 && errno == EINTR);
    if (got == 0) return std::nullopt;
    ExitStatus status;
    if (got == pid_) {
      if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
      if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
      status.user_ns = usage.ru_utime.tv_sec * 1'000'000'000LL + usage.ru_utime.tv_usec * 1000LL;
      status.system_ns = usage.ru_stime.tv_sec * 1'000'000'000LL + usage.ru_stime.tv_usec * 1000LL;
      status.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    }
    status_ = status;
    return status_;
  }

  void kill_tree() override {
    // The group may outlive its leader, so it is signalled even when the leader has been reaped:
    // but then its number may be another's, so only before.
    if (status_) return;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_) {
      // A zombie has no children any more; what it left in its group still carries its number.
      if (group_) ::kill(-pid_, SIGKILL);
      return;
    }
    if (group_) ::kill(-pid_, SIGSTOP);
    kill_descendants({pid_});
    if (group_) ::kill(-pid_, SIGKILL);
  }

  void signal(int number) override {
    if (!status_) ::kill(pid_, number);
  }

 private:
  pid_t pid_;
  bool group_;
  int pid_fd_, in_, out_, err_;
  std::optional<ExitStatus> status_;
};

struct Prepared {
  std::vector<char*> argv, env;
  std::vector<std::string> env_text;
  std::string program;
};

// What the child does between fork and exec: only async-signal-safe calls. Returns errno of the
// step that failed.
struct ChildPlan {
  const SpawnOptions* options = nullptr;
  const Prepared* prepared = nullptr;
  int stdio[3] = {-1, -1, -1};
  int report = -1;
  pid_t parent = 0;

  static bool limit(__rlimit_resource what, const std::optional<uint64_t>& value) {
    if (!value) return true;
    rlimit current{};
    if (getrlimit(what, &current) != 0) return false;
    const rlim_t wanted =
        current.rlim_max == RLIM_INFINITY ? *value : std::min<rlim_t>(*value, current.rlim_max);
    const rlimit r{wanted, wanted};
    return setrlimit(what, &r) == 0;
  }

  [[noreturn]] void stop(int step) const {
    const int message[2] = {step, errno};
    (void)!::write(report, message, sizeof message);
    _exit(127);
  }

  [[noreturn]] void run() const {
    const SpawnOptions& o = *options;
    if (o.new_session) setsid();
    else if (o.own_group) setpgid(0, 0);
    if (o.die_with_parent) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
    }
    if (o.subreaper) prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    if (!o.cwd.empty() && ::chdir(o.cwd.c_str()) != 0) stop(1);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const ProcessLimits& l = o.limits;
    if (!limit(RLIMIT_CPU, l.cpu_seconds) || !limit(RLIMIT_AS, l.address_space_bytes) ||
        !limit(RLIMIT_DATA, l.data_bytes) || !limit(RLIMIT_FSIZE, l.file_bytes) ||
        !limit(RLIMIT_NPROC, l.processes) || !limit(RLIMIT_MEMLOCK, l.memlock_bytes)) {
      stop(2);
    }
    if (o.nice != 0) (void)!::nice(o.nice);
    // Sources first go above every target, so that no dup2 overwrites one that is still needed.
    int top = 16;
    for (const auto& [from, to] : o.fds) top = std::max(top, to + 1);
    int moved[64];
    if (o.fds.size() > 64) stop(3);
    int stdio_moved[3];
    for (int i = 0; i < 3; ++i) {
      stdio_moved[i] = stdio[i] < 0 ? -1 : fcntl(stdio[i], F_DUPFD_CLOEXEC, top);
      if (stdio[i] >= 0 && stdio_moved[i] < 0) stop(3);
    }
    for (std::size_t i = 0; i < o.fds.size(); ++i) {
      moved[i] = fcntl(o.fds[i].first, F_DUPFD_CLOEXEC, top);
      if (moved[i] < 0) stop(3);
    }
    const int report_moved = fcntl(report, F_DUPFD_CLOEXEC, top);
    if (report_moved < 0) stop(3);
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
      for (int fd = 3; fd < 4096; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    ChildPlan later = *this;
    later.report = report_moved;
    for (int i = 0; i < 3; ++i) {
      if (stdio_moved[i] >= 0 && dup2(stdio_moved[i], i) < 0) later.stop(3);
    }
    for (std::size_t i = 0; i < o.fds.size(); ++i) {
      if (dup2(moved[i], o.fds[i].second) < 0) later.stop(3);
    }
    if (!limit(RLIMIT_NOFILE, l.open_files)) later.stop(2);
    execve(prepared->program.c_str(), prepared->argv.data(), prepared->env.data());
    later.stop(4);
  }
};

Result<int> open_stdio(const Stdio& io, bool input) {
  int fd = -1;
  switch (io.kind) {
    case Stdio::Kind::kInherit:
    case Stdio::Kind::kPipe: return -1;
    case Stdio::Kind::kNull: fd = ::open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case Stdio::Kind::kFd: fd = fcntl(io.fd, F_DUPFD_CLOEXEC, 0); break;
    case Stdio::Kind::kFile:
      fd = input ? ::open(io.path.c_str(), O_RDONLY | O_CLOEXEC)
                 : ::open(io.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      break;
    case Stdio::Kind::kAppend:
      fd = ::open(io.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      break;
  }
  if (fd < 0) {
    return fail(Error{ErrorCode::kIo,
                      fmt::format("opening it for a child: {}", std::strerror(errno)),
                      io.path,
                      {},
                      {}});
  }
  return fd;
}

class RealProcesses final : public Processes {
 public:
  Result<std::unique_ptr<Child>> spawn(const SpawnOptions& options) override {
    if (options.argv.empty()) return fail(ErrorCode::kInternal, "spawn without a program");
    const std::shared_lock gate(spawn_gate);
    if (spawn_stopped) return fail(ErrorCode::kChildFailed, "this process is about to end");
    Prepared prepared;
    prepared.program = find_program(options.argv[0]);
    if (prepared.program.empty()) {
      return fail(Error{ErrorCode::kNotFound, "no such program", options.argv[0], {}, {}});
    }
    for (const auto& word : options.argv) prepared.argv.push_back(const_cast<char*>(word.c_str()));
    prepared.argv.push_back(nullptr);
    for (const auto& [name, value] : options.env) prepared.env_text.push_back(name + "=" + value);
    for (auto& text : prepared.env_text) prepared.env.push_back(text.data());
    prepared.env.push_back(nullptr);

    // Here and there ends of stdin, stdout, stderr.
    int here[3] = {-1, -1, -1}, there[3] = {-1, -1, -1}, report[2] = {-1, -1};
    const auto close_all = [&] {
      for (int& fd : here) close_fd(fd);
      for (int& fd : there) close_fd(fd);
      for (int& fd : report) close_fd(fd);
    };
    const Stdio* ios[3] = {&options.in, &options.out, &options.err};
    for (int i = 0; i < 3; ++i) {
      if (ios[i]->kind == Stdio::Kind::kPipe) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
          const int number = errno;
          close_all();
          return fail(ErrorCode::kIo, fmt::format("making a pipe: {}", std::strerror(number)));
        }
        here[i] = i == 0 ? ends[1] : ends[0];
        there[i] = i == 0 ? ends[0] : ends[1];
      } else {
        auto fd = open_stdio(*ios[i], i == 0);
        if (!fd) {
          close_all();
          return fail(fd.error());
        }
        there[i] = *fd;
      }
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
      const int number = errno;
      close_all();
      return fail(ErrorCode::kIo, fmt::format("making a pipe: {}", std::strerror(number)));
    }
    ChildPlan plan;
    plan.options = &options;
    plan.prepared = &prepared;
    for (int i = 0; i < 3; ++i) plan.stdio[i] = there[i];
    plan.report = report[1];
    plan.parent = getpid();
    // A signal handler of ours must not run in the child before it has its own.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const pid_t pid = ::fork();
    if (pid == 0) plan.run();
    const int number = errno;
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (pid < 0) {
      close_all();
      return fail(ErrorCode::kIo,
                  fmt::format("starting {}: {}", options.argv[0], std::strerror(number)));
    }
    close_fd(report[1]);
    for (int& fd : there) close_fd(fd);
    int message[2] = {0, 0};
    ssize_t n = 0;
    do { n = ::read(report[0], message, sizeof message); } while (n < 0 && errno == EINTR);
    close_fd(report[0]);
    auto child = std::make_unique<RealChild>(pid, options.own_group || options.new_session, here[0],
                                             here[1], here[2]);
    if (n == static_cast<ssize_t>(sizeof message)) {
      (void)child->wait(-1);
      static constexpr const char* kSteps[] = {"", "entering its folder", "setting its limits",
                                               "passing its descriptors", "executing it"};
      return fail(Error{
          ErrorCode::kIo,
          fmt::format("{}: {}", kSteps[std::clamp(message[0], 0, 4)], std::strerror(message[1])),
          prepared.program,
          {},
          {}});
    }
    return child;
  }
};

}  // namespace

Processes& real_processes() {
  static RealProcesses processes;
  return processes;
}

std::string ExitStatus::text() const {
  if (timed_out) return "timed out";
  if (signal != 0) {
    const char* name = sigabbrev_np(signal);
    return fmt::format("killed by signal {} (SIG{})", signal, name != nullptr ? name : "?");
  }
  return fmt::format("exit code {}", code);
}

Status become_subreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return fail(ErrorCode::kIo, fmt::format("PR_SET_CHILD_SUBREAPER: {}", std::strerror(errno)));
  }
  return {};
}

void stop_spawning() {
  const std::unique_lock gate(spawn_gate);
  spawn_stopped = true;
}

bool spawning_stopped() { return spawn_stopped; }

int kill_orphans(const std::vector<int>& keep) {
  const std::set<pid_t> kept(keep.begin(), keep.end());
  int killed = 0;
  // What a killed process had started becomes a child of this one (a subreaper) and is found in the
  // next round.
  for (int round = 0; round < 256; ++round) {
    std::set<pid_t> doomed;
    for (const auto& [pid, parent] : process_table()) {
      if (parent == getpid() && kept.count(pid) == 0) doomed.insert(pid);
    }
    if (doomed.empty()) break;
    kill_descendants(doomed);
    for (const pid_t pid : doomed) {
      if (::waitpid(pid, nullptr, 0) == pid) ++killed;
    }
  }
  return killed;
}

int parent_of(int pid) {
  const auto stat = stat_of(std::to_string(pid));
  return stat ? stat->parent : 0;
}

std::string find_program(std::string_view name) {
  if (name.empty()) return {};
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    return ::access(path.c_str(), X_OK) == 0 && !real_files().is_folder(path) ? path
                                                                              : std::string();
  }
  std::string path = env_value("PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto folder : split(path, ':')) {
    const std::string full = join_path(folder.empty() ? "." : folder, name);
    if (::access(full.c_str(), X_OK) == 0 && !real_files().is_folder(full)) return full;
  }
  return {};
}

std::string env_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::pair<std::string, std::string>> env_subset(const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& name : names) {
    if (const char* value = std::getenv(name.c_str())) out.emplace_back(name, value);
  }
  return out;
}

}  // namespace sculler
