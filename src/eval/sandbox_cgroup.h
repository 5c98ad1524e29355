// Control groups of jobs, versions 1 and 2: a bound on the number of processes and on memory
// together, where this process may make groups; what was refused and what was left is read from
// them. docs/sandbox.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::eval {

// The cgroup file system, behind an interface for tests.
class CgroupFiles {
 public:
  virtual ~CgroupFiles() = default;
  [[nodiscard]] virtual std::optional<std::string> read(const std::string& path) = 0;
  virtual bool write(const std::string& path, std::string_view text) = 0;  // never creates
  virtual bool make_folder(const std::string& path) = 0;  // true also where it is there
  virtual bool remove_folder(const std::string& path) = 0;
  [[nodiscard]] virtual std::vector<std::string> folders(const std::string& path) = 0;  // names
  [[nodiscard]] virtual bool writable(const std::string& path) = 0;
  [[nodiscard]] virtual int open_for_writing(const std::string& path) = 0;
};
[[nodiscard]] CgroupFiles& real_cgroup_files();

struct CgroupLimits {
  uint64_t processes = 0;
  uint64_t memory_bytes = 0;
};

struct CgroupEvents {
  uint64_t forks_refused = 0;
  uint64_t memory_kills = 0;
  uint64_t left = 0;  // processes that were still there when the job had ended
};

class JobCgroup {
 public:
  JobCgroup(CgroupFiles& files, std::vector<std::string> folders);
  ~JobCgroup();  // kills what is left, removes the folders
  JobCgroup(const JobCgroup&) = delete;
  JobCgroup& operator=(const JobCgroup&) = delete;
  // Descriptors of cgroup.procs, owned by this object: who writes "0" there joins.
  [[nodiscard]] const std::vector<int>& join_fds() const { return fds_; }
  [[nodiscard]] CgroupEvents events();
  // SIGKILL to every process in it until there is none, for at most a second. Returns how many
  // there were at first.
  uint64_t kill();

 private:
  CgroupFiles& files_;
  std::vector<std::string> folders_;
  std::vector<int> fds_;
};

// Where this process may make groups.
class CgroupHost {
 public:
  // Texts of /proc/self/cgroup and /proc/self/mountinfo. On version 2 a group that holds processes
  // has no children with controllers; where all of them are of this evaluator's own line, they are
  // moved into a leaf.
  static CgroupHost find(CgroupFiles& files, std::string_view cgroup, std::string_view mountinfo);
  static CgroupHost find();
  // Ends and removes the groups of evaluators that were killed.
  void sweep() const;

  [[nodiscard]] bool limits_processes() const { return !pids_.empty(); }
  [[nodiscard]] bool limits_memory() const { return !memory_.empty(); }
  [[nodiscard]] int version() const { return version_; }  // 0: none
  // Why something is missing; empty where nothing is.
  [[nodiscard]] const std::string& why() const { return why_; }
  // Null where there is nothing to limit with, or it fails. The group is "sculler-PID-<name>".
  [[nodiscard]] std::unique_ptr<JobCgroup> make(const std::string& name,
                                                const CgroupLimits& limits) const;

 private:
  CgroupFiles* files_ = nullptr;
  int version_ = 0;
  std::string pids_, memory_;  // folders in which groups are made; the same on version 2
  std::string why_;
};

}  // namespace sculler::eval
