#include "steer/vip.h"

#include <algorithm>

namespace sculler::steer {

std::vector<float> inclusion_probabilities(const GraphView& graph, std::span<const uint32_t> train,
                                           uint64_t batch, std::span<const uint32_t> fanouts) {
  const uint64_t n = graph.nodes();
  std::vector<double> now(n, 0.0), next(n), out(n);
  if (!train.empty()) {
    const double p = std::min(1.0, static_cast<double>(batch) / static_cast<double>(train.size()));
    for (const uint32_t v : train) now[v] = p;
  }
  for (uint64_t v = 0; v < n; ++v) out[v] = 1 - now[v];  // the probability of not being sampled
  for (const uint32_t fanout : fanouts) {
    // What a node passes on to each neighbour, computed once a node.
    for (uint64_t u = 0; u < n; ++u) {
      const auto degree = static_cast<double>(graph.offsets[u + 1] - graph.offsets[u]);
      if (degree > fanout) now[u] *= fanout / degree;
    }
    for (uint64_t v = 0; v < n; ++v) {
      double none = 1;
      for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
        none *= 1 - now[graph.neighbours[e]];
      next[v] = 1 - none;
      out[v] *= none;
    }
    now.swap(next);
  }
  std::vector<float> result(n);
  for (uint64_t v = 0; v < n; ++v) result[v] = static_cast<float>(1 - out[v]);
  return result;
}

}  // namespace sculler::steer
