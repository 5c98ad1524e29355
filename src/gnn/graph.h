// Undirected graphs: made, read, and cut into partitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "steer/vip.h"

namespace sculler::gnn {

using Edge = std::pair<uint32_t, uint32_t>;

struct Graph {
  std::vector<uint64_t> offsets{0};  // neighbours of v: offsets[v] … offsets[v + 1]
  std::vector<uint32_t> neighbours;  // ascending, no loops, no edge twice
  std::vector<uint32_t> labels;      // one a node, or empty

  [[nodiscard]] uint64_t nodes() const { return offsets.size() - 1; }
  [[nodiscard]] uint64_t degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
  [[nodiscard]] steer::GraphView view() const { return {offsets, neighbours}; }
};

// Both directions of each edge; loops and repetitions are dropped.
[[nodiscard]] Graph graph_of(uint64_t nodes, const std::vector<Edge>& edges);

// R-MAT with 2^scale nodes, (.57, .19, .19, .05), `edge_factor` edges a node before repetitions are
// dropped; node names are scrambled, so that ranges of ids mean nothing.
[[nodiscard]] Graph rmat(uint32_t scale, uint32_t edge_factor, uint64_t seed);

// A degree-corrected stochastic block model: `classes` labels, degrees by a power law of exponent
// 2.5 up to sqrt(nodes) times the least, `degree` edges a node on average, `inside` of them within
// the class.
struct BlockModel {
  uint32_t nodes = 0, classes = 16;
  double degree = 16, inside = 0.8;
};
[[nodiscard]] Graph block_model(const BlockModel& model, uint64_t seed);

// "u v" a line, '#' comments (SNAP). Nodes are numbered in the order in which they appear.
[[nodiscard]] Result<Graph> read_edges(const std::string& path);
// A graph file of METIS: "nodes edges [format [constraints]]", then a line of neighbours a node,
// numbered from 1; weights are read over. Nodes keep their order, isolated ones too.
[[nodiscard]] Result<Graph> read_metis(const std::string& path);
[[nodiscard]] Result<Graph> parse_metis(std::string_view text, const std::string& origin);

// The part of every node: linear deterministic greedy (Stanton and Kliot, 2012) over the nodes in
// breadth-first order, restreamed; parts differ by 5 % in size at most.
[[nodiscard]] std::vector<uint32_t> partition(const Graph& graph, uint32_t parts, uint64_t seed);
// Edges between parts, over all edges.
[[nodiscard]] double cut_share(const Graph& graph, const std::vector<uint32_t>& part);

}  // namespace sculler::gnn
