// Times that ranks claim against the checker's own clock (docs/measuring.md). All in ns of
// CLOCK_MONOTONIC, which the processes of one host share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/job.h"

namespace sculler::verify {

struct RankClock {
  uint64_t announced_ns = 0;  // claimed in Opened, before it was sent
  uint64_t start_ns = 0;      // claimed in Done: just before sculler_run
  uint64_t end_ns = 0;        // claimed in Done: the device was idle
  uint64_t event_ns = 0;
  uint64_t opened_received_ns = 0;  // the checker's
  uint64_t done_received_ns = 0;
};

class ClockJudge {
 public:
  explicit ClockJudge(const ClockRule& rule) : rule_(rule) {}
  // Why these figures cannot be true of one host with one clock; `rank` is set. Empty: they can.
  static std::optional<std::string> impossible(uint64_t sent_ns,
                                               const std::vector<RankClock>& ranks, int& rank);
  // An empty run: no candidate is loaded, so what differs is the cost of messages and barriers.
  void calibrate(uint64_t sent_ns, const std::vector<RankClock>& ranks);
  // Latency = last end - first start, or more where the checker's clock asks for it. `delayed`:
  // delays were injected, the figures are kept but not judged.
  void judge(uint64_t sent_ns, bool delayed, const std::vector<RankClock>& ranks,
             IterationResult& result);
  // Said once an iteration: threads a processor that want to run (host_load.h).
  void crowd(double runnable_per_cpu) { crowd_.push_back(runnable_per_cpu); }
  // Over all timed iterations so far: why the claims as a whole are false. Empty: they are not.
  [[nodiscard]] std::optional<std::string> systematic() const;
  // Median over the empty runs: region by the checker's clock minus latency claimed.
  [[nodiscard]] uint64_t typical_offset_ns() const;
  [[nodiscard]] uint64_t close_offset_ns() const { return close_offset_ns_; }
  [[nodiscard]] uint64_t open_offset_ns() const { return open_offset_ns_; }

 private:
  struct Spans {
    uint64_t latency, open, close;  // claimed; Run sent -> last Opened; the checker's own region
  };
  static Spans spans(uint64_t sent_ns, const std::vector<RankClock>& ranks);
  [[nodiscard]] uint64_t slack(uint64_t latency_ns) const;

  ClockRule rule_;
  std::vector<double> offsets_;  // of empty runs
  std::vector<double> crowd_;    // of all iterations
  uint64_t open_offset_ns_ = 0, close_offset_ns_ = 0;
  std::vector<double> excess_ns_, claimed_ns_;  // of timed iterations
};

}  // namespace sculler::verify
