// The network that is trained, behind an interface: libtorch stays in one file (torch_model.cpp),
// which is C++17, since clang 19 takes its headers in no later one. So is this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "gnn/sample.h"

namespace sculler::gnn {

struct ModelSettings {
  std::string kind = "sage";  // or "gat"
  uint32_t dim = 0, classes = 0;
  uint32_t hidden = 64, layers = 2, heads = 4;
  double learning_rate = 0.003;
  // The first value of element i of tensor t, from -1 to 1: the same on all ranks.
  std::function<double(uint64_t tensor, uint64_t element)> weight;
};

// A minibatch as the model sees it.
struct Batch {
  const Sample& sample;
  const float* features;  // sample.nodes × dim
  const int32_t* labels;  // of the seeds, all ≥ 0
};

struct Outcome {
  double loss = 0;     // summed over seeds
  uint64_t right = 0;  // seeds whose class was guessed
};

class Model {
 public:
  virtual ~Model() = default;
  [[nodiscard]] virtual uint64_t parameters() const = 0;
  // Loss, and into `gradient` (parameters() floats) the gradient of its sum.
  [[nodiscard]] virtual Outcome learn(const Batch& batch, float* gradient) = 0;
  // Loss alone.
  [[nodiscard]] virtual Outcome judge(const Batch& batch) = 0;
  // One step of the optimizer (Adam) with the mean gradient.
  virtual void step(const float* gradient) = 0;
  // Parameters and the optimizer's state; load() takes what save() gave.
  [[nodiscard]] virtual std::vector<float> save() const = 0;
  [[nodiscard]] virtual Status load(const std::vector<float>& state) = 0;
};

// GraphSAGE with mean (Hamilton et al., 2017), or GAT (Veličković et al., 2018), on libtorch.
// One thread.
[[nodiscard]] Result<std::unique_ptr<Model>> make_torch_model(const ModelSettings& settings);

}  // namespace sculler::gnn
