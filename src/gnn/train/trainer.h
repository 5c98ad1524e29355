// Distributed training: what one rank does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gnn/sampler.h"
#include "gnn/train/model.h"
#include "gnn/train/net.h"
#include "gnn/train/prefetch.h"

namespace sculler::gnn {

struct TrainSettings {
  std::string parts;  // folder or JSON file of a partition
  SamplerSettings sampler;
  ModelSettings model;         // dim, classes, layers and weights are filled in
  PrefetchSettings prefetch;   // its capacity is computed
  std::string buffer = "25%";  // of the halo, or rows
  uint64_t epochs = 10;
  std::string checkpoint;  // a file, or empty
  uint64_t checkpoint_every = 1;
  bool resume = false;
  bool test = true;    // accuracy on test nodes at the end
  bool steps = false;  // an event a step
  double timeout_s = 300;
};

using MakeModel = std::function<Result<std::unique_ptr<Model>>(const ModelSettings&)>;
// Events of rank 0 (docs/training.md): begin, step, epoch, test, end.
using Report = std::function<void(const nlohmann::json& event)>;

struct TrainEnd {
  Status status;
  // All ranks end with an error of `rank`'s, which alone has to tell it; otherwise this rank's
  // error is not known to the others, which have to be ended.
  bool together = false;
  uint32_t rank = 0;
};
[[nodiscard]] TrainEnd train(const TrainSettings& settings, Net& net, const MakeModel& make_model,
                             const Report& report);

}  // namespace sculler::gnn
