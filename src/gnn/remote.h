// The remote ids that one rank of a distributed training asks for, as a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gnn/graph.h"
#include "gnn/sampler.h"
#include "steer/trace.h"

namespace sculler::gnn {

struct TraceSettings {
  SamplerSettings sampler;
  uint32_t rank = 0;
  uint64_t epochs = 4;
  double train = 0.3;  // share of the rank's nodes that seeds are drawn from
  bool drift = false;  // from the middle on seeds come from other nodes (drawn afresh)
};

// What is known before training of a rank that owns the nodes of `mine`: its halo, and the remote
// nodes that the sampler can reach from `train`, with degree and inclusion probability.
[[nodiscard]] steer::TraceHead trace_head(const Graph& graph, const std::vector<bool>& mine,
                                          const std::vector<uint32_t>& train,
                                          const SamplerSettings& sampler);

// Candidates are the remote nodes that the sampler can reach, with degree and inclusion
// probability (of the first half's seeds).
[[nodiscard]] steer::Trace remote_trace(const Graph& graph, const std::vector<uint32_t>& part,
                                        const TraceSettings& settings);

}  // namespace sculler::gnn
