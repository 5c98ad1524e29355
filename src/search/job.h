// What is asked of the evaluator: a job's id and its line (docs/internals.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/candidate.h"

namespace sculler::search {

// The same for every job of a run, but for stages and seed.
struct JobFrame {
  std::string task;  // absolute folder
  std::string task_sha256;
  std::string target;   // "emu", "cuda", "cpu"
  std::string profile;  // absolute path, may be empty
  std::string profile_sha256;
  int n_ranks = 1;
  int nodes = 1;  // emu: that the ranks lie on
  std::string size;
  std::string predict_size;  // may be empty
  std::vector<std::string> stages;
  uint64_t seed = 1;
  // Baselines that the bench stage interleaves with the candidate; none: all of the task's. The
  // best one says all there is to say, and each costs a group of its own.
  std::vector<std::string> compare{};
  bool operations = false;  // emu: what each operation reads and writes, in the verdict's trace
};

// SHA-256 over the candidate's content and the frame: the same question has the same id.
[[nodiscard]] std::string job_id(const JobFrame& frame, const Candidate& candidate);
// One line of JSON, no newline.
[[nodiscard]] std::string job_line(const JobFrame& frame, const Candidate& candidate,
                                   std::string_view id);

// The gates that a candidate passes in the search, and those of a confirmation.
[[nodiscard]] std::vector<std::string> search_stages(std::string_view target);
[[nodiscard]] std::vector<std::string> confirm_stages(std::string_view target);

}  // namespace sculler::search
