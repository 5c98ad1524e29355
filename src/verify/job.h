// What a job asks of the trusted process (job.json) and what it answers (the result line):
// docs/internals.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/status_words.h"
#include "sculler/candidate.h"
#include "sculler/fill.h"

namespace sculler::verify {

enum class Target : uint8_t { kCuda, kEmu, kCpu };
enum class Mode : uint8_t { kCheck, kBench };
enum class Role : uint8_t { kInput, kOutput, kInOut, kScratch };

namespace status = sculler::status;

struct BufferSpec {
  std::string name;
  Role role = Role::kInput;
  uint32_t dtype = SCULLER_F32;  // sculler_dtype
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint64_t row_elements = 0;  // the task's unit of a row; 0 in job.json means one row of `elements`
  bool replicated = false;    // the same values on all ranks
  uint32_t family = SCULLER_NORMAL;  // sculler_family and its bits, inputs only
};

struct IterationSpec {
  int set = 0;
  int content =
      -1;  // which inputs the set gets; -1: the session draws one that the set did not hold before
  bool warm_up = false;
  uint64_t delay_before_ns = 0;  // upper bounds: each rank draws below them (rule 7)
  uint64_t delay_inside_ns = 0;
  int delayed_rank = -1;  // this rank alone sleeps, for the whole bound
  bool cold = false;      // caches are flushed before the region opens
};

struct Deadlines {
  uint64_t start_ms = 20000;  // until Hello, UniqueId, Pool
  uint64_t setup_ms = 20000;
  uint64_t iteration_ms = 20000;
  uint64_t teardown_ms = 10000;
};

struct Tolerance {
  double relative_l2 = 0;
  double max_abs = 0;
};

// How far the ranks' clocks and the checker's may differ (docs/measuring.md).
struct ClockRule {
  int calibrations = 8;          // empty runs before the candidate is loaded
  uint64_t slack_ns = 30'000;    // absolute, beyond what the empty runs showed
  double slack_fraction = 0.03;  // of the latency; the larger of both counts
};

// What a checker leaves out where somebody wants to see what a defence is worth
// (docs/exploits.md); the evaluator never asks for it in a real run.
struct WeakChecker {
  bool poison = true;  // outputs are poisoned before each iteration
  bool every = true;   // outputs are compared after each iteration, else after the last
};

struct JobSpec {
  std::string job;
  Target target = Target::kCpu;
  Mode mode = Mode::kCheck;
  std::string task;
  int n_ranks = 1;
  bool workload = false;  // ranks communicate: UniqueId is exchanged
  sculler_problem problem{};
  std::vector<BufferSpec> buffers;
  int n_sets = 8;
  int n_contents = 0;  // distinct inputs; 0: as many as sets
  uint64_t seed = 0;
  std::vector<IterationSpec> iterations;
  Tolerance tolerance{};
  std::string reference;       // reference.so
  std::string expected;        // verify_backend.so on cuda
  std::string expected_cache;  // folder; empty: none
  std::string reference_key;   // hash of the task; empty: the reference file's content is hashed
  Deadlines deadlines{};
  ClockRule clock{};
  WeakChecker checker{};
  std::vector<std::string> cuda_libraries;
  std::vector<int> cuda_devices;
  bool flush_l2 = false;
  uint64_t shift = 0;            // bytes from the begin of a buffer's allocation to the buffer
  uint64_t reference_rows = 16;  // random rows checked against the reference on cuda
  std::string emu_json;          // the "emu" object as text, for sculler-vm

  [[nodiscard]] int inputs() const;
  [[nodiscard]] int outputs() const;
};

Result<JobSpec> parse_job(std::string_view text);
std::string print_job(const JobSpec& job);

struct Comparison {
  double relative_l2 = 0;  // over the buffer; infinity where anything is not finite
  double max_abs = 0;
  uint64_t bad = 0;  // elements beyond max_abs or not finite
  int64_t first_bad = -1;
  uint64_t unwritten = 0;  // elements that still hold the poison
  int64_t first_unwritten = -1;
  int64_t worst = -1;  // element of max_abs
  double cap = 0;      // largest error that is not bad: the job's max_abs, or more where expected
                       // values are large
  // NaN-safe: false where a comparison with NaN is.
  [[nodiscard]] bool passes(const Tolerance& tolerance) const;
};

struct RankTimes {
  uint64_t start_ns = 0;  // after the common start
  uint64_t end_ns = 0;
  uint64_t event_ns = 0;  // between events on the rank's stream: evidence
};

struct IterationResult {
  int set = 0;
  int content = 0;
  bool warm_up = false;
  uint64_t latency_ns = 0;  // common start to the last rank's completion
  uint64_t checker_ns = 0;  // Run sent to the last Done received, by the checker's clock
  uint64_t region_ns =
      0;  // first Opened received to the last Done received, by the checker's clock
  bool clocks_agree = true;  // false: latency_ns is the checker's own, larger figure
  int replayed = 0;  // runs in the region's graph, of which the times are the mean; 0: no graph
  std::vector<RankTimes> ranks;
};

struct FindingText {
  std::string kind, text, file, other_file;
  int line = 0, other_line = 0, rank = -1;
};

struct Outcome {
  std::string status = status::kInternal;
  std::string message;
  std::string advice;
  int rank = -1;
  std::string where;
  std::string buffer;   // of the worst comparison
  Comparison errors{};  // the worst seen
  uint64_t clock_offset_ns =
      0;  // by which region_ns exceeds the latency of empty runs, median; 0: not calibrated
  std::vector<IterationResult> iterations;
  std::vector<FindingText> findings;
  std::string sync_hash, schedule;
  std::string counters_json, trace_json;  // objects as text; empty: {}
  std::string predicted_json;             // object as text, emu only; empty: no prediction
};

// Latencies of the timed iterations in ns: those whose clocks agree where they are at least three
// and a third of all, else all, with the checker's larger figures. A rank that lies gains nothing:
// its lies are left out or corrected.
std::vector<double> usable_latencies(const std::vector<IterationResult>& iterations);

// One line without a newline.
std::string print_outcome(const Outcome& outcome);
Result<Outcome> parse_outcome(std::string_view text);
std::string_view target_name(Target target);

}  // namespace sculler::verify
