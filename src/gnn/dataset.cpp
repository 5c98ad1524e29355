#include "gnn/dataset.h"

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"
#include "gnn/draw.h"
#include "gnn/npy.h"

namespace sculler::gnn {

namespace {

constexpr int kVersion = 1;

// Near a normal of mean 0 and deviation 1, by sums and products alone: the same everywhere.
float noise(uint64_t seed, uint64_t v, uint64_t j) {
  double sum = 0;
  for (uint64_t k = 0; k < 4; ++k) sum += unit(draw(seed, Use::kFeature, v, j, k)) - 0.5;
  return static_cast<float>(sum * 1.7320508075688772);
}

}  // namespace

Dataset synthesise(std::string name, Graph graph, const Synthesis& how, uint64_t seed) {
  Dataset out;
  out.name = std::move(name);
  const uint64_t n = graph.nodes();
  NodeData& data = out.data;
  data.dim = how.dim;
  auto labels = std::move(graph.labels);
  graph.labels.clear();
  if (labels.empty()) labels = partition(graph, how.classes, seed);
  data.labels.assign(labels.begin(), labels.end());
  for (const uint32_t label : labels) data.classes = std::max(data.classes, label + 1);
  data.features.resize(n * how.dim);
  std::vector<float> means(uint64_t{data.classes} * how.dim);
  for (uint64_t c = 0; c < data.classes; ++c)
    for (uint64_t j = 0; j < how.dim; ++j)
      means[c * how.dim + j] = static_cast<float>(how.signal) * noise(seed, c, j + (1ULL << 32));
  data.train.resize(n);
  data.test.resize(n);
  for (uint64_t v = 0; v < n; ++v) {
    for (uint64_t j = 0; j < how.dim; ++j)
      data.features[v * how.dim + j] = means[labels[v] * how.dim + j] + noise(seed, v, j);
    const double u = unit(draw(seed, Use::kTrain, v));
    data.train[v] = u < how.train ? 1 : 0;
    data.test[v] = u >= how.train && u < 2 * how.train ? 1 : 0;
  }
  out.graph = std::move(graph);
  return out;
}

Status write_node_data(const std::string& folder, const NodeData& data) {
  if (auto ok = real_files().mkdirs(folder); !ok) return ok;
  if (auto ok = write_npy(join_path(folder, "features.npy"), data.features, data.dim); !ok)
    return ok;
  if (auto ok = write_npy(join_path(folder, "labels.npy"), data.labels); !ok) return ok;
  if (auto ok = write_npy(join_path(folder, "train.npy"), data.train); !ok) return ok;
  return write_npy(join_path(folder, "test.npy"), data.test);
}

Result<NodeData> read_node_data(const std::string& folder, uint64_t nodes, uint32_t dim,
                                uint32_t classes) {
  NodeData data;
  data.dim = dim;
  data.classes = classes;
  auto features = read_npy_of<float>(join_path(folder, "features.npy"), nodes, dim);
  if (!features) return fail(features.error());
  auto labels = read_npy_of<int32_t>(join_path(folder, "labels.npy"), nodes);
  if (!labels) return fail(labels.error());
  for (uint64_t v = 0; v < nodes; ++v)
    if ((*labels)[v] < -1 || (*labels)[v] >= static_cast<int64_t>(classes))
      return fail({ErrorCode::kBadInput,
                   "node " + std::to_string(v) + " has label " + std::to_string((*labels)[v]) +
                       ", there are " + std::to_string(classes) + " classes",
                   join_path(folder, "labels.npy"),
                   {},
                   "Number the classes from 0, or raise `classes`; -1 is no label."});
  auto train = read_npy_of<uint8_t>(join_path(folder, "train.npy"), nodes);
  if (!train) return fail(train.error());
  const std::string test_path = join_path(folder, "test.npy");
  std::vector<uint8_t> test(nodes);
  if (real_files().exists(test_path)) {
    auto read = read_npy_of<uint8_t>(test_path, nodes);
    if (!read) return fail(read.error());
    test = std::move(*read);
  }
  data.features = std::move(*features);
  data.labels = std::move(*labels);
  data.train = std::move(*train);
  data.test = std::move(test);
  return data;
}

Status check_topology(const Graph& graph, uint64_t nodes, const std::string& folder) {
  const auto bad = [&](const char* file, std::string message) {
    return fail({ErrorCode::kBadInput,
                 std::move(message),
                 join_path(folder, file),
                 {},
                 "Write the graph again."});
  };
  if (graph.offsets.front() != 0 || graph.offsets.back() != graph.neighbours.size())
    return bad("offsets.npy", "does not go from 0 to the number of neighbours, " +
                                  std::to_string(graph.neighbours.size()));
  for (uint64_t v = 0; v + 1 < graph.offsets.size(); ++v)
    if (graph.offsets[v] > graph.offsets[v + 1])
      return bad("offsets.npy", "decreases behind node " + std::to_string(v));
  for (const uint32_t u : graph.neighbours)
    if (u >= nodes)
      return bad("neighbours.npy", "names node " + std::to_string(u) + ", there are " +
                                       std::to_string(nodes) + " (numbered from 0)");
  return {};
}

Status write_dataset(const std::string& folder, const Dataset& dataset) {
  if (auto ok = write_node_data(folder, dataset.data); !ok) return ok;
  if (auto ok = write_npy(join_path(folder, "offsets.npy"), dataset.graph.offsets); !ok) return ok;
  if (auto ok = write_npy(join_path(folder, "neighbours.npy"), dataset.graph.neighbours); !ok)
    return ok;
  return real_files().write_atomic(join_path(folder, "graph.json"),
                                   pretty_json({{"version", kVersion},
                                                {"name", dataset.name},
                                                {"nodes", dataset.graph.nodes()},
                                                {"edges", dataset.graph.neighbours.size() / 2},
                                                {"dim", dataset.data.dim},
                                                {"classes", dataset.data.classes}}) +
                                       "\n");
}

Result<Dataset> read_dataset(const std::string& folder) {
  const std::string path = join_path(folder, "graph.json");
  auto text = real_files().read(path);
  if (!text) return fail(text.error());
  auto head = parse_json(*text, path);
  if (!head) return fail(head.error());
  auto version = get_int(*head, "version", path);
  if (!version) return fail(version.error());
  if (*version != kVersion)
    return fail({ErrorCode::kVersion, "is version " + std::to_string(*version) + ", 1 is read here",
                 path, "version", "Make the graph again with this version."});
  auto nodes = get_int(*head, "nodes", path, 0, UINT32_MAX);
  auto dim = get_int(*head, "dim", path, 1, 1 << 20);
  auto classes = get_int(*head, "classes", path, 1, 1 << 20);
  auto name = get_string(*head, "name", path);
  if (!nodes) return fail(nodes.error());
  if (!dim) return fail(dim.error());
  if (!classes) return fail(classes.error());
  if (!name) return fail(name.error());
  const auto n = static_cast<uint64_t>(*nodes);
  Dataset out;
  out.name = *name;
  auto offsets = read_npy_of<uint64_t>(join_path(folder, "offsets.npy"), n + 1);
  if (!offsets) return fail(offsets.error());
  auto neighbours = read_npy<uint32_t>(join_path(folder, "neighbours.npy"));
  if (!neighbours) return fail(neighbours.error());
  out.graph.offsets = std::move(*offsets);
  out.graph.neighbours = std::move(neighbours->data);
  if (auto ok = check_topology(out.graph, n, folder); !ok) return fail(ok.error());
  auto data =
      read_node_data(folder, n, static_cast<uint32_t>(*dim), static_cast<uint32_t>(*classes));
  if (!data) return fail(data.error());
  out.data = std::move(*data);
  return out;
}

Result<Graph> make_graph(const std::string& text, uint64_t seed) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "edges" && !rest.empty()) return read_edges(rest);
  if (kind == "metis" && !rest.empty()) return read_metis(rest);
  const auto number = parse_int(rest);
  if (kind == "rmat" && number && *number >= 1 && *number <= 28)
    return rmat(static_cast<uint32_t>(*number), 16, seed);
  if (kind == "blocks" && number && *number >= 2 && *number <= (int64_t{1} << 28)) {
    BlockModel model;
    model.nodes = static_cast<uint32_t>(*number);
    return block_model(model, seed);
  }
  return fail({ErrorCode::kUsage,
               "is no graph",
               {},
               "--graph " + text,
               std::string("Use ") + kGraphs + "; SCALE is 1 to 28."});
}

}  // namespace sculler::gnn
