// A task folder: what is optimized, at which sizes, against which baselines, and when an answer is
// right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/toml.h"
#include "task/formula.h"

namespace sculler::task {

enum class Kind : uint8_t { kWorkload, kKernel };  // several ranks; one device
enum class Role : uint8_t { kInput, kOutput, kInOut, kScratch };
// The numbers are those of sculler_dtype (sculler/fill.h).
enum class Dtype : uint8_t { kBf16 = 1, kF16 = 2, kF32 = 3, kI32 = 4 };

[[nodiscard]] std::string_view role_name(Role role);
[[nodiscard]] std::string_view dtype_name(Dtype dtype);  // "bf16"
[[nodiscard]] int dtype_bytes(Dtype dtype);

// Resolved for one problem.
struct Buffer {
  std::string name;
  Role role = Role::kInput;
  Dtype dtype = Dtype::kF32;
  int64_t elements = 0;      // a rank
  int64_t row_elements = 0;  // elements of the unit in which the reference works; divides elements
  int64_t bytes = 0;         // a rank
  bool replicated = false;   // the same content on every rank
  bool positive = false;     // inputs: magnitudes of what the family gives
  int scale_milli = 0;       // inputs: times so many thousandths; 0: as they are
};

// One problem size. `dims` follows the order of Task::dims and of sculler_problem.dim.
struct Problem {
  std::string size;  // "emu", "default", "hidden-3"
  int n_ranks = 1;
  std::vector<int64_t> dims;
};

// What a rank does in one iteration.
struct Work {
  double flops = 0;                      // of matrix products, at the rate of the inputs' dtype
  double hbm_bytes = 0, link_bytes = 0;  // link: each direction
  double flops_vec = 0;                  // everything else that is computed, in float32
};

struct Tolerance {
  double relative_l2 = 0, max_abs = 0;
};

struct Timeouts {
  double compile_s = 300, emulate_s = 60, run_s = 60;
};

struct Task {
  std::string folder;  // absolute
  std::string name, summary;
  Kind kind = Kind::kWorkload;
  std::vector<std::string> targets;  // "emu", "cuda", "cpu", "external": where its candidates can
                                     // run; best first is cuda
  std::string adapter;               // of the target external: name or path; empty: the run says
  std::vector<std::string> dims;
  int default_ranks = 1;
  std::vector<int> supported_ranks;
  Timeouts timeouts;
  int n_sets = 8;
  std::string precision_input, precision_accumulate, precision_output;
  // What products may be made of within the tolerance: the profile's rate "nominal.NAME_tflops"
  // that is their ceiling. The input's dtype, or "split_tf32", "split_bf16" and "split_f16":
  // three products of halves for one of float32.
  std::string precision_products;
  std::vector<std::string>
      families;  // input families beyond "normal" for the stress stage; empty: all
  // Work formulas give no time that can be reached: a chain of dependent steps takes longer.
  bool latency_bound = false;
  // Paths relative to the folder.
  std::string reference, expected;
  std::vector<std::string> baselines, seeds;
  // Of task.toml and every file directly in the folder that is not documentation, with their names.
  std::string sha256;

  // Names of [sizes.*], in order of the file.
  [[nodiscard]] std::vector<std::string> size_names() const;
  // kNotFound with the nearest name for an unknown size; kUsage for a number of ranks that is not
  // supported.
  [[nodiscard]] Result<Problem> problem(std::string_view size, int n_ranks) const;
  // Draws from [ranges]: the same (seed, index, n_ranks) give the same size; `requires` holds. The
  // first draws after a seed's 0 cover lowest and highest bounds as well as the middle.
  // kUnsupported where the task has no ranges.
  [[nodiscard]] Result<Problem> draw_hidden(uint64_t seed, int index, int n_ranks) const;
  // Does `requires` hold? The error names the condition that does not.
  [[nodiscard]] Status check(const Problem& problem) const;

  [[nodiscard]] Result<std::vector<Buffer>> buffers(const Problem& problem) const;
  [[nodiscard]] Result<Work> work(const Problem& problem) const;
  [[nodiscard]] Result<Tolerance> tolerance(const Problem& problem) const;

  // Seed or baseline path → its name: "seeds/tile_store.cu" → "tile_store".
  [[nodiscard]] static std::string stem(std::string_view path);
  // Can a source of that path run on `target`? C++ runs on cpu, CUDA on emu and cuda.
  [[nodiscard]] static bool fits(std::string_view path, std::string_view target);
  // Those of `paths` (baselines or seeds) that fit, in their order.
  [[nodiscard]] static std::vector<std::string> fitting(const std::vector<std::string>& paths,
                                                        std::string_view target);
  // The path of the baseline of that name for `target`, empty where there is none.
  [[nodiscard]] std::string baseline_path(std::string_view name, std::string_view target) const;

  // A formula with the place it was written at, for errors at evaluation.
  struct Placed {
    Formula formula;
    std::string file, key;
  };
  struct BufferSpec {
    std::string name;
    Role role = Role::kInput;
    Dtype dtype = Dtype::kF32;
    bool replicated = false, positive = false;
    int scale_milli = 0;
    Placed elements, row_elements;
  };
  struct Range {
    Placed min, max, step;
  };
  std::vector<BufferSpec> buffer_specs;
  std::vector<std::pair<std::string, std::vector<Placed>>> sizes;
  std::vector<Range> ranges;  // by dim; empty where the task has none
  std::vector<Placed> requirements;
  Placed flops, flops_vec, hbm_bytes, link_bytes, relative_l2, max_abs;

 private:
  [[nodiscard]] Variables variables(const Problem& problem) const;
};

// Reads FOLDER/task.toml and checks it: every formula is evaluated at every size and supported
// number of ranks, every file that it names exists, unknown keys are named with the nearest known
// one.
[[nodiscard]] Result<Task> load_task(Files& files, const std::string& folder);

struct TaskEntry {
  std::string name, folder, kind, summary;
};
// Every folder with a task.toml below ROOT/workloads and ROOT/kernels, by name. Broken ones are
// listed with the error in `summary`.
[[nodiscard]] std::vector<TaskEntry> list_tasks(Files& files,
                                                const std::vector<std::string>& roots);
// `name` is a task's name or the path of a folder. kUnknownTask with the nearest name.
[[nodiscard]] Result<std::string> find_task(Files& files, const std::vector<std::string>& roots,
                                            std::string_view name);

}  // namespace sculler::task
