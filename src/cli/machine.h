// What this machine has, as the evaluator sees it.
#pragma once

#include <string>
#include <vector>

#include "cli/app.h"

namespace sculler::cli {

struct Gpu {
  std::string name, compute_capability;
  uint64_t bytes = 0;
};

struct Machine {
  std::string containment, containment_why, containment_cure;
  std::vector<std::string> containment_parts;
  std::string cuda_home, nvcc_version;
  std::string nccl_include;
  int nccl_version = 0;  // of the headers
  std::vector<std::string> cutlass;
  std::string gxx;
  std::string openblas, openblas_include;  // folders; empty: not here
  std::vector<Gpu> gpus;
  std::string gpu_problem, driver;
  std::vector<std::string> cuda_libraries, emulator_libraries;
  std::vector<std::pair<std::string, bool>> programs;
  std::string share, cache;
  int cores = 1;
  std::string raw;  // the JSON
};

// Asks `sculler-eval --doctor`. kNotFound with a cure where the program is missing.
[[nodiscard]] Result<Machine> ask_machine(const App& app);

// Environment of the evaluator: an allow-list; no keys, no secrets; multicast off.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> evaluator_environment();
// What Slurm's programs need beside it: their settings, and the allocation that this process is in.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_environment();

// "2.28.9" of 22809.
[[nodiscard]] std::string nccl_text(int version);
// NCCL_VERSION_CODE that a libnccl.so.2 was built as, read from its text; 0 where it is not found.
[[nodiscard]] int nccl_library_version(const std::string& path);

}  // namespace sculler::cli
