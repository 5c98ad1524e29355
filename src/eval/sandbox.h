// Confinement of everything that holds a candidate's text or code: compilers and ranks. From the
// outside bubblewrap with private namespaces where it can start; from the inside sculler-rank
// --confine (src/rank/confine.h): uid, capabilities, Landlock, seccomp. docs/sandbox.md says what
// each level stops and what it does not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.h"
#include "eval/sandbox_cgroup.h"

namespace sculler::eval {

// What holds a candidate back; written into every verdict.
enum class Containment : uint8_t {
  kFull,      // bubblewrap: namespaces, read-only binds, private /tmp and /dev/shm
  kNoUserns,  // no bubblewrap here: Landlock's list of files, seccomp, limits, an unprivileged uid
              // and a network namespace where the caller is root
  kNone,      // asked for: environment and process group only
};
[[nodiscard]] std::string_view containment_name(Containment level);

using Environment = std::vector<std::pair<std::string, std::string>>;

// The environment of ranks: an allow-list built here and nothing inherited. `profile_env` comes
// from the hardware profile; it may not set loader variables, and may touch the multicast switches
// only where `multicast_allowed`.
[[nodiscard]] Environment rank_environment(const Environment& profile_env, bool multicast_allowed);
// True for the variables that keep NVLS and multicast off.
[[nodiscard]] bool is_multicast_switch(std::string_view name);

struct Bind {
  std::string source;
  std::string at{};  // empty: same path inside
  bool writable = false;
  bool optional = false;  // skipped where the source is missing
  bool device = false;
};

struct Confined {
  std::vector<std::string> argv;
  Environment env;
  std::string cwd = "/";  // as seen inside (kFull), else `cwd_outside`
  std::string cwd_outside{};
  std::vector<Bind> binds;
  std::vector<std::pair<int, int>> fds;
  ProcessLimits limits{};
  uint64_t tmp_bytes = uint64_t{256} << 20;
  uint64_t shm_bytes = uint64_t{256} << 20;
  bool whole_usr = false;  // compilers and CUDA need more than /usr/lib
  bool gpu = false;        // device nodes, /sys
  bool ranks = false;      // argv is sculler-rank --all, which confines itself; else a compiler
  uint32_t uid = 0;  // the ranks' where the caller is root; 0: root's stays, without its powers
  uint64_t processes = 0;             // of the ranks' uid; 0: no limit
  const JobCgroup* cgroup = nullptr;  // joined first
  int report_fd = -1;  // here; ranks write what was refused to it (src/rank/leftovers.h, seccomp.h)
};

// What this machine offers beside bubblewrap, found at run time.
struct Strength {
  std::string runner{};  // sculler-rank; empty: nothing is confined from the inside
  int landlock = 0;      // ABI
  bool seccomp = false;
  bool own_network = false;  // kNoUserns: sculler-rank can leave the network by itself
  bool own_shm = false;      // kNoUserns: and take a /dev/shm of its own
  std::shared_ptr<const CgroupHost> cgroups{};
};

class Sandbox {
 public:
  // Tries the levels from `strictest` down and keeps the first that works; kNone only where it is
  // asked for. `runner`: path of sculler-rank, may be missing.
  static Sandbox detect(Processes& processes, Containment strictest, const std::string& runner);
  Sandbox(Containment level, std::string why, std::string bwrap, bool root, Strength strength = {})
      : level_(level),
        why_(std::move(why)),
        bwrap_(std::move(bwrap)),
        root_(root),
        strength_(std::move(strength)) {}

  [[nodiscard]] Containment level() const { return level_; }
  // Why the level is not kFull, and what is weaker than it could be; empty where nothing is.
  [[nodiscard]] std::string why() const;
  [[nodiscard]] std::string cure() const;
  // What holds, in words: "namespaces", "seccomp", "Landlock 7" ...
  [[nodiscard]] std::vector<std::string> parts() const;
  [[nodiscard]] const Strength& strength() const { return strength_; }
  // Limits for one job's ranks together; null at kNone and where no group can be made.
  [[nodiscard]] std::unique_ptr<JobCgroup> job_cgroup(const std::string& name,
                                                      const CgroupLimits& limits) const;
  [[nodiscard]] bool root() const { return root_; }
  // Paths inside are those of Bind::at only at this level.
  [[nodiscard]] bool remaps() const { return level_ == Containment::kFull; }
  [[nodiscard]] SpawnOptions wrap(const Confined& confined) const;

 private:
  [[nodiscard]] SpawnOptions wrap_in_bwrap(const Confined& confined, SpawnOptions options) const;
  [[nodiscard]] std::string policy(const Confined& confined, SpawnOptions& options) const;
  [[nodiscard]] std::vector<std::string> command(const Confined& confined, SpawnOptions& options,
                                                 const std::string& runner) const;
  Containment level_;
  std::string why_, bwrap_;
  bool root_;
  Strength strength_;
};

}  // namespace sculler::eval
