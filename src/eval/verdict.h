// What a job comes to: a status, the evidence, and a sentence that a proposer can act on
// (docs/statuses.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/job.h"
#include "eval/statistics.h"

namespace sculler::eval {

struct Latency {
  Interval us{};
  std::string kind;  // "measured", "predicted" or "external": as an adapter reports it
  std::string size;
};

struct Verdict {
  std::string job;
  std::string status = "INTERNAL";
  std::string stage;
  std::string target, size;
  uint64_t seed = 0;
  std::optional<Latency> latency{};
  std::map<std::string, Interval>
      ratio{};  // baseline -> its latency / the candidate's; above 1 is faster
  std::map<std::string, std::string> comparison{};  // baseline -> FASTER, SLOWER or AMBIGUOUS
  std::string compare_call;           // SLOWER than one of them, FASTER than all, else AMBIGUOUS
  double margin = 0;                  // by which an interval must leave 1 to be called
  std::optional<Interval> cold_us{};  // caches flushed before each iteration; latency is hot
  std::map<std::string, Interval> cold_ratio{};
  std::string clocks = "{}";  // {"before":{},"after":{}} as text
  std::optional<double> percent_sol{}, percent_contended_sol{}, tflops{}, bus_gbps{};
  std::optional<double> percent_peak{};  // cpu: of the least time at this machine's measured rates
  std::string profile = "{}";            // cpu: bottleneck, rates, remarks (cpu_profile.h), as text
  // external: adapter, version, device, containment, what it says it does and what it cannot be
  // held to, as text.
  std::string external = "{}";
  std::vector<double> per_rank_us{};
  std::optional<double> relative_l2{}, max_abs{};
  int rank = -1;
  std::string where, message, advice;
  std::string findings = "[]", counters = "{}", trace = "{}";  // JSON as text
  std::string sync_hash, schedule;
  std::map<std::string, int64_t> facts{};
  std::string source_sha256, artifact_sha256;
  std::string containment;
  std::vector<std::string> notes{};
  std::map<std::string, double> cost_ms{};  // stage -> wall
  std::map<std::string, std::vector<double>>
      samples_us{};  // raw, by name: "candidate", a baseline's name
};

// One line of JSON.
[[nodiscard]] std::string print_verdict(const Verdict& verdict);
// The line of an INTERNAL verdict of a job that no cascade has seen.
[[nodiscard]] std::string internal_line(const Job& job, std::string message, std::string advice);
// What to do next where nothing more exact is known: one sentence a status.
[[nodiscard]] std::string_view default_advice(std::string_view status);
// True for the words of docs/statuses.md: whatever else a process below says becomes INTERNAL.
[[nodiscard]] bool is_status(std::string_view status);

}  // namespace sculler::eval
