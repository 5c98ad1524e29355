#include "eval/sandbox.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <set>

#include "base/strings.h"

namespace sculler::eval {
namespace {

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

SpawnOptions Sandbox::wrap(const Confined& c) const {
  SpawnOptions options;
  options.env = c.env;
  options.fds = c.fds;
  options.limits = c.limits;
  options.own_group = true;
  options.die_with_parent = true;
  if (level_ != Containment::kFull) {
    options.argv = c.argv;
    options.cwd = c.cwd_outside.empty() ? c.cwd : c.cwd_outside;
    options.new_session = true;
    options.subreaper = true;  // orphans stay below it, where they are found and killed
    if (level_ == Containment::kNone) options.limits = {};
    return options;
  }
  Arguments a(bwrap_);
  a.add("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--unshare-net", "--unshare-cgroup-try");
  if (!root_) a.add("--unshare-user");
  if (root_ && c.may_drop_uid) a.add("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID");
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
  for (const auto& bind : c.binds) {
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
  for (const auto& word : c.argv) a.add(word);
  options.argv = a.take();
  options.cwd = "/";
  return options;
}

Sandbox Sandbox::detect(Processes& processes, bool none_asked) {
  const bool root = ::geteuid() == 0;
  if (none_asked) return {Containment::kNone, "asked for", "", root};
  const std::string bwrap = find_program("bwrap");
  std::string why = "bubblewrap (bwrap) is not installed";
  if (!bwrap.empty()) {
    Sandbox full(Containment::kFull, "", bwrap, root);
    Confined probe;
    probe.argv = {"/bin/true"};
    probe.whole_usr = true;
    probe.env = {{"PATH", "/usr/bin:/bin"}};
    auto result = run_command(processes, full.wrap(probe), "", 10000, 4096);
    if (result && result->status.ok()) return full;
    why = result ? "bwrap: " + result->status.text() + ": " +
                       printable(shorten(trim(result->err), 200))
                 : result.error().text();
  }
  return {Containment::kNoUserns, why, "", root};
}

}  // namespace sculler::eval
