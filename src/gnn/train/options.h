// The command line of the trainer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gnn/train/trainer.h"

namespace sculler::gnn {

struct TrainOptions {
  TrainSettings settings;
  bool json = false;
  std::string help;  // what was asked for, instead of a run
};

[[nodiscard]] Result<TrainOptions> parse_train_options(const std::vector<std::string>& arguments);
// An event for people; empty where it says nothing to them.
[[nodiscard]] std::string event_text(const nlohmann::json& event);

}  // namespace sculler::gnn
