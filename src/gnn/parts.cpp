#include "gnn/parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "gnn/npy.h"

namespace sculler::gnn {

namespace {

constexpr int kVersion = 1;
constexpr const char* kAgain = "Cut the graph again: sculler-gnn partition.";

// Pairs [first, last) that follow each other, from 0.
Result<std::vector<uint64_t>> ranges(const nlohmann::json& head, const char* map, const char* type,
                                     uint64_t parts, const std::string& path) {
  const auto bad = [&](std::string message) {
    return fail(
        {ErrorCode::kBadInput, std::move(message), path, std::string(map) + "." + type, kAgain});
  };
  const auto* outer = find_member(head, map);
  const auto* list = outer == nullptr ? nullptr : find_member(*outer, type);
  if (list == nullptr || !list->is_array()) return bad("is missing");
  if (list->size() != parts)
    return bad("has " + std::to_string(list->size()) + " ranges for " + std::to_string(parts) +
               " parts");
  std::vector<uint64_t> begin{0};
  for (const auto& pair : *list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        !pair[1].is_number_unsigned() || pair[0].get<uint64_t>() != begin.back() ||
        pair[1].get<uint64_t>() < begin.back())
      return bad("is not a list of ranges [begin, end) that follow each other from 0");
    begin.push_back(pair[1].get<uint64_t>());
  }
  return begin;
}

template <class T>
std::vector<T> rows_of(const std::vector<T>& all, const std::vector<uint32_t>& nodes,
                       uint64_t width = 1) {
  std::vector<T> out;
  out.reserve(nodes.size() * width);
  for (const uint32_t v : nodes)
    out.insert(out.end(), all.begin() + static_cast<int64_t>(v * width),
               all.begin() + static_cast<int64_t>((v + 1) * width));
  return out;
}

// The nodes of a part, and the graph that it owns a piece of, in new ids.
struct Numbering {
  std::vector<std::vector<uint32_t>> members;  // old ids of each part
  std::vector<uint32_t> id;                    // new id of an old one
};

Status write_part(const std::string& folder, const PartBook& book, uint32_t p,
                  const Dataset& dataset, const Numbering& numbering) {
  const auto& members = numbering.members[p];
  const Graph& graph = dataset.graph;
  std::vector<uint64_t> offsets{0};
  std::vector<uint32_t> neighbours, halo;
  for (const uint32_t v : members) {
    const auto from = static_cast<int64_t>(neighbours.size());
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
      neighbours.push_back(numbering.id[graph.neighbours[e]]);
    std::sort(neighbours.begin() + from, neighbours.end());
    offsets.push_back(neighbours.size());
  }
  for (const uint32_t u : neighbours)
    if (book.owner(u) != p) halo.push_back(u);
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());

  NodeData data;
  data.dim = dataset.data.dim;
  data.classes = dataset.data.classes;
  data.features = rows_of(dataset.data.features, members, data.dim);
  data.labels = rows_of(dataset.data.labels, members);
  data.train = rows_of(dataset.data.train, members);
  data.test = rows_of(dataset.data.test, members);
  if (auto ok = write_node_data(join_path(folder, book.features[p]), data); !ok) return ok;
  const std::string topology = join_path(folder, book.topology[p]);
  if (auto ok = real_files().mkdirs(topology); !ok) return ok;
  if (auto ok = write_npy(join_path(topology, "offsets.npy"), offsets); !ok) return ok;
  if (auto ok = write_npy(join_path(topology, "neighbours.npy"), neighbours); !ok) return ok;
  if (auto ok = write_npy(join_path(topology, "halo.npy"), halo); !ok) return ok;
  return write_npy(join_path(topology, "orig_id.npy"), members);
}

}  // namespace

uint32_t PartBook::owner(uint64_t id) const {
  return static_cast<uint32_t>(std::upper_bound(begin.begin() + 1, begin.end() - 1, id) -
                               begin.begin() - 1);
}

CutReport cut_report(const Dataset& dataset, const std::vector<uint32_t>& part, uint32_t parts) {
  CutReport report;
  report.cut = cut_share(dataset.graph, part);
  report.nodes.resize(parts);
  report.train.resize(parts);
  report.halo.resize(parts);
  std::vector<uint32_t> near;
  for (uint32_t v = 0; v < dataset.graph.nodes(); ++v) {
    ++report.nodes[part[v]];
    report.train[part[v]] += dataset.data.train[v] != 0 ? 1 : 0;
    near.clear();
    for (uint64_t e = dataset.graph.offsets[v]; e < dataset.graph.offsets[v + 1]; ++e)
      near.push_back(part[dataset.graph.neighbours[e]]);
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    for (const uint32_t p : near)
      if (p != part[v]) ++report.halo[p];
  }
  const auto balance = [&](const std::vector<uint64_t>& sizes) {
    uint64_t sum = 0, most = 0;
    for (const uint64_t n : sizes) {
      sum += n;
      most = std::max(most, n);
    }
    return sum == 0 ? 0.0 : static_cast<double>(most) * parts / static_cast<double>(sum);
  };
  report.balance = balance(report.nodes);
  report.train_balance = balance(report.train);
  return report;
}

Result<PartBook> write_parts(const std::string& folder, const Dataset& dataset,
                             const std::vector<uint32_t>& part, uint32_t parts,
                             const std::string& method) {
  PartBook book;
  book.path = join_path(folder, "parts.json");
  book.name = dataset.name;
  book.method = method;
  book.dim = dataset.data.dim;
  book.classes = dataset.data.classes;
  book.begin = {0};
  book.edge_begin = {0};
  Numbering numbering;
  numbering.members.resize(parts);
  numbering.id.resize(dataset.graph.nodes());
  for (uint32_t v = 0; v < dataset.graph.nodes(); ++v) numbering.members[part[v]].push_back(v);
  uint32_t next = 0;
  for (uint32_t p = 0; p < parts; ++p) {
    uint64_t edges = 0;
    for (const uint32_t v : numbering.members[p]) {
      numbering.id[v] = next++;
      edges += dataset.graph.degree(v);
    }
    book.begin.push_back(next);
    book.edge_begin.push_back(book.edge_begin.back() + edges);
    book.features.push_back("part" + std::to_string(p) + "/node_feats");
    book.topology.push_back("part" + std::to_string(p) + "/graph");
  }
  // The JSON file is written last: where it is, all of it is there.
  if (auto ok = real_files().remove_all(book.path); !ok) return fail(ok.error());
  for (uint32_t p = 0; p < parts; ++p)
    if (auto ok = write_part(folder, book, p, dataset, numbering); !ok) return fail(ok.error());

  nlohmann::json head{{"version", kVersion},
                      {"graph_name", book.name},
                      {"part_method", method},
                      {"num_parts", parts},
                      {"halo_hops", 1},
                      {"num_nodes", book.nodes()},
                      {"num_edges", book.edge_begin.back()},
                      {"dim", book.dim},
                      {"classes", book.classes},
                      {"ntypes", {{"_N", 0}}},
                      {"etypes", {{"_N:_E:_N", 0}}}};
  for (uint32_t p = 0; p < parts; ++p) {
    head["node_map"]["_N"].push_back({book.begin[p], book.begin[p + 1]});
    head["edge_map"]["_N:_E:_N"].push_back({book.edge_begin[p], book.edge_begin[p + 1]});
    head["part-" + std::to_string(p)] = {
        {"node_feats", book.features[p]}, {"edge_feats", ""}, {"part_graph", book.topology[p]}};
  }
  if (auto ok = real_files().write_atomic(book.path, pretty_json(head) + "\n"); !ok)
    return fail(ok.error());
  return book;
}

Result<PartBook> read_book(const std::string& given) {
  const std::string path = real_files().is_folder(given) ? join_path(given, "parts.json") : given;
  auto text = real_files().read(path);
  if (!text) {
    Error error = text.error();
    if (error.code == ErrorCode::kNotFound)
      error.cure = "Cut a graph first: sculler-gnn partition GRAPH --parts N --out FOLDER.";
    return fail(error);
  }
  auto head = parse_json(*text, path);
  if (!head) return fail(head.error());
  PartBook book;
  book.path = path;
  auto parts = get_int(*head, "num_parts", path, 1, 1 << 16);
  if (!parts) return fail(parts.error());
  // What DGL writes has no features' width: its own files are not read here.
  if (find_member(*head, "version") == nullptr)
    return fail({ErrorCode::kUnsupported, "is a partition of DGL, whose files only DGL reads", path,
                 "version", kAgain});
  auto version = get_int(*head, "version", path);
  if (!version) return fail(version.error());
  if (*version != kVersion)
    return fail({ErrorCode::kVersion, "is version " + std::to_string(*version) + ", 1 is read here",
                 path, "version", kAgain});
  auto dim = get_int(*head, "dim", path, 1, 1 << 20);
  auto classes = get_int(*head, "classes", path, 1, 1 << 20);
  auto name = get_string(*head, "graph_name", path);
  auto nodes = get_int(*head, "num_nodes", path, 0, UINT32_MAX);
  if (!dim) return fail(dim.error());
  if (!classes) return fail(classes.error());
  if (!name) return fail(name.error());
  if (!nodes) return fail(nodes.error());
  book.dim = static_cast<uint32_t>(*dim);
  book.classes = static_cast<uint32_t>(*classes);
  book.name = *name;
  book.method = string_or(*head, "part_method", "");
  const auto n_parts = static_cast<uint64_t>(*parts);
  auto begin = ranges(*head, "node_map", "_N", n_parts, path);
  if (!begin) return fail(begin.error());
  auto edges = ranges(*head, "edge_map", "_N:_E:_N", n_parts, path);
  if (!edges) return fail(edges.error());
  book.begin = std::move(*begin);
  book.edge_begin = std::move(*edges);
  if (book.nodes() != static_cast<uint64_t>(*nodes))
    return fail({ErrorCode::kBadInput,
                 "says " + std::to_string(*nodes) + " nodes, node_map ends at " +
                     std::to_string(book.nodes()),
                 path, "num_nodes", kAgain});
  for (uint64_t p = 0; p < n_parts; ++p) {
    const std::string key = "part-" + std::to_string(p);
    auto part = get_object(*head, key, path);
    if (!part) return fail(part.error());
    auto features = get_string(**part, "node_feats", path);
    auto topology = get_string(**part, "part_graph", path);
    if (!features) return fail(features.error());
    if (!topology) return fail(topology.error());
    book.features.push_back(*features);
    book.topology.push_back(*topology);
  }
  return book;
}

Result<Graph> read_topology(const PartBook& book) {
  Graph graph;
  for (uint32_t p = 0; p < book.parts(); ++p) {
    const std::string folder = join_path(parent_path(book.path), book.topology[p]);
    auto offsets = read_npy_of<uint64_t>(join_path(folder, "offsets.npy"), book.size(p) + 1);
    if (!offsets) return fail(offsets.error());
    auto neighbours = read_npy_of<uint32_t>(join_path(folder, "neighbours.npy"),
                                            book.edge_begin[p + 1] - book.edge_begin[p]);
    if (!neighbours) return fail(neighbours.error());
    Graph piece;
    piece.offsets = std::move(*offsets);
    piece.neighbours = std::move(*neighbours);
    if (auto ok = check_topology(piece, book.nodes(), folder); !ok) return fail(ok.error());
    for (size_t i = 1; i < piece.offsets.size(); ++i)
      graph.offsets.push_back(book.edge_begin[p] + piece.offsets[i]);
    graph.neighbours.insert(graph.neighbours.end(), piece.neighbours.begin(),
                            piece.neighbours.end());
  }
  return graph;
}

Result<NodeData> read_part(const PartBook& book, uint32_t part) {
  return read_node_data(join_path(parent_path(book.path), book.features[part]), book.size(part),
                        book.dim, book.classes);
}

std::vector<uint32_t> halo_of(const Graph& graph, const PartBook& book, uint32_t part) {
  std::vector<uint32_t> halo;
  for (uint64_t e = graph.offsets[book.begin[part]]; e < graph.offsets[book.begin[part + 1]]; ++e)
    if (book.owner(graph.neighbours[e]) != part) halo.push_back(graph.neighbours[e]);
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
  return halo;
}

}  // namespace sculler::gnn
