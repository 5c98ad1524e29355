// What a group's run came to: the trusted process's line, read with bounds, or what its absence
// means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/launcher.h"

namespace sculler::eval {

struct Prediction {
  std::string size;
  double latency_us = 0;
  std::vector<double> per_rank_us;
};

struct RunResult {
  std::string status = "INTERNAL";  // a word of docs/statuses.md
  std::string message, advice, where;
  int rank = -1;
  std::optional<double> relative_l2{}, max_abs{};
  std::string findings = "[]", counters = "{}", trace = "{}";  // JSON as text, bounded
  std::string sync_hash, schedule;
  std::vector<double> latency_us;            // of iterations that were not warm-up
  std::vector<std::vector<double>> rank_us;  // beside latency_us: each rank's
  // Beside latency_us: do the ranks' clocks agree with the checker's; the region by the checker's
  // own clock, which exceeds an empty run's latency by clock_offset_us (docs/measuring.md).
  std::vector<bool> agrees;
  std::vector<double> region_us;
  double clock_offset_us = 0;
  std::vector<double> event_us;  // of the slowest rank's events: evidence
  bool replayed = false;         // every iteration was a graph of several runs
  std::optional<Prediction> predicted{};
  std::vector<std::string> notes;
  [[nodiscard]] bool passed() const { return status == "PASSED"; }
};

// Reads a result line. An unknown status, or a line that is no result, is INTERNAL.
[[nodiscard]] RunResult parse_result(std::string_view line);
// True where the trusted process went away without a line and without a deadline: it was killed or
// broke, and nothing is known about the candidate.
[[nodiscard]] bool is_our_failure(const GroupOutcome& outcome);
// The same for a finished group: where there is no line, says how the processes ended; what ranks
// printed becomes a note.
[[nodiscard]] RunResult result_of(const GroupOutcome& outcome);

}  // namespace sculler::eval
