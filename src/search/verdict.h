// The evaluator's answer (docs/internals.md), as far as the search reads it. The text itself is
// kept in the store.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sculler::search {

struct Verdict {
  std::string job, status, stage;
  std::optional<double> latency_us, latency_low_us, latency_high_us;
  std::string latency_kind, latency_size;  // "predicted" or "measured"; a size's name
  std::map<std::string, double> ratio;     // baseline → its latency / this latency, medians
  std::map<std::string, std::pair<double, double>> ratio_interval;
  std::optional<double> percent_sol, percent_contended_sol;
  int rank = -1;
  std::string where, message, advice, containment;
  // Calls of NCCL's host collectives that the emulator saw; -1: nobody counted.
  int64_t host_collectives = -1;
  bool recorded = false;  // from a cassette: nothing was evaluated for it

  [[nodiscard]] bool passed() const { return status == "PASSED"; }
  // Passed, or measured without a clear winner: both count as right answers.
  [[nodiscard]] bool right() const { return status == "PASSED" || status == "AMBIGUOUS"; }
};

// Does a verdict of this status say something of the program? A machine that failed, or that has
// not what the program asks for, does not.
[[nodiscard]] bool judges_program(std::string_view status);

// Over the best of them: the lowest ratio is what counts. 0 where there is none.
[[nodiscard]] double lowest_ratio(const std::map<std::string, double>& ratios);

// `origin` names the file or channel in errors (kProtocol).
[[nodiscard]] Result<Verdict> parse_verdict(std::string_view text, std::string_view origin);

}  // namespace sculler::search
