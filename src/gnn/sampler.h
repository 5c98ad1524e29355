// Neighbour sampling, deterministic: what is drawn depends on seed, epoch, minibatch, layer and
// node alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gnn/graph.h"
#include "gnn/sample.h"

namespace sculler::gnn {

struct SamplerSettings {
  std::vector<uint32_t> fanouts;  // from the seeds outwards
  uint64_t batch = 1000;
  uint64_t seed = 1;
};

class Sampler {
 public:
  Sampler(const Graph& graph, SamplerSettings settings)
      : graph_(graph),
        settings_(std::move(settings)),
        mark_(graph.nodes(), 0),
        place_(graph.nodes(), 0) {}

  // The train nodes in the order of an epoch, cut into minibatches; the last may be short.
  [[nodiscard]] std::vector<std::vector<uint32_t>> epoch(std::span<const uint32_t> train,
                                                         uint64_t number) const;
  // Seeds, and up to fanout neighbours of each node of the layer before, without replacement.
  [[nodiscard]] Sample sample(std::span<const uint32_t> seeds, uint64_t epoch, uint64_t minibatch);
  // All nodes of it, ascending.
  [[nodiscard]] std::vector<uint32_t> nodes(std::span<const uint32_t> seeds, uint64_t epoch,
                                            uint64_t minibatch);

 private:
  const Graph& graph_;
  SamplerSettings settings_;
  std::vector<uint64_t> mark_;   // the call that saw a node last
  std::vector<uint32_t> place_;  // where it stands in that call's nodes
  uint64_t call_ = 0;
};

}  // namespace sculler::gnn
