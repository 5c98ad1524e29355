// Training runs side by side: rows as they are kept, a table, a picture.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::gnn {

// What one training came to. Rows, bytes and hits of all epochs and ranks.
struct TrainingRow {
  std::string policy, buffer;
  uint64_t seed = 0;
  uint64_t remote = 0, hits = 0, fetched = 0, extra = 0, bytes = 0;
  double epoch_s = 0;   // the median epoch's
  double accuracy = 0;  // on test nodes; below 0 where there are none
  std::string losses;   // hashes of the epochs' losses
};

// Of the JSON lines of sculler-gnn train; the error says what is missing.
[[nodiscard]] Result<TrainingRow> training_row(std::string_view lines);
[[nodiscard]] nlohmann::json json_of(const TrainingRow& row);
[[nodiscard]] Result<TrainingRow> training_row_of(const nlohmann::json& row,
                                                  const std::string& origin);

// The median and the extremes over seeds.
struct Spread {
  double median = 0, low = 0, high = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

// One policy at one buffer size, against no buffer with the same seeds.
struct Compared {
  std::string policy, buffer;
  Spread hit_rate, rows, megabytes, epoch_s;
  Spread rows_change;  // rows fetched over those of `none`, minus 1
  Spread speed;        // epoch time of `none` over this one's
  uint64_t seeds = 0;
};
// In the order in which they first appear; `none` stands under every buffer size.
[[nodiscard]] std::vector<Compared> compared(const std::vector<TrainingRow>& rows);
// The seeds whose trainings do not all have the same losses.
[[nodiscard]] std::vector<uint64_t> unequal(const std::vector<TrainingRow>& rows);

[[nodiscard]] std::string comparison_table(const std::vector<Compared>& all);
// Rows fetched and epoch time as bars, a colour a buffer size.
[[nodiscard]] std::string comparison_svg(const std::vector<Compared>& all, std::string_view title);

}  // namespace sculler::gnn
