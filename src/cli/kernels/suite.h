// The suite of kernels as figures: rows as JSON lines, the table, Fast@p, the picture. No side
// effects.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::cli::kernels {

struct Against {
  double ratio = 0, low = 0, high = 0;  // its time over the best's: above 1 the best is faster
  std::string call;                     // FASTER, SLOWER, AMBIGUOUS
};

// What models were asked for in the run that the program comes from.
struct Cost {
  std::string role, model;
  int64_t calls = 0, prompt_tokens = 0, answer_tokens = 0;
  double usd = 0;
};

struct Row {
  std::string kernel, target, size;
  std::string key;      // of what was measured: the job's id
  std::string status;   // of the verdict; empty: skipped
  std::string skipped;  // why nothing was measured
  std::string message;
  std::string best, from;  // the program, and the run or "seed"
  std::string baseline;    // what one writes first
  std::string vendor;      // a library's; empty: none
  double us = 0;
  std::map<std::string, Against> against;  // by baseline
  std::optional<double> percent_peak, percent_sol;
  bool latency_bound = false;
  std::vector<Cost> costs;

  [[nodiscard]] bool right() const { return status == "PASSED" || status == "AMBIGUOUS"; }
  [[nodiscard]] const Against* over(const std::string& name) const;
  // % of measured peak of a baseline: the best's over its ratio.
  [[nodiscard]] std::optional<double> percent_of(const std::string& name) const;
};

[[nodiscard]] std::string row_json(const Row& row);
[[nodiscard]] Result<Row> parse_row(std::string_view line, std::string_view origin);
// Figures of a verdict (docs/internals.md) into the row.
[[nodiscard]] Status take_verdict(std::string_view verdict, Row& row);

struct Summary {
  int asked = 0, skipped = 0, right = 0;
  std::map<std::string, double> fast;  // "1", "1.2" …: share of the kernels not skipped that are
                                       // right and more than so many times as fast as the baseline
  std::optional<double> geomean, geomean_vendor;  // over baseline, over the library
  std::optional<double> peak_before, peak_after;  // geomeans of % of measured peak
  int bound_by_latency = 0;                       // left out of both
};
[[nodiscard]] Summary summarize(const std::vector<Row>& rows);

// Table, cost, summary and what others reached elsewhere.
[[nodiscard]] std::string table(const std::vector<Row>& rows);
// Bars of % of measured peak (of speed over the baseline where there is no peak).
[[nodiscard]] std::string picture(const std::vector<Row>& rows);

}  // namespace sculler::cli::kernels
