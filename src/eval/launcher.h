// One job's processes: the trusted one outside of the sandbox, all ranks inside of one, sockets
// between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "eval/job.h"
#include "eval/sandbox.h"
#include "eval/sandbox_report.h"
#include "eval/toolchain.h"

namespace sculler::eval {

struct GroupSpec {
  Target target = Target::kEmu;
  int n_ranks = 1;
  std::string job_json, rank_json;
  std::vector<Bind> binds;  // what the ranks need beyond the system's libraries
  Environment env;          // of the ranks
  Environment trusted_env;  // added to the trusted process's
  std::string label;        // for scratch folders, [a-z0-9-]
};

struct GroupOutcome {
  std::string line;  // the trusted process's last answer; empty where none came
  bool timed_out = false;
  bool trusted_ended = false;  // it ended by itself before it was asked to
  ExitStatus trusted{}, ranks{};
  bool ranks_ended = false;   // by themselves
  std::string trusted_error;  // tail of its stderr
  std::string output;         // tail of what ranks and candidates printed: shown, never believed
  double wall_ms = 0, cpu_ms = 0;
  std::vector<std::string> notes{};  // what was weaker than usual
  Incidents incidents{};             // what the sandbox refused
};

// A live group. Destruction kills everything that is left and reaps it.
class Group {
 public:
  virtual ~Group() = default;
  // Sends `line` (empty: nothing) and waits for one line. kTimeout, or kChildFailed where the
  // process ended first.
  virtual Result<std::string> ask(const std::string& line, int64_t timeout_ms) = 0;
  // Closes the trusted process's input, gives everybody `grace_ms` to end, kills the rest.
  virtual GroupOutcome finish(int64_t grace_ms) = 0;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<Group>> start(const GroupSpec& spec) = 0;
};

// Starts the group, takes its one answer and ends it.
[[nodiscard]] Result<GroupOutcome> run_group(Launcher& launcher, const GroupSpec& spec,
                                             int64_t timeout_ms, int64_t grace_ms);

// A private folder for this process, removed with it; what killed evaluators left is removed first.
class Scratch {
 public:
  static Result<std::unique_ptr<Scratch>> make();
  // Removes the folders of processes that are no more, and this process's own.
  static void sweep();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void remove();

 private:
  explicit Scratch(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

class LocalLauncher final : public Launcher {
 public:
  LocalLauncher(Processes& processes, const Sandbox& sandbox, const Installation& installation,
                std::string scratch)
      : processes_(processes),
        sandbox_(sandbox),
        installation_(installation),
        scratch_(std::move(scratch)) {}
  [[nodiscard]] Result<std::unique_ptr<Group>> start(const GroupSpec& spec) override;

 private:
  Processes& processes_;
  const Sandbox& sandbox_;
  const Installation& installation_;
  std::string scratch_;
};

}  // namespace sculler::eval
