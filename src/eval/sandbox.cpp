#include "eval/sandbox.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <set>

#include "base/strings.h"
#include "rank/confine.h"

namespace sculler::eval {
namespace {

// Numbers in the confined process; the ranks' sockets begin above (launcher.cpp).
constexpr int kReportFd = 3, kCgroupFd = 4;
constexpr std::string_view kAskedFor = "asked for";
constexpr const char* kRunnerInside = "/sculler/bin/sculler-rank";

// Both the switch and the value that turns multicast off.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kMulticastOff{{
    {"NCCL_NVLS_ENABLE", "0"},
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"},
    {"NVSHMEM_DISABLE_NVLS", "1"},
}};

// Empty where `path` is no symbolic link.
std::string link_target(const char* path) {
  std::array<char, PATH_MAX> buffer{};
  const auto n = ::readlink(path, buffer.data(), buffer.size());
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : std::string();
}

bool exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<std::string> nvidia_devices() {
  std::vector<std::string> paths;
  DIR* folder = ::opendir("/dev");
  if (folder == nullptr) return paths;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name.starts_with("nvidia")) paths.push_back("/dev/" + name);
  }
  ::closedir(folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// bubblewrap's arguments, collected.
class Arguments {
 public:
  explicit Arguments(std::string program) : list_{std::move(program)} {}
  template <class... Words>
  void add(Words&&... words) {
    (list_.emplace_back(std::forward<Words>(words)), ...);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

// /lib, /lib64, /bin and /sbin: links into /usr on merged systems, folders on others.
void add_root_folders(Arguments& arguments, bool programs) {
  for (const char* path : {"/lib", "/lib64", "/bin", "/sbin"}) {
    const std::string_view name = path;
    if (!programs && (name == "/bin" || name == "/sbin")) continue;
    if (const std::string target = link_target(path); !target.empty()) {
      arguments.add("--symlink", target, path);
    } else if (exists(path)) {
      arguments.add("--ro-bind", path, path);
    }
  }
}

// Threads of the user, as RLIMIT_NPROC counts them.
uint64_t tasks_of_user(uid_t uid) {
  uint64_t count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    struct stat info{};
    if (!parse_int(entry.path().filename().string()) ||
        ::stat((entry.path() / "task").c_str(), &info) != 0 || info.st_uid != uid)
      continue;
    count += info.st_nlink > 2 ? info.st_nlink - 2 : 1;
  }
  return count;
}

// Landlock's list where no mount namespace makes one.
void list_files(const Confined& c, const std::string& runner, rank::LandlockRules& rules) {
  rules.read = {"/usr/lib",         "/usr/lib64", "/usr/local/lib",      "/lib", "/lib64",
                "/etc/ld.so.cache", "/proc",      "/sys/devices/system", runner};
  if (c.whole_usr || c.gpu)
    rules.read.insert(rules.read.end(), {"/usr", "/bin", "/sbin", "/etc/alternatives"});
  rules.write = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
  if (c.gpu) {
    rules.read.insert(rules.read.end(), {"/sys", "/dev", "/etc", "/opt", "/run", "/var/lib"});
    rules.write.emplace_back("/dev/shm");
    // The driver names its threads through /proc/self/task; without that cuInit fails (304).
    // What else can be written there belongs to processes of the same uid, which Landlock's
    // domains keep apart.
    rules.write.emplace_back("/proc");
    for (auto& device : nvidia_devices()) rules.write.push_back(std::move(device));
  }
  if (!c.cwd_outside.empty()) rules.read.push_back(c.cwd_outside);
  for (const auto& bind : c.binds)
    (bind.writable || bind.device ? rules.write : rules.read).push_back(bind.source);
}

}  // namespace

std::string_view containment_name(Containment level) {
  switch (level) {
    case Containment::kFull: return "full";
    case Containment::kNoUserns: return "no-userns";
    case Containment::kNone: break;
  }
  return "none";
}

bool is_multicast_switch(std::string_view name) {
  return std::any_of(kMulticastOff.begin(), kMulticastOff.end(),
                     [&](const auto& s) { return s.first == name; });
}

Environment rank_environment(const Environment& profile_env, bool multicast_allowed) {
  Environment env{{"PATH", "/usr/bin:/bin"},
                  {"HOME", "/tmp"},
                  {"TMPDIR", "/tmp"},
                  {"LANG", "C.UTF-8"},
                  {"CUDA_MODULE_LOADING", "EAGER"},
                  {"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                  {"CUDA_CACHE_DISABLE", "1"}};
  for (const auto& [name, value] : kMulticastOff) {
    if (!multicast_allowed) env.emplace_back(name, value);
  }
  for (const auto& [name, value] : profile_env) {
    if (name.starts_with("LD_") || name.starts_with("SCULLER_") || name.starts_with("GLIBC_"))
      continue;
    if (is_multicast_switch(name) && !multicast_allowed) continue;
    const auto at =
        std::find_if(env.begin(), env.end(), [&](const auto& e) { return e.first == name; });
    if (at != env.end()) {
      at->second = value;
    } else {
      env.emplace_back(name, value);
    }
  }
  return env;
}

std::string Sandbox::policy(const Confined& c, SpawnOptions& options) const {
  rank::ConfinePolicy p;
  const bool full = level_ == Containment::kFull;
  if (c.cgroup != nullptr) {
    int number = kCgroupFd;
    for (const int fd : c.cgroup->join_fds()) {
      options.fds.emplace_back(fd, number);
      p.cgroups.push_back(number++);
    }
  }
  if (c.report_fd >= 0) {
    options.fds.emplace_back(c.report_fd, kReportFd);
    p.report_fd = kReportFd;
  }
  p.own_network = p.own_ipc = !full && strength_.own_network && c.ranks;
  if (!full && strength_.own_shm && c.ranks) p.shm_bytes = c.shm_bytes;
  p.uid = c.uid;
  if (c.processes > 0) {
    // Without a user namespace and another uid, everything that the user runs counts.
    p.processes = c.processes + (full || c.uid != 0 ? 0 : tasks_of_user(::geteuid()));
  }
  // With bubblewrap the files are those that were bound.
  p.landlock = strength_.landlock > 0 && (c.ranks || !full);
  p.files.files = p.landlock && !full;
  p.files.signals = p.files.sockets = c.ranks;
  if (p.files.files) list_files(c, strength_.runner, p.files);
  if (strength_.seccomp) {
    p.refuse =
        c.ranks && !c.gpu && c.report_fd >= 0 ? rank::Syscalls::kReport : rank::Syscalls::kQuiet;
    p.sockets = c.gpu;  // NCCL's bootstrap
  }
  p.separate_ranks = c.ranks;
  p.signals_by_filter =
      c.ranks && !full && strength_.seccomp && strength_.landlock < rank::kLandlockScopes;
  return rank::print_policy(p);
}

// What is executed in the end: the program, behind sculler-rank --confine where that is there.
std::vector<std::string> Sandbox::command(const Confined& c, SpawnOptions& options,
                                          const std::string& runner) const {
  if (strength_.runner.empty()) {
    auto words = c.argv;
    if (c.ranks && level_ == Containment::kFull) words[0] = runner;
    return words;
  }
  std::vector<std::string> words{runner, "--confine", policy(c, options)};
  if (!c.ranks) words.emplace_back("--");
  words.insert(words.end(), c.argv.begin() + (c.ranks ? 1 : 0), c.argv.end());
  return words;
}

SpawnOptions Sandbox::wrap(const Confined& c) const {
  SpawnOptions options;
  options.env = c.env;
  options.fds = c.fds;
  options.limits = c.limits;
  options.own_group = true;
  options.die_with_parent = true;
  if (level_ == Containment::kFull) return wrap_in_bwrap(c, std::move(options));
  options.cwd = c.cwd_outside.empty() ? c.cwd : c.cwd_outside;
  options.new_session = true;
  options.subreaper = true;  // orphans stay below it, where they are found and killed
  if (level_ == Containment::kNone) {
    options.argv = c.argv;
    options.limits = {};
    return options;
  }
  options.argv = command(c, options, strength_.runner);
  if (!c.ranks && !c.cwd_outside.empty()) {
    // Compilers write where they work and nowhere else.
    for (auto& [name, value] : options.env) {
      if (name == "TMPDIR" || name == "HOME") value = c.cwd_outside;
    }
  }
  return options;
}

SpawnOptions Sandbox::wrap_in_bwrap(const Confined& c, SpawnOptions options) const {
  const auto inside = command(c, options, kRunnerInside);
  Arguments a(bwrap_);
  a.add("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--unshare-net", "--unshare-cgroup-try");
  if (!root_) a.add("--unshare-user");
  if (root_ && c.uid != 0) a.add("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID");
  const bool whole_usr = c.whole_usr || c.gpu;
  a.add("--dir", "/usr", "--dir", "/etc");
  if (whole_usr) {
    a.add("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives");
  } else {
    a.add("--ro-bind", "/usr/lib", "/usr/lib", "--ro-bind-try", "/usr/lib64", "/usr/lib64");
  }
  add_root_folders(a, whole_usr);
  a.add("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache");
  a.add("--proc", "/proc", "--dev", "/dev");
  a.add("--perms", "1777", "--size", std::to_string(c.shm_bytes), "--tmpfs", "/dev/shm");
  a.add("--perms", "1777", "--size", std::to_string(c.tmp_bytes), "--tmpfs", "/tmp");
  if (c.gpu) {
    a.add("--ro-bind", "/sys", "/sys");
    for (const auto& device : nvidia_devices()) a.add("--dev-bind-try", device, device);
  }
  std::set<std::string> folders{"/usr", "/etc", "/tmp", "/dev"};
  std::vector<Bind> binds = c.binds;
  const std::string runner = strength_.runner.empty() && c.ranks ? c.argv[0] : strength_.runner;
  if (!runner.empty()) binds.push_back({.source = runner, .at = kRunnerInside});
  for (const auto& bind : binds) {
    const std::string& at = bind.at.empty() ? bind.source : bind.at;
    if (whole_usr && at == bind.source && !bind.writable && at.starts_with("/usr/"))
      continue;  // there already
    // bubblewrap makes missing parents 0700, which an unprivileged uid cannot enter.
    for (auto slash = at.find('/', 1); slash != std::string::npos;
         slash = at.find('/', slash + 1)) {
      if (folders.insert(at.substr(0, slash)).second) a.add("--dir", at.substr(0, slash));
    }
    std::string kind = bind.device ? "--dev-bind" : bind.writable ? "--bind" : "--ro-bind";
    if (bind.optional) kind += "-try";
    a.add(std::move(kind), bind.source, at);
  }
  a.add("--chdir", c.cwd, "--");
  for (const auto& word : inside) a.add(word);
  options.argv = a.take();
  options.cwd = "/";
  return options;
}

std::vector<std::string> Sandbox::parts() const {
  std::vector<std::string> out;
  if (level_ == Containment::kNone) return out;
  const bool inside = !strength_.runner.empty();
  if (level_ == Containment::kFull) out.emplace_back("namespaces");
  else if (strength_.own_network) out.emplace_back("network namespace");
  if (level_ != Containment::kFull && strength_.own_shm) out.emplace_back("own /dev/shm");
  if (inside && strength_.landlock > 0)
    out.push_back("Landlock " + std::to_string(strength_.landlock));
  if (inside && strength_.seccomp) out.emplace_back("seccomp");
  if (root_) out.emplace_back("unprivileged uid");
  if (strength_.cgroups != nullptr && strength_.cgroups->version() != 0) {
    std::string what = strength_.cgroups->limits_processes() ? "pids" : "";
    if (strength_.cgroups->limits_memory()) what += what.empty() ? "memory" : " and memory";
    out.push_back(what + " control groups v" + std::to_string(strength_.cgroups->version()));
  }
  out.emplace_back("limits");
  return out;
}

std::string Sandbox::why() const {
  if (level_ == Containment::kNone) return why_;
  std::vector<std::string> all;
  if (!why_.empty()) all.push_back(why_);
  const bool full = level_ == Containment::kFull;
  if (strength_.runner.empty()) {
    all.emplace_back("sculler-rank is not there, so neither Landlock nor seccomp is used");
  } else {
    if (strength_.landlock == 0)
      all.emplace_back(full ? "this kernel has no Landlock: ranks can read each other's memory"
                            : "this kernel has no Landlock: files of this user are open to ranks");
    if (!strength_.seccomp) all.emplace_back("this kernel takes no seccomp filter");
    if (!full && !strength_.own_network)
      all.emplace_back("ranks on cuda can reach the network, since NCCL needs sockets");
    if (!full && !strength_.own_shm)
      all.emplace_back("ranks on cuda share the machine's /dev/shm, which they can fill");
  }
  if (strength_.cgroups != nullptr && !strength_.cgroups->why().empty())
    all.push_back(strength_.cgroups->why() + ": only limits a process and a user");
  return join(all, "; ");
}

std::string Sandbox::cure() const {
  if (level_ == Containment::kNone) return "leave out --containment";
  std::vector<std::string> all;
  if (why_ == kAskedFor) {
    all.emplace_back("leave out --containment");
  } else if (level_ != Containment::kFull) {
    all.emplace_back(
        bwrap_.empty()
            ? "apt-get install bubblewrap"
            : "allow user namespaces to bwrap (Ubuntu 24.04: an AppArmor profile for "
              "/usr/bin/bwrap "
              "with `userns,`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a "
              "chroot: bind-mount the root folder on itself before entering it; in a container: "
              "--security-opt seccomp=unconfined)");
  }
  if (strength_.landlock == 0) all.emplace_back("a kernel from 5.13 on with lsm=landlock");
  if (strength_.cgroups != nullptr && !strength_.cgroups->why().empty())
    all.emplace_back("run under `systemd-run --user --scope -p Delegate=yes` or as root");
  return join(all, "; ");
}

std::unique_ptr<JobCgroup> Sandbox::job_cgroup(const std::string& name,
                                               const CgroupLimits& limits) const {
  if (level_ == Containment::kNone || strength_.cgroups == nullptr || strength_.runner.empty())
    return nullptr;
  return strength_.cgroups->make(name, limits);
}

Sandbox Sandbox::detect(Processes& processes, Containment strictest, const std::string& runner) {
  const bool root = ::geteuid() == 0;
  if (strictest == Containment::kNone)
    return {Containment::kNone, std::string(kAskedFor), "", root};
  Strength strength;
  if (exists(runner)) {
    strength.runner = runner;
    strength.landlock = rank::landlock_abi();
    strength.seccomp = rank::seccomp_available();
    strength.cgroups = std::make_shared<const CgroupHost>(CgroupHost::find());
  }
  const std::string bwrap = find_program("bwrap");
  Confined probe;
  probe.argv = {"/bin/true"};
  probe.whole_usr = true;
  probe.env = {{"PATH", "/usr/bin:/bin"}};
  const auto works = [&](const Sandbox& box, std::string& why) {
    auto result = run_command(processes, box.wrap(probe), "", 10000, 4096);
    if (result && result->status.ok()) return true;
    why = result ? result->status.text() + ": " + printable(shorten(trim(result->err), 200))
                 : result.error().text();
    return false;
  };
  std::string why = "bubblewrap (bwrap) is not installed";
  if (strictest != Containment::kFull) {
    why = kAskedFor;
  } else if (!bwrap.empty()) {
    Sandbox full(Containment::kFull, "", bwrap, root, strength);
    if (works(full, why)) return full;
    why = "bwrap: " + why;
  }
  if (root && !strength.runner.empty()) {
    probe.ranks = true;  // only theirs is left
    probe.argv = {"", "--", "/bin/true"};
    strength.own_network = true;
    const auto can = [&](bool Strength::* part) {
      Strength tried;
      tried.runner = strength.runner;
      tried.*part = true;
      std::string ignored;
      return works(Sandbox(Containment::kNoUserns, why, bwrap, root, std::move(tried)), ignored);
    };
    strength.own_network = can(&Strength::own_network);
    strength.own_shm = can(&Strength::own_shm);
  }
  return {Containment::kNoUserns, why, bwrap, root, std::move(strength)};
}

}  // namespace sculler::eval
