// A graph to train on: topology, features, labels, which nodes are trained and tested on. On disk a
// folder of npy files (docs/training.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gnn/graph.h"

namespace sculler::gnn {

// What belongs to nodes; rows in their order.
struct NodeData {
  uint32_t dim = 0, classes = 0;
  std::vector<float> features;       // nodes × dim
  std::vector<int32_t> labels;       // -1: none
  std::vector<uint8_t> train, test;  // 0 or 1 a node
};

struct Dataset {
  std::string name;
  Graph graph;
  NodeData data;
};

// Features and labels for a graph that has none: the label of a node is the graph's own or, where
// it has none either, one of `classes` communities (partition()); features are the label's mean and
// noise; a share of the nodes is trained on, as many others are tested on.
struct Synthesis {
  uint32_t dim = 64, classes = 16;
  double signal = 0.25, train = 0.3;
};
[[nodiscard]] Dataset synthesise(std::string name, Graph graph, const Synthesis& how,
                                 uint64_t seed);

[[nodiscard]] Status write_dataset(const std::string& folder, const Dataset& dataset);
[[nodiscard]] Result<Dataset> read_dataset(const std::string& folder);

// features.npy, labels.npy, train.npy and test.npy of a folder.
[[nodiscard]] Status write_node_data(const std::string& folder, const NodeData& data);
[[nodiscard]] Result<NodeData> read_node_data(const std::string& folder, uint64_t nodes,
                                              uint32_t dim, uint32_t classes);
// Offsets from 0 to the number of neighbours, all neighbours below `nodes`; `folder` is named.
[[nodiscard]] Status check_topology(const Graph& graph, uint64_t nodes, const std::string& folder);

// "rmat:16", "blocks:10000", "edges:FILE", "metis:FILE".
[[nodiscard]] Result<Graph> make_graph(const std::string& text, uint64_t seed);
inline constexpr const char* kGraphs = "rmat:SCALE, blocks:NODES, edges:FILE (SNAP), metis:FILE";

}  // namespace sculler::gnn
