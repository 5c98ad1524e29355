#include "eval/sandbox_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/process.h"
#include "base/strings.h"

namespace sculler::eval {
namespace {

class RealCgroupFiles final : public CgroupFiles {
 public:
  std::optional<std::string> read(const std::string& path) override {
    auto text = real_files().read(path, uint64_t{1} << 20);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  }
  bool write(const std::string& path, std::string_view text) override {
    const int fd = open_for_writing(path);
    if (fd < 0) return false;
    const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(fd);
    return done;
  }
  bool make_folder(const std::string& path) override {
    return ::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST;
  }
  bool remove_folder(const std::string& path) override { return ::rmdir(path.c_str()) == 0; }
  std::vector<std::string> folders(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
      if (entry.is_directory(ignored)) names.push_back(entry.path().filename());
    }
    return names;
  }
  bool writable(const std::string& path) override { return ::access(path.c_str(), W_OK) == 0; }
  int open_for_writing(const std::string& path) override {
    return ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  }
};

// Mount points of cgroup file systems: controller (empty: version 2) → folder.
struct Mount {
  std::string folder, root;
  bool second = false;
  std::set<std::string> options;
};

std::vector<Mount> cgroup_mounts(std::string_view mountinfo) {
  std::vector<Mount> out;
  for (const auto line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3) continue;
    if (after[0] != "cgroup" && after[0] != "cgroup2") continue;
    Mount mount{std::string(before[4]), std::string(before[3]), after[0] == "cgroup2", {}};
    for (const auto word : split(after[2], ',')) mount.options.emplace(word);
    out.push_back(std::move(mount));
  }
  return out;
}

// This process's group below a mount; empty where the mount shows another part of the tree.
std::string own_folder(const Mount& mount, std::string_view cgroup) {
  for (const auto line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    if (first == std::string_view::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    bool same = mount.second && controllers.empty();
    for (const auto name : split(controllers, ','))
      same = same || (!mount.second && !name.empty() && mount.options.contains(std::string(name)));
    if (!same) continue;
    // In a container the mount's root is the container's own group.
    if (mount.root != "/" && path.starts_with(mount.root)) path.remove_prefix(mount.root.size());
    return mount.folder + (path == "/" ? "" : std::string(path));
  }
  return {};
}

bool has_word(const std::optional<std::string>& text, std::string_view word) {
  if (!text) return false;
  const auto words = split(trim(*text), ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<pid_t> processes_in(CgroupFiles& files, const std::string& folder) {
  std::vector<pid_t> out;
  const auto text = files.read(folder + "/cgroup.procs");
  if (!text) return out;
  for (const auto line : split(*text, '\n')) {
    if (const auto pid = parse_int(line); pid && *pid > 0) out.push_back(static_cast<pid_t>(*pid));
  }
  return out;
}

// This process and its ancestors.
std::set<pid_t> own_line() {
  std::set<pid_t> line;
  for (pid_t pid = ::getpid(); pid > 1 && line.insert(pid).second;) pid = parent_of(pid);
  return line;
}

// The number behind `key` in lines of "key number".
uint64_t count_of(const std::optional<std::string>& text, std::string_view key) {
  if (!text) return 0;
  for (const auto line : split(*text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() == 2 && words[0] == key)
      return static_cast<uint64_t>(std::max<int64_t>(parse_int(words[1]).value_or(0), 0));
  }
  return 0;
}

constexpr std::string_view kPrefix = "sculler-";

void rest_ms(long ms) {
  const timespec time{0, ms * 1'000'000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

CgroupFiles& real_cgroup_files() {
  static RealCgroupFiles files;
  return files;
}

JobCgroup::JobCgroup(CgroupFiles& files, std::vector<std::string> folders)
    : files_(files), folders_(std::move(folders)) {
  for (const auto& folder : folders_) {
    const int fd = files_.open_for_writing(folder + "/cgroup.procs");
    if (fd >= 0) fds_.push_back(fd);
  }
}

JobCgroup::~JobCgroup() {
  for (const int fd : fds_) ::close(fd);
  kill();
  for (const auto& folder : folders_) {
    // The kernel takes a moment to let go of the dead.
    for (int attempt = 0; attempt < 50 && !files_.remove_folder(folder); ++attempt) rest_ms(10);
  }
}

CgroupEvents JobCgroup::events() {
  CgroupEvents events;
  std::set<pid_t> left;
  for (const auto& folder : folders_) {
    events.forks_refused += count_of(files_.read(folder + "/pids.events"), "max");
    events.memory_kills += count_of(files_.read(folder + "/memory.events"), "oom_kill");
    events.memory_kills += count_of(files_.read(folder + "/memory.oom_control"), "oom_kill");
    for (const pid_t pid : processes_in(files_, folder)) left.insert(pid);
  }
  events.left = left.size();
  return events;
}

uint64_t JobCgroup::kill() {
  uint64_t first = 0;
  for (int round = 0; round < 100; ++round) {
    std::set<pid_t> left;
    for (const auto& folder : folders_) {
      // Version 2 ends them all at once; what forks meanwhile dies too.
      (void)files_.write(folder + "/cgroup.kill", "1");
      for (const pid_t pid : processes_in(files_, folder)) left.insert(pid);
    }
    if (round == 0) first = left.size();
    if (left.empty()) break;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    rest_ms(10);
  }
  return first;
}

CgroupHost CgroupHost::find() {
  auto& files = real_cgroup_files();
  const auto cgroup = files.read("/proc/self/cgroup"), mounts = files.read("/proc/self/mountinfo");
  auto host = find(files, cgroup.value_or(""), mounts.value_or(""));
  host.sweep();
  return host;
}

void CgroupHost::sweep() const {
  for (const auto* base : {&pids_, &memory_}) {
    if (base->empty()) continue;
    for (const auto& name : files_->folders(*base)) {
      if (!name.starts_with(kPrefix)) continue;
      const auto pid = parse_int(split(name, '-')[1]);
      if (pid && *pid > 0 && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH)
        const JobCgroup ended(*files_, {*base + "/" + name});
    }
  }
}

CgroupHost CgroupHost::find(CgroupFiles& files, std::string_view cgroup,
                            std::string_view mountinfo) {
  CgroupHost host;
  host.files_ = &files;
  const auto mounts = cgroup_mounts(mountinfo);
  for (const auto& mount : mounts) {
    if (mount.second) continue;
    const std::string folder = own_folder(mount, cgroup);
    if (folder.empty() || !files.writable(folder)) continue;
    if (mount.options.contains("pids")) host.pids_ = folder;
    if (mount.options.contains("memory")) host.memory_ = folder;
  }
  if (!host.pids_.empty() || !host.memory_.empty()) host.version_ = 1;
  for (const auto& mount : mounts) {
    if (!mount.second || host.version_ != 0) continue;
    const std::string folder = own_folder(mount, cgroup);
    const auto offered = files.read(folder + "/cgroup.controllers");
    if (folder.empty() || !offered || (!has_word(offered, "pids") && !has_word(offered, "memory")))
      continue;
    if (!files.writable(folder)) {
      host.why_ = "control group " + folder + " is not this user's to divide";
      continue;
    }
    const std::string wanted = has_word(offered, "pids") && has_word(offered, "memory")
                                   ? "+pids +memory"
                               : has_word(offered, "pids") ? "+pids"
                                                           : "+memory";
    const auto enable = [&] { return files.write(folder + "/cgroup.subtree_control", wanted); };
    if (!enable()) {
      const auto line = own_line();
      const auto inside = processes_in(files, folder);
      const std::string leaf = folder + "/main-of-sculler";
      const bool ours =
          std::all_of(inside.begin(), inside.end(), [&](pid_t pid) { return line.contains(pid); });
      if (!ours || !files.make_folder(leaf)) {
        host.why_ = "control group " + folder + " holds other processes";
        continue;
      }
      for (const pid_t pid : inside) files.write(leaf + "/cgroup.procs", std::to_string(pid));
      if (!enable()) {
        host.why_ = "control group " + folder + " cannot be divided";
        continue;
      }
    }
    const auto enabled = files.read(folder + "/cgroup.subtree_control");
    host.version_ = 2;
    if (has_word(enabled, "pids")) host.pids_ = folder;
    if (has_word(enabled, "memory")) host.memory_ = folder;
  }
  if (host.version_ != 0) {
    host.why_.clear();
    if (host.pids_.empty()) host.why_ = "no pids controller can be used";
    if (host.memory_.empty()) host.why_ = "no memory controller can be used";
  } else if (host.why_.empty()) {
    host.why_ = mounts.empty() ? "no control groups are mounted"
                               : "no pids or memory control group is writable";
  }
  return host;
}

std::unique_ptr<JobCgroup> CgroupHost::make(const std::string& name,
                                            const CgroupLimits& limits) const {
  std::vector<std::string> folders;
  for (const auto* base : {&pids_, &memory_}) {
    if (base->empty()) continue;
    std::string folder =
        *base + "/" + std::string(kPrefix) + std::to_string(::getpid()) + "-" + name;
    if (std::find(folders.begin(), folders.end(), folder) != folders.end()) continue;
    if (files_->make_folder(folder)) folders.push_back(std::move(folder));
  }
  if (folders.empty()) return nullptr;
  auto job = std::make_unique<JobCgroup>(*files_, folders);
  for (const auto& folder : folders) {
    if (limits.processes > 0) files_->write(folder + "/pids.max", std::to_string(limits.processes));
    if (limits.memory_bytes == 0) continue;
    const std::string bytes = std::to_string(limits.memory_bytes);
    if (version_ == 2) {
      files_->write(folder + "/memory.max", bytes);
      files_->write(folder + "/memory.swap.max", "0");
      files_->write(folder + "/memory.oom.group", "0");
    } else {
      files_->write(folder + "/memory.limit_in_bytes", bytes);
      files_->write(folder + "/memory.memsw.limit_in_bytes", bytes);
    }
  }
  return job;
}

}  // namespace sculler::eval
