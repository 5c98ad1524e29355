// How likely a minibatch samples a node: vertex inclusion probabilities of SALIENT++ (Kaler et al.,
// MLSys 2023), from the graph and the sampler's settings alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sculler::steer {

// An undirected graph: neighbours of v are neighbours[offsets[v]] … neighbours[offsets[v + 1] - 1].
struct GraphView {
  std::span<const uint64_t> offsets;  // one more than there are nodes
  std::span<const uint32_t> neighbours;
  [[nodiscard]] uint64_t nodes() const { return offsets.empty() ? 0 : offsets.size() - 1; }
};

// One a node. `train` are the nodes that seeds are drawn from, `batch` seeds a minibatch; `fanouts`
// from the seeds outwards. p_0 = batch / |train| on train nodes, p_h(v) = 1 − Π over neighbours u
// of (1 − min(1, F_h / degree(u)) · p_{h−1}(u)); the result is 1 − Π_h (1 − p_h). O(edges ·
// layers).
[[nodiscard]] std::vector<float> inclusion_probabilities(const GraphView& graph,
                                                         std::span<const uint32_t> train,
                                                         uint64_t batch,
                                                         std::span<const uint32_t> fanouts);

}  // namespace sculler::steer
