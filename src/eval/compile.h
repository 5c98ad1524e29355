// From source to shared object: in the sandbox, through the cache, with a bounded and readable
// first error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.h"
#include "eval/cache.h"
#include "eval/job.h"
#include "eval/sandbox.h"
#include "eval/toolchain.h"

namespace sculler::eval {

struct CompileRequest {
  enum class Language : uint8_t { kCuda, kCpp };
  Language language = Language::kCuda;
  std::vector<SourceFile> files;  // files[0] is compiled; the others lie beside it
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<std::string> include_folders;  // absolute, bound read-only
  std::string arch = "90a";                  // CUDA: compute_<arch>
  bool cubin = false;                        // PTX and machine code, or PTX only
  bool native = false;                       // C++: -march=native
  bool needs_cutlass = false, needs_openblas = false;
  bool stressed = false;  // CUDA: sleeps at the synchronisation points of the PTX (stress_ptx.h)
  std::string salt{};     // part of the key: stressed builds track no headers of their own
  bool candidate =
      true;  // false: our own or the task's text; warnings are not counted against anyone
  int64_t timeout_ms = 300'000;
};

struct CompileOutcome {
  bool ok = false;
  std::string artifact;  // absolute path of the shared object
  std::string sha256;    // of its bytes
  bool cached = false;
  std::map<std::string, int64_t>
      facts{};  // registers, spills, shared (bytes): largest of all kernels; cpu: vector_report.h
  std::vector<std::string> remarks{};  // cpu: what became of the loops
  double ms = 0;
  // Where it failed:
  std::string status{};  // COMPILE_ERROR, TIMEOUT, OOM, UNSUPPORTED, INTERNAL
  std::string where{}, message{}, advice{};
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  [[nodiscard]] virtual CompileOutcome compile(const CompileRequest& request) = 0;
};

// nvcc and g++ of this machine. Thread-safe: two requests for the same thing compile once.
class ToolCompiler final : public Compiler {
 public:
  ToolCompiler(Processes& processes, const Sandbox& sandbox, const Toolchain& toolchain,
               ArtifactCache& cache)
      : processes_(processes), sandbox_(sandbox), toolchain_(toolchain), cache_(cache) {}
  [[nodiscard]] CompileOutcome compile(const CompileRequest& request) override;

 private:
  [[nodiscard]] std::string source_key(const CompileRequest& request) const;
  [[nodiscard]] CompileOutcome run(const CompileRequest& request, const std::string& source_key);
  // The stressed form: `points` sleeps were put in; 0: nothing was built.
  [[nodiscard]] Result<CommandResult> run_stressed(Confined confined, const std::string& work,
                                                   int64_t timeout_ms, int& points);
  [[nodiscard]] std::vector<std::string> command(const CompileRequest& request) const;
  Processes& processes_;
  const Sandbox& sandbox_;
  const Toolchain& toolchain_;
  ArtifactCache& cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> in_progress_;
};

struct FirstError {
  std::string where;  // "candidate.cu:12", empty where the tool names no line
  std::string message;
};
// What `nvcc -dryrun` printed, as two shell scripts: up to the PTX, and from there.
struct StagedScript {
  std::string before, after;
};
[[nodiscard]] StagedScript split_dryrun(std::string_view output);
// The first error in what nvcc, cicc, ptxas, g++ or the linker printed.
[[nodiscard]] FirstError first_error(std::string_view output);
// ptxas -v: the largest registers, spills and shared of all kernels.
[[nodiscard]] std::map<std::string, int64_t> ptxas_facts(std::string_view output);
// Paths of a make rule as -MD writes it, in order, the target left out.
[[nodiscard]] std::vector<std::string> parse_depfile(std::string_view text);
// True where the source says `// sculler:requires <name>`.
[[nodiscard]] bool source_requires(std::string_view source, std::string_view name);

}  // namespace sculler::eval
