// Everything that one evaluator process is made of, put together once from its options.
#pragma once

#include <memory>
#include <string>

#include "eval/cache.h"
#include "eval/cascade.h"
#include "eval/clocks.h"
#include "eval/gpus.h"
#include "eval/launcher.h"
#include "eval/linter.h"
#include "eval/sandbox.h"
#include "eval/slurm.h"
#include "eval/toolchain.h"

namespace sculler::eval {

struct Options {
  std::string cache;  // folder; empty: the user's cache
  std::string spool;  // folder; empty: none
  std::string jobs_folder, pack_folder;
  std::string noise_file;
  std::string arch;  // pack: "90a"
  uint64_t cache_bytes = uint64_t{8} << 30;
  int gpu_checks = 1;                          // that share the GPUs at once
  int parallel = 0;                            // 0: one a core
  Containment strictest = Containment::kFull;  // the level to begin with
  bool weak_checker = false;
  int64_t slot_silence_ms = 0;  // this process is a slot of another evaluator; 0: it is none
  std::string srun;             // jobs go to steps that this line starts; empty: they run here
  std::string shared;           // folder that the nodes see; empty: they see what is here
  std::string slot_programs;    // folder of sculler-eval on the nodes; empty: of this program
  SlotSettings slots;
  bool doctor = false, help = false, version = false;
};
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& arguments);
[[nodiscard]] std::string usage();

class Service {
 public:
  // Forks for the driver's probe: before any thread.
  static Result<std::unique_ptr<Service>> make(const Options& options);

  Options options;
  Installation installation;
  Toolchain toolchain;
  Sandbox sandbox;
  GpuReport gpus;
  Machine machine;
  std::string cache_folder;
  std::unique_ptr<ArtifactCache> cache;
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<ToolCompiler> compiler;
  std::unique_ptr<LocalLauncher> launcher;
  std::unique_ptr<LocalExternalHost> external;
  SourceLinter linter;
  SystemClocks clocks{real_files()};
  std::unique_ptr<ToolLines> lines;
  std::unique_ptr<Cascade> cascade;
  [[nodiscard]] int workers() const;
  // What this machine's spread on a target is recorded under (spread.h).
  [[nodiscard]] std::string machine_key(Target target) const;

 private:
  explicit Service(Sandbox box) : sandbox(std::move(box)) {}
};

// What this machine has and lacks, as JSON: containment, compilers, libraries, GPUs, programs.
[[nodiscard]] std::string doctor_json(Service& service);

// Answers job lines on `in` until its end; verdicts go to `out`. Gives up when nobody reads `out`
// any more.
int serve(Service& service, int in, int out);
// The same, each job in a job step of Slurm.
int serve_slurm(const Options& options, int in, int out);
[[nodiscard]] SlurmOptions slurm_options(const Options& options);

// Runs the job files of a folder, prints a table on stdout, verdicts into FOLDER/spool.
int run_folder(Service& service);
// One job file of such a folder: relative paths are the folder's, carried artifacts are named.
[[nodiscard]] Result<Job> read_job_file(const std::string& folder, const std::string& name);
// Runs the noise plan of one job file: progress and a summary on stdout, a JSON line at the end.
int run_noise(Service& service);
// Reads job lines on stdin and fills the folder: job files, artifacts, tasks, profiles, programs.
int pack_folder(Service& service, int in);

// Lines of a descriptor, bounded; for pipes and files.
class LineReader {
 public:
  explicit LineReader(int fd, std::size_t limit = std::size_t{17} << 20) : fd_(fd), limit_(limit) {}
  // False at the end. A line above the limit comes back cut, and the rest of it is dropped.
  bool next(std::string& line);

 private:
  int fd_;
  std::size_t limit_;
  std::string buffer_;
  bool skipping_ = false, ended_ = false;
};

// True where all of it went out.
bool write_all(int fd, std::string_view text);

}  // namespace sculler::eval
