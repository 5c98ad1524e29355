// Child processes behind an interface: an environment that is exactly what is listed, descriptors
// by number, limits, a process group, death with the parent, and the end of the whole tree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler {

struct Stdio {
  enum class Kind { kInherit, kNull, kPipe, kFile, kAppend, kFd };
  Kind kind = Kind::kNull;
  std::string path{};  // kFile (truncated), kAppend; for stdin: read
  int fd = -1;         // kFd

  static Stdio inherit() { return {Kind::kInherit, {}, -1}; }
  static Stdio null() { return {Kind::kNull, {}, -1}; }
  static Stdio pipe() { return {Kind::kPipe, {}, -1}; }
  static Stdio file(std::string path) { return {Kind::kFile, std::move(path), -1}; }
  static Stdio append(std::string path) { return {Kind::kAppend, std::move(path), -1}; }
  static Stdio from_fd(int fd) { return {Kind::kFd, {}, fd}; }
};

// setrlimit values; what is empty stays as inherited. Core dumps are always off.
struct ProcessLimits {
  std::optional<uint64_t> cpu_seconds, address_space_bytes, data_bytes, file_bytes, open_files,
      processes,
      memlock_bytes;  // data_bytes: private writable memory; reserved addresses do not count
};

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] without a slash is looked up in PATH of this process
  std::vector<std::pair<std::string, std::string>> env;  // exactly these, nothing is inherited
  std::string cwd{};
  Stdio in = Stdio::null(), out = Stdio::pipe(), err = Stdio::pipe();
  // (descriptor here, number there), numbers >= 3. Every other descriptor above 2 is closed at
  // exec.
  std::vector<std::pair<int, int>> fds{};
  ProcessLimits limits{};
  bool own_group = true;
  bool new_session = false;     // setsid instead of setpgid: no controlling terminal
  bool die_with_parent = true;  // PR_SET_PDEATHSIG: SIGKILL when the spawning *thread* ends
  bool subreaper = false;       // PR_SET_CHILD_SUBREAPER in the child (it adopts its orphans)
  int nice = 0;
};

struct ExitStatus {
  int code = -1;  // exit code, -1 where a signal ended it
  int signal = 0;
  bool timed_out = false;  // set by those who killed it at a deadline
  int64_t user_ns = 0, system_ns = 0;
  uint64_t peak_rss_bytes = 0;
  [[nodiscard]] bool ok() const { return code == 0 && signal == 0 && !timed_out; }
  // "exit code 3", "killed by signal 9 (SIGKILL)", "timed out".
  [[nodiscard]] std::string text() const;
};

class Child {
 public:
  virtual ~Child() = default;  // kills the tree and reaps
  [[nodiscard]] virtual int pid() const = 0;
  // Becomes readable when the process ends; for poll().
  [[nodiscard]] virtual int pid_fd() const = 0;
  // Ends of the pipes asked for, else -1. Owned by the child object.
  [[nodiscard]] virtual int stdin_fd() const = 0;
  [[nodiscard]] virtual int stdout_fd() const = 0;
  [[nodiscard]] virtual int stderr_fd() const = 0;
  virtual void close_stdin() = 0;
  // Empty where it still runs after `timeout_ms` (0: ask only; negative: for ever). Idempotent.
  [[nodiscard]] virtual std::optional<ExitStatus> wait(int64_t timeout_ms) = 0;
  // SIGKILL to the group and to every descendant found, also those that left the group.
  virtual void kill_tree() = 0;
  virtual void signal(int number) = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<Child>> spawn(const SpawnOptions& options) = 0;
};

[[nodiscard]] Processes& real_processes();

// Makes this process adopt orphaned descendants, so that kill_orphans() finds them.
[[nodiscard]] Status become_subreaper();
// Kills every child (and its descendants) of this process except the pids in `keep`, and reaps
// them. Returns how many.
int kill_orphans(const std::vector<int>& keep);

struct CommandResult {
  ExitStatus status;
  std::string out, err;
  bool truncated = false;  // more than max_bytes came on one stream; the rest was dropped
};

struct RunBounds {
  int cancel_fd = -1;          // the tree is killed when it becomes readable
  bool end_when_full = false;  // killed when a stream has written more than max_bytes
};

// Runs to the end with `input` on stdin, both streams captured, the tree killed at the deadline.
// options.in/out/err are overridden by pipes.
[[nodiscard]] Result<CommandResult> run_command(Processes& processes, SpawnOptions options,
                                                std::string_view input, int64_t timeout_ms,
                                                uint64_t max_bytes = uint64_t{16} << 20,
                                                RunBounds bounds = {});

// The parent of a process, 0 where there is none or the process is gone.
[[nodiscard]] int parent_of(int pid);
// Absolute path of a program as execvp would find it; empty where there is none.
[[nodiscard]] std::string find_program(std::string_view name);
// The value of an environment variable of this process, empty where unset.
[[nodiscard]] std::string env_value(const char* name);
// The (name, value) pairs of this process's environment among `names`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> env_subset(
    const std::vector<std::string>& names);

// Answers spawn() with scripted outcomes; what was asked is kept. Only run_command and wait are
// served.
class FakeProcesses final : public Processes {
 public:
  struct Outcome {
    ExitStatus status{};
    std::string out{}, err{};
  };
  using Script = std::function<Result<Outcome>(const SpawnOptions&)>;
  explicit FakeProcesses(Script script) : script_(std::move(script)) {}
  [[nodiscard]] Result<std::unique_ptr<Child>> spawn(const SpawnOptions& options) override;
  [[nodiscard]] const std::vector<SpawnOptions>& spawned() const { return spawned_; }

 private:
  Script script_;
  std::vector<SpawnOptions> spawned_;
};

}  // namespace sculler
