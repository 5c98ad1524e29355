// A graph cut into parts, on disk as DGL lays it out: NAME.json with node_map and edge_map, a
// folder a part; npy files in place of DGL's own (docs/training.md). Nodes are renumbered, so that
// a part owns a range of ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gnn/dataset.h"

namespace sculler::gnn {

struct PartBook {
  std::string path;  // of the JSON file; parts lie beside it
  std::string name, method;
  std::vector<uint64_t> begin;       // part p owns ids begin[p] … begin[p + 1] - 1
  std::vector<uint64_t> edge_begin;  // and these edges, each direction counted once
  uint32_t dim = 0, classes = 0;
  std::vector<std::string> features, topology;  // folders of each part, below the JSON file's

  [[nodiscard]] uint32_t parts() const { return static_cast<uint32_t>(begin.size() - 1); }
  [[nodiscard]] uint64_t nodes() const { return begin.back(); }
  [[nodiscard]] uint64_t size(uint32_t part) const { return begin[part + 1] - begin[part]; }
  [[nodiscard]] uint32_t owner(uint64_t id) const;
};

// What a cut is worth.
struct CutReport {
  double cut = 0;                            // share of edges between parts
  double balance = 0, train_balance = 0;     // largest part over the mean; 0 where there is nothing
  std::vector<uint64_t> nodes, train, halo;  // a part
};
[[nodiscard]] CutReport cut_report(const Dataset& dataset, const std::vector<uint32_t>& part,
                                   uint32_t parts);

// By METIS (k-way, least cut; nodes and train nodes balanced). kUnsupported where this build has
// none, the library is missing, or the graph does not fit its 32-bit indices.
[[nodiscard]] Result<std::vector<uint32_t>> metis_parts(const Graph& graph,
                                                        const std::vector<uint8_t>& train,
                                                        uint32_t parts, uint64_t seed);
// Whether an index of METIS can count the graph's edge ends.
[[nodiscard]] Status fits_metis(uint64_t nodes, uint64_t edge_ends);

[[nodiscard]] Result<PartBook> write_parts(const std::string& folder, const Dataset& dataset,
                                           const std::vector<uint32_t>& part, uint32_t parts,
                                           const std::string& method);
[[nodiscard]] Result<PartBook> read_book(const std::string& path);
// The whole topology, with the ids of the book.
[[nodiscard]] Result<Graph> read_topology(const PartBook& book);
[[nodiscard]] Result<NodeData> read_part(const PartBook& book, uint32_t part);
// Nodes of other parts next to this one, ascending.
[[nodiscard]] std::vector<uint32_t> halo_of(const Graph& graph, const PartBook& book,
                                            uint32_t part);

}  // namespace sculler::gnn
