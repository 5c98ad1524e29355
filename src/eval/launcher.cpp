#include "eval/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/strings.h"
#include "eval/sandbox_report.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLineLimit = std::size_t{4} << 20;
constexpr std::size_t kTailLimit = 8192;
constexpr int kFirstFd = 10;  // numbers of the sockets in both children
constexpr int kUidBase =
    61000;  // unprivileged uids, one a job at a time, so that jobs cannot signal each other
constexpr int kUidCount = 256;
constexpr const char* kFolderInside = "/sculler/job";

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct Pair {
  Fd trusted, rank;
};

Result<std::vector<Pair>> make_pairs(int n, int type) {
  std::vector<Pair> pairs;
  for (int i = 0; i < n; ++i) {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()) != 0) {
      return fail(ErrorCode::kIo, std::string("socketpair: ") + std::strerror(errno),
                  "Raise the limit of open files.");
    }
    pairs.push_back({Fd(fds[0]), Fd(fds[1])});
  }
  return pairs;
}

std::string number_list(int first, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i == 0 ? "" : ",") + std::to_string(first + i);
  return text;
}

Status write_file(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  const Fd owner(fd);
  std::size_t done = 0;
  while (fd >= 0 && done < text.size()) {
    const auto n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (fd >= 0 && done == text.size()) return {};
  return fail(Error{errno == ENOSPC ? ErrorCode::kDiskFull : ErrorCode::kIo, std::strerror(errno),
                    path, "", "Set TMPDIR to a file system with room."});
}

// True where any uid can read the file: every folder on the way can be entered.
bool open_to_others(const std::string& path) {
  std::error_code why;
  const fs::path real = fs::canonical(path, why);
  struct stat info{};
  if (why || ::stat(real.c_str(), &info) != 0) return false;
  const mode_t need = S_ISDIR(info.st_mode) ? (S_IROTH | S_IXOTH) : S_IROTH;
  if ((info.st_mode & need) != need) return false;
  for (fs::path folder = real.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (::stat(folder.c_str(), &info) != 0 || (info.st_mode & S_IXOTH) == 0) return false;
  }
  return true;
}

uint64_t physical_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes)
                                : uint64_t{8} << 30;
}

void keep_tail(std::string& tail, const char* data, std::size_t bytes) {
  tail.append(data, bytes);
  if (tail.size() > 2 * kTailLimit) tail.erase(0, tail.size() - kTailLimit);
}

// Kills every process whose first environment holds `token`. Only for machines without PID
// namespaces, where a rank's child can leave its group and outlive its parent. Again until none is
// found: what forks while /proc is read is only seen by the next reading.
void kill_marked(const std::string& token) {
  for (int round = 0; round < 256; ++round) {
    bool found = false;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const auto pid = parse_int(entry.path().filename().string());
      if (!pid || *pid <= 1 || *pid == ::getpid()) continue;
      // Nothing can be read of one that is dead already.
      auto environment = real_files().read(entry.path().string() + "/environ", uint64_t{1} << 20);
      if (!environment || environment->find(token) == std::string::npos) continue;
      found = true;
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
    }
    if (!found) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class LocalGroup final : public Group {
 public:
  // `mark`: what the environment of everything below the ranks holds; empty where a PID namespace
  // ends them.
  // `report`: the reading end of the ranks' report pipe.
  LocalGroup(std::unique_ptr<JobCgroup> cgroup, std::unique_ptr<Child> trusted,
             std::unique_ptr<Child> ranks, Fd report, std::string folder, std::string mark,
             std::vector<std::string> notes)
      : notes_(std::move(notes)),
        cgroup_(std::move(cgroup)),
        report_(std::move(report)),
        trusted_(std::move(trusted)),
        ranks_(std::move(ranks)),
        folder_(std::move(folder)),
        mark_(std::move(mark)),
        start_ms_(now_ms()) {
    for (const int fd :
         {trusted_->stdout_fd(), trusted_->stderr_fd(), ranks_->stdout_fd(), ranks_->stderr_fd()}) {
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
    }
  }

  ~LocalGroup() override {
    trusted_.reset();
    ranks_.reset();
    if (!mark_.empty()) kill_marked(mark_);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Result<std::string> ask(const std::string& line, int64_t timeout_ms) override {
    if (!line.empty()) {
      const std::string text = line + "\n";
      if (::write(trusted_->stdin_fd(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size())) {
        return fail(ErrorCode::kChildFailed, "the trusted process closed its input");
      }
    }
    const int64_t deadline = now_ms() + timeout_ms;
    for (;;) {
      if (const auto end = answer_.find('\n'); end != std::string::npos) {
        last_line_ = answer_.substr(0, end);
        answer_.erase(0, end + 1);
        return last_line_;
      }
      if (answer_.size() > kLineLimit)
        return fail(ErrorCode::kProtocol, "the trusted process's answer is too long");
      if (open_[0] == false) {
        trusted_ended_ = true;
        return fail(ErrorCode::kChildFailed, "the trusted process ended without an answer");
      }
      const int64_t left = deadline - now_ms();
      if (left <= 0) {
        timed_out_ = true;
        return fail(ErrorCode::kTimeout, "no answer within " + std::to_string(timeout_ms) + " ms");
      }
      pump(left);
    }
  }

  GroupOutcome finish(int64_t grace_ms) override {
    GroupOutcome out;
    trusted_->close_stdin();
    const int64_t deadline = now_ms() + (timed_out_ ? 0 : grace_ms);
    std::optional<ExitStatus> trusted = trusted_->wait(0), ranks = ranks_->wait(0);
    while ((!trusted || !ranks) && now_ms() < deadline) {
      pump(std::min<int64_t>(deadline - now_ms(), 1000),
           !trusted ? trusted_->pid_fd() : ranks_->pid_fd());
      trusted = trusted_->wait(0);
      ranks = ranks_->wait(0);
    }
    out.ranks_ended = ranks.has_value();
    if (!trusted) {
      trusted_->kill_tree();
      trusted = trusted_->wait(5000);
    }
    // Read before anything is killed: what is there now has outlived its rank, or hangs.
    CgroupEvents events;
    if (cgroup_ != nullptr) events = cgroup_->events();
    ranks_->kill_tree();
    if (cgroup_ != nullptr) cgroup_->kill();
    if (!ranks) ranks = ranks_->wait(5000);
    while (pump(0)) {}
    out.incidents = read_report(report_.get());
    add_cgroup_events(out.incidents, events, out.ranks_ended);
    out.line = last_line_;
    out.notes = notes_;
    out.timed_out = timed_out_;
    out.trusted_ended = trusted_ended_;
    out.trusted = trusted.value_or(ExitStatus{});
    out.ranks = ranks.value_or(ExitStatus{});
    out.trusted_error = tail_of(trusted_error_);
    out.output = tail_of(output_);
    out.wall_ms = static_cast<double>(now_ms() - start_ms_);
    out.cpu_ms = static_cast<double>(out.trusted.user_ns + out.trusted.system_ns +
                                     out.ranks.user_ns + out.ranks.system_ns) /
                 1e6;
    return out;
  }

 private:
  static std::string tail_of(const std::string& text) {
    return text.size() > kTailLimit ? text.substr(text.size() - kTailLimit) : text;
  }

  // Waits for output of anyone (or for `extra_fd`) and takes it. False where nothing came.
  bool pump(int64_t timeout_ms, int extra_fd = -1) {
    std::array<pollfd, 5> fds{};
    const std::array<int, 4> all{trusted_->stdout_fd(), trusted_->stderr_fd(), ranks_->stdout_fd(),
                                 ranks_->stderr_fd()};
    for (std::size_t i = 0; i < all.size(); ++i) fds[i] = {open_[i] ? all[i] : -1, POLLIN, 0};
    fds[4] = {extra_fd, POLLIN, 0};
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(timeout_ms, 1 << 30))) <=
        0)
      return false;
    bool any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      std::array<char, 16384> buffer;
      const auto n = ::read(all[i], buffer.data(), buffer.size());
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) open_[i] = false;
      if (n <= 0) continue;
      any = true;
      const auto bytes = static_cast<std::size_t>(n);
      if (i == 0) {
        if (answer_.size() <= kLineLimit) answer_.append(buffer.data(), bytes);
      } else {
        keep_tail(i == 1 ? trusted_error_ : output_, buffer.data(), bytes);
      }
    }
    return any;
  }

  std::vector<std::string> notes_;
  std::unique_ptr<JobCgroup> cgroup_;  // goes last: everything in it has ended by then
  Fd report_;
  std::unique_ptr<Child> trusted_, ranks_;
  std::string folder_, mark_;
  int64_t start_ms_;
  std::array<bool, 4> open_{true, true, true, true};
  std::string answer_, last_line_, trusted_error_, output_;
  bool timed_out_ = false, trusted_ended_ = false;
};

}  // namespace

Result<std::unique_ptr<Group>> LocalLauncher::start(const GroupSpec& spec) {
  static std::atomic<int> counter{0};
  const int number = counter.fetch_add(1);
  const std::string folder = scratch_ + "/" + spec.label + "-" + std::to_string(number);
  const std::string ranks_folder = folder + "/ranks";
  std::error_code why;
  fs::create_directories(ranks_folder, why);
  if (why)
    return fail(
        Error{ErrorCode::kIo, why.message(), ranks_folder, "", "Set TMPDIR to a writable folder."});
  if (auto done = write_file(folder + "/job.json", spec.job_json, 0600); !done)
    return fail(done.error());
  if (auto done = write_file(ranks_folder + "/rank.json", spec.rank_json, 0644); !done)
    return fail(done.error());

  const int n = spec.n_ranks;
  auto control = make_pairs(n, SOCK_SEQPACKET);
  if (!control) return fail(control.error());
  const bool emu = spec.target == Target::kEmu;
  auto vm = make_pairs(emu ? n : 0, SOCK_STREAM);
  if (!vm) return fail(vm.error());

  Environment lists{{"SCULLER_CONTROL_FDS", number_list(kFirstFd, n)}};
  if (emu) lists.emplace_back("SCULLER_VM_FDS", number_list(kFirstFd + n, n));

  SpawnOptions trusted;
  trusted.argv = {installation_.programs + (emu ? "/sculler-vm" : "/sculler-verify"),
                  folder + "/job.json"};
  trusted.env = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}};
  trusted.env.insert(trusted.env.end(), spec.trusted_env.begin(), spec.trusted_env.end());
  trusted.env.insert(trusted.env.end(), lists.begin(), lists.end());
  trusted.in = Stdio::pipe();
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    trusted.fds.emplace_back((*control)[at].trusted.get(), kFirstFd + i);
    if (emu) trusted.fds.emplace_back((*vm)[at].trusted.get(), kFirstFd + n + i);
  }

  Confined ranks;
  const std::string runner = installation_.programs + "/sculler-rank";
  ranks.argv = {runner, "--all", std::to_string(n), "rank.json"};
  ranks.ranks = true;
  ranks.env = spec.env;
  ranks.env.insert(ranks.env.end(), lists.begin(), lists.end());
  const std::string mark = sandbox_.remaps() ? "" : "SCULLER_GROUP=" + folder;
  if (!mark.empty()) ranks.env.emplace_back("SCULLER_GROUP", folder);
  ranks.cwd = kFolderInside;
  ranks.cwd_outside = ranks_folder;
  ranks.binds = spec.binds;
  ranks.binds.push_back({.source = ranks_folder, .at = kFolderInside});
  ranks.gpu = spec.target == Target::kCuda;
  std::vector<std::string> notes;
  bool drops = sandbox_.root() && sandbox_.level() != Containment::kNone;
  if (drops && !sandbox_.remaps()) {
    // Without binds the ranks use the real paths, which an unprivileged uid must be able to reach.
    std::vector<std::string> needed{runner};
    for (const auto& bind : ranks.binds) needed.push_back(bind.source);
    for (const auto& path : needed) {
      if (!drops || open_to_others(path)) continue;
      notes.push_back("the ranks kept root's uid: " + path + " is closed to others");
      drops = false;
    }
  }
  if (drops) ranks.uid = static_cast<uint32_t>(kUidBase + number % kUidCount);
  ranks.limits.open_files = 4096;
  ranks.limits.file_bytes = uint64_t{1} << 30;
  // A process: on cuda the driver reserves addresses without bound, on emu device memory is
  // reserved the same way.
  const uint64_t share = std::max(uint64_t{1} << 30, physical_memory() / 4);
  if (spec.target == Target::kEmu) ranks.limits.data_bytes = share;
  if (spec.target == Target::kCpu) ranks.limits.address_space_bytes = share;
  const bool cuda = spec.target == Target::kCuda;
  ranks.processes = cuda ? 4096 : 512;
  // All ranks together; on cuda what the driver and NCCL pin is theirs too.
  CgroupLimits limits{ranks.processes, physical_memory() / 4 * (cuda ? 3 : 2)};
  auto cgroup = sandbox_.job_cgroup(spec.label + "-" + std::to_string(number), limits);
  ranks.cgroup = cgroup.get();
  // A group comes first, where there is one that counts: it says what it refuses.
  if (cgroup != nullptr && sandbox_.strength().cgroups->limits_processes()) ranks.processes *= 2;
  std::array<int, 2> report{-1, -1};
  if (::pipe2(report.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return fail(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
  Fd report_read(report[0]);
  const Fd report_write(report[1]);
  ranks.report_fd = report_write.get();
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ranks.fds.emplace_back((*control)[at].rank.get(), kFirstFd + i);
    if (emu) ranks.fds.emplace_back((*vm)[at].rank.get(), kFirstFd + n + i);
  }

  auto trusted_child = processes_.spawn(trusted);
  if (!trusted_child) return fail(trusted_child.error());
  auto ranks_child = processes_.spawn(sandbox_.wrap(ranks));
  if (!ranks_child) return fail(ranks_child.error());
  return std::make_unique<LocalGroup>(std::move(cgroup), std::move(*trusted_child),
                                      std::move(*ranks_child), std::move(report_read), folder, mark,
                                      std::move(notes));
}

Result<GroupOutcome> run_group(Launcher& launcher, const GroupSpec& spec, int64_t timeout_ms,
                               int64_t grace_ms) {
  auto group = launcher.start(spec);
  if (!group) return fail(group.error());
  const auto answer = (*group)->ask("", timeout_ms);
  return (*group)->finish(answer ? grace_ms : 200);
}

namespace {
std::string scratch_base() { return env_value("TMPDIR").empty() ? "/tmp" : env_value("TMPDIR"); }
}  // namespace

void Scratch::sweep() {
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(scratch_base(), why)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kPrefix = "sculler-eval-";
    if (!name.starts_with(kPrefix)) continue;
    const auto pid = parse_int(split(name, '-')[2]);
    std::error_code ignored;
    if (!pid || *pid <= 0) continue;
    const auto owner = static_cast<pid_t>(*pid);
    if (owner == ::getpid() || (::kill(owner, 0) != 0 && errno == ESRCH))
      fs::remove_all(entry.path(), ignored);
  }
}

Result<std::unique_ptr<Scratch>> Scratch::make() {
  sweep();
  const std::string base = scratch_base();
  std::string folder = base + "/sculler-eval-" + std::to_string(::getpid()) + "-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    return fail(
        Error{ErrorCode::kIo, std::strerror(errno), base, "", "Set TMPDIR to a writable folder."});
  }
  // Ranks under an unprivileged uid pass through, but cannot list.
  ::chmod(folder.c_str(), 0711);
  return std::unique_ptr<Scratch>(new Scratch(folder));
}

void Scratch::remove() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Scratch::~Scratch() { remove(); }

}  // namespace sculler::eval
