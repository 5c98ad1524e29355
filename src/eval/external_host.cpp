#include "eval/external_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/strings.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kTail = 8192;
constexpr int kUidBase = 61300, kUidCount = 256;  // beside those of ranks (launcher.cpp)
constexpr const char* kInside = "/sculler/job";

// stdin and stdout of a child as lines; its stderr is kept as a tail.
class ChildLines final : public LineProcess {
 public:
  ChildLines(std::unique_ptr<Child> child, std::unique_ptr<JobCgroup> cgroup, std::size_t most)
      : cgroup_(std::move(cgroup)), child_(std::move(child)), most_(most) {
    for (const int fd : {child_->stdin_fd(), child_->stdout_fd(), child_->stderr_fd()})
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  ~ChildLines() override {
    if (cgroup_ != nullptr) cgroup_->kill();
    child_.reset();
  }

  Result<std::string> ask(const std::string& line, int64_t timeout_ms) override {
    const int64_t deadline = now_ms() + timeout_ms;
    // What came without being asked for answers nothing.
    if (!answer_.empty()) return fail(ErrorCode::kProtocol, "it spoke without being asked");
    std::string text = line + "\n";
    for (;;) {
      if (const auto end = answer_.find('\n'); end != std::string::npos) {
        std::string out = answer_.substr(0, end);
        answer_.erase(0, end + 1);
        return out;
      }
      if (answer_.size() > most_) return fail(ErrorCode::kProtocol, "its answer is too long");
      if (!open_[0]) return fail(ErrorCode::kChildFailed, "it ended without an answer");
      const int64_t left = deadline - now_ms();
      if (left <= 0)
        return fail(ErrorCode::kTimeout, "no answer within " + std::to_string(timeout_ms) + " ms");
      pump(left, text);
    }
  }

  std::string end(int64_t grace_ms) override {
    child_->close_stdin();
    std::string nothing;
    const int64_t deadline = now_ms() + grace_ms;
    auto status = child_->wait(0);
    while (!status && now_ms() < deadline) {
      // Its output is drained, so that it can end.
      pump(std::min<int64_t>(deadline - now_ms(), 50), nothing);
      status = child_->wait(0);
    }
    child_->kill_tree();
    if (cgroup_ != nullptr) cgroup_->kill();
    if (!status) status = child_->wait(5000);
    for (int i = 0; i < 64 && pump(0, nothing); ++i) {}
    std::string out = status ? status->text() : "it could not be ended";
    const std::string said = printable(shorten(trim(errors_), 600));
    return said.empty() ? out : out + ": " + said;
  }

 private:
  // Waits for either side; sends of `text` what the pipe takes, keeps what came.
  bool pump(int64_t timeout_ms, std::string& text) {
    std::array<pollfd, 3> fds{};
    fds[0] = {open_[0] ? child_->stdout_fd() : -1, POLLIN, 0};
    fds[1] = {open_[1] ? child_->stderr_fd() : -1, POLLIN, 0};
    fds[2] = {text.empty() ? -1 : child_->stdin_fd(), POLLOUT, 0};
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(timeout_ms, 1 << 30))) <=
        0)
      return false;
    bool any = false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      std::array<char, 16384> buffer;
      const auto n = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) open_[i] = false;
      if (n <= 0) continue;
      any = true;
      std::string& into = i == 0 ? answer_ : errors_;
      into.append(buffer.data(), static_cast<std::size_t>(n));
      if (i == 1 && into.size() > 2 * kTail) into.erase(0, into.size() - kTail);
    }
    if (fds[2].fd >= 0 && fds[2].revents != 0) {
      const auto n = ::write(fds[2].fd, text.data(), text.size());
      if (n > 0) text.erase(0, static_cast<std::size_t>(n));
      else if (n < 0 && errno != EAGAIN && errno != EINTR) text.clear();  // its end will be seen
    }
    return any;
  }

  std::unique_ptr<JobCgroup> cgroup_;
  std::unique_ptr<Child> child_;
  std::size_t most_;
  std::array<bool, 2> open_{true, true};
  std::string answer_, errors_;
};

Status make_folder(const std::string& path, mode_t mode) {
  std::error_code why;
  fs::create_directories(path, why);
  if (!why && ::chmod(path.c_str(), mode) == 0) return {};
  return fail(Error{ErrorCode::kIo, why ? why.message() : std::strerror(errno), path, "",
                    "Set TMPDIR to a writable folder."});
}

}  // namespace

Result<ExternalFolders> LocalExternalHost::make_folders() {
  static std::atomic<int> counter{0};
  ExternalFolders out;
  out.root = scratch_ + "/external-" + std::to_string(counter.fetch_add(1));
  for (const char* name : {"", "/programs", "/in", "/out"}) {
    // The adapter may run as another user; only out/ is bound for writing.
    if (auto done = make_folder(out.root + name, 0755); !done) return fail(done.error());
  }
  return out;
}

void LocalExternalHost::remove_folders(const ExternalFolders& folders) {
  std::error_code ignored;
  fs::remove_all(folders.root, ignored);
}

Result<std::string> LocalExternalHost::make_output(const ExternalFolders& folders,
                                                   const std::string& name) {
  const std::string path = folders.root + "/out/" + name;
  std::error_code ignored;
  fs::remove_all(path, ignored);
  if (auto done = make_folder(path, 0777); !done) return fail(done.error());
  return path;
}

Result<std::unique_ptr<LineProcess>> LocalExternalHost::start_checker(
    const std::string& job_json, const ExternalFolders& folders) {
  static std::atomic<int> counter{0};
  // Beside the folder that the adapter sees.
  const std::string file = folders.root + ".job-" + std::to_string(counter.fetch_add(1)) + ".json";
  if (auto done = real_files().write_atomic(file, job_json); !done) return fail(done.error());
  SpawnOptions options;
  options.argv = {installation_.programs + "/sculler-verify", "--files", file};
  options.env = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}};
  options.in = Stdio::pipe();
  auto child = processes_.spawn(options);
  if (!child) return fail(child.error());
  return std::make_unique<ChildLines>(std::move(*child), nullptr, std::size_t{4} << 20);
}

Result<std::unique_ptr<LineProcess>> LocalExternalHost::start_adapter(
    const task::Adapter& adapter, const ExternalFolders& folders) {
  static std::atomic<int> counter{0};
  const int number = counter.fetch_add(1);
  Confined c;
  c.argv = adapter.command;
  if (c.argv[0].find('/') == std::string::npos) {
    std::string found;
    for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
      if (found.empty() && real_files().exists(folder + c.argv[0])) found = folder + c.argv[0];
    }
    if (found.empty())
      return fail(Error{ErrorCode::kNotFound,
                        "no program '" + c.argv[0] + "' in /usr/local/bin, /usr/bin or /bin",
                        adapter.path, "command",
                        "name it by its path, and what it reads in `read`"});
    c.argv[0] = found;
  } else if (!real_files().exists(c.argv[0])) {
    return fail(Error{ErrorCode::kNotFound, "'" + c.argv[0] + "' does not exist", adapter.path,
                      "command", "correct the path"});
  }
  c.env = rank_environment(adapter.env, false);
  c.cwd = kInside;
  c.cwd_outside = folders.root;
  c.whole_usr = true;
  c.gpu = adapter.gpu;
  c.tmp_bytes = adapter.tmp_bytes;
  c.shm_bytes = adapter.tmp_bytes;
  c.binds = {
      {.source = folders.root, .at = kInside},
      {.source = folders.root + "/out", .at = std::string(kInside) + "/out", .writable = true},
      {.source = adapter.folder}};
  for (const auto& path : adapter.read) c.binds.push_back({.source = path});
  for (const auto& device : adapter.devices)
    c.binds.push_back({.source = device, .optional = true, .device = true});
  // Another user only where paths are the sandbox's own: an interpreter's folders may be closed to
  // others.
  if (sandbox_.root() && sandbox_.remaps())
    c.uid = static_cast<uint32_t>(kUidBase + number % kUidCount);
  c.limits.open_files = 4096;
  c.limits.file_bytes = uint64_t{4} << 30;
  c.processes = 4096;
  CgroupLimits limits;
  limits.processes = c.processes;
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  const uint64_t memory = pages > 0 && size > 0
                              ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size)
                              : uint64_t{8} << 30;
  limits.memory_bytes = memory / 4 * (adapter.gpu ? 3 : 2);
  auto cgroup = sandbox_.job_cgroup("external-" + std::to_string(number), limits);
  c.cgroup = cgroup.get();
  SpawnOptions options = sandbox_.wrap(c);
  options.in = Stdio::pipe();
  if (!sandbox_.remaps()) {
    // It writes where it may and nowhere else.
    for (auto& [name, value] : options.env) {
      if (name == "TMPDIR" || name == "HOME") value = folders.root + "/out";
    }
  }
  auto child = processes_.spawn(options);
  if (!child) return fail(child.error());
  return std::make_unique<ChildLines>(std::move(*child), std::move(cgroup), std::size_t{1} << 20);
}

}  // namespace sculler::eval
