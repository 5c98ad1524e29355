// The shared objects of a job: carried ones where they came with it, else compiled here.
#pragma once

#include <string>

#include "eval/compile.h"
#include "eval/job.h"
#include "task/task.h"

namespace sculler::eval {

class Artifacts {
 public:
  // `share` holds include/ and src/ of this program.
  Artifacts(Compiler& compiler, const Toolchain& toolchain, std::string share)
      : compiler_(compiler), toolchain_(toolchain), share_(std::move(share)) {}

  // `arch` is "90a"; `cubin`: machine code too.
  [[nodiscard]] CompileOutcome candidate(const Job& job, const task::Task& task,
                                         const std::string& arch, bool cubin);
  // A baseline of the task, as if it were a candidate.
  [[nodiscard]] CompileOutcome baseline(const Job& job, const task::Task& task,
                                        const std::string& name, const std::string& arch,
                                        bool cubin);
  // The candidate with a planted slowdown (noise.h).
  [[nodiscard]] CompileOutcome planted(const Job& job, const task::Task& task, double fraction,
                                       const std::string& arch, bool cubin);
  // The candidate with sleeps at its synchronisation points (stress_ptx.h); `plain` is the
  // candidate's own artifact hash.
  [[nodiscard]] CompileOutcome stressed(const Job& job, const task::Task& task,
                                        const std::string& arch, bool cubin,
                                        const std::string& plain);
  [[nodiscard]] CompileOutcome rank_backend(const Job& job, const std::string& arch, bool cubin);
  [[nodiscard]] CompileOutcome verify_backend(const Job& job, const task::Task& task,
                                              const std::string& arch);
  [[nodiscard]] CompileOutcome reference(const Job& job, const task::Task& task);

 private:
  [[nodiscard]] CompileRequest source_request(const Job& job, const task::Task& task,
                                              const std::string& arch, bool cubin) const;
  Compiler& compiler_;
  const Toolchain& toolchain_;
  std::string share_;
};

// The hash of a job's source: names, texts, defines.
[[nodiscard]] std::string source_hash(const Job& job);

}  // namespace sculler::eval
