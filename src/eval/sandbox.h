// Confinement of everything that holds a candidate's text or code: compilers and ranks. First form:
// bubblewrap with private PID, IPC, network and mount namespaces; resource limits; an unprivileged
// uid; no new privileges. Landlock and seccomp are to be added in Sandbox::wrap, which every
// confined process goes through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.h"

namespace sculler::eval {

// What holds a candidate back; written into every verdict.
enum class Containment : uint8_t {
  kFull,      // bubblewrap: namespaces, read-only binds, private /tmp and /dev/shm
  kNoUserns,  // no namespaces here: limits, process group, environment, unprivileged uid where the
              // caller is root
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
  bool may_drop_uid =
      false;  // the program gives up root itself (SCULLER_DROP_UID): it keeps CAP_SETUID until then
};

class Sandbox {
 public:
  // Tries the levels from the strictest and keeps the first that works; kNone only where it is
  // asked for.
  static Sandbox detect(Processes& processes, bool none_asked);
  Sandbox(Containment level, std::string why, std::string bwrap, bool root)
      : level_(level), why_(std::move(why)), bwrap_(std::move(bwrap)), root_(root) {}

  [[nodiscard]] Containment level() const { return level_; }
  [[nodiscard]] const std::string& why() const { return why_; }  // empty at kFull
  [[nodiscard]] bool root() const { return root_; }
  // Paths inside are those of Bind::at only at this level.
  [[nodiscard]] bool remaps() const { return level_ == Containment::kFull; }
  [[nodiscard]] SpawnOptions wrap(const Confined& confined) const;

 private:
  Containment level_;
  std::string why_, bwrap_;
  bool root_;
};

}  // namespace sculler::eval
