// The table that a run shows (design, section 4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/candidate.h"
#include "search/verdict.h"

namespace sculler::search {

struct Row {
  int64_t number = 0;  // 0: a baseline, shown as "–"
  std::string label, directive;
  const Verdict* verdict = nullptr;
  std::optional<double> ratio;  // to the first baseline
  std::string proposed_by{};    // shown where the table has such a column
  bool with_proposer = false;
};

// `kind` heads the column of times: "predicted" or "measured". `baseline` names the one that ratios
// refer to.
[[nodiscard]] std::string table_head(std::string_view kind, std::string_view baseline,
                                     bool with_proposer = false);
[[nodiscard]] std::string table_row(const Row& row);

struct Tally {
  int64_t evaluated = 0, passed = 0, budget = 0;
  double seconds = 0;
  std::string best;  // label of the best so far
  std::optional<double> best_us;
  double usd = 0;
};
// "12 of 40 evaluated, 9 passed, 0:00:31, about 0:01:10 left, $0.00"
[[nodiscard]] std::string tally_text(const Tally& tally, bool with_best);

}  // namespace sculler::search
