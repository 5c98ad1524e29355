#include "gnn/graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/files.h"
#include "base/strings.h"
#include "gnn/draw.h"

namespace sculler::gnn {

Graph graph_of(uint64_t nodes, const std::vector<Edge>& edges) {
  Graph graph;
  graph.offsets.assign(nodes + 1, 0);
  for (const auto& [u, v] : edges) {
    if (u == v) continue;
    ++graph.offsets[u + 1];
    ++graph.offsets[v + 1];
  }
  for (uint64_t v = 0; v < nodes; ++v) graph.offsets[v + 1] += graph.offsets[v];
  graph.neighbours.resize(graph.offsets[nodes]);
  std::vector<uint64_t> at(graph.offsets.begin(), graph.offsets.end() - 1);
  for (const auto& [u, v] : edges) {
    if (u == v) continue;
    graph.neighbours[at[u]++] = v;
    graph.neighbours[at[v]++] = u;
  }
  // Sorted and without repetitions, in place.
  uint64_t to = 0, begin = 0;
  for (uint64_t v = 0; v < nodes; ++v) {
    const uint64_t end = graph.offsets[v + 1];
    const auto first = graph.neighbours.begin() + static_cast<int64_t>(begin);
    const auto last = graph.neighbours.begin() + static_cast<int64_t>(end);
    std::sort(first, last);
    const uint64_t from = to;
    for (auto n = first; n != last; ++n)
      if (to == from || graph.neighbours[to - 1] != *n) graph.neighbours[to++] = *n;
    graph.offsets[v + 1] = to;
    begin = end;
  }
  graph.neighbours.resize(to);
  return graph;
}

Graph rmat(uint32_t scale, uint32_t edge_factor, uint64_t seed) {
  const uint64_t nodes = uint64_t{1} << scale, mask = nodes - 1;
  // An odd factor and shifts are a permutation of `scale` bits.
  const auto scramble = [&](uint64_t v) {
    v = (v * 0x9E3779B97F4A7C15u + seed) & mask;
    v ^= v >> (scale / 2 + 1);
    return static_cast<uint32_t>((v * 0xD6E8FEB86659FD93u) & mask);
  };
  std::vector<Edge> edges(nodes * edge_factor);
  for (uint64_t e = 0; e < edges.size(); ++e) {
    uint64_t u = 0, v = 0;
    for (uint32_t level = 0; level < scale; ++level) {
      const double x = unit(draw(seed, Use::kEdge, e, level));
      u = u << 1 | (x >= 0.76 ? 1U : 0U);
      v = v << 1 | ((x >= 0.57 && x < 0.76) || x >= 0.95 ? 1U : 0U);
    }
    edges[e] = {scramble(u), scramble(v)};
  }
  return graph_of(nodes, edges);
}

namespace {

// `sums`: the sum of the weights up to each.
void add_weight(std::vector<double>& sums, double weight) {
  sums.push_back((sums.empty() ? 0.0 : sums.back()) + weight);
}
// Which of them the bits choose, each by its weight.
size_t chosen(const std::vector<double>& sums, uint64_t bits) {
  const auto at = std::upper_bound(sums.begin(), sums.end(), unit(bits) * sums.back());
  return static_cast<size_t>(std::min(at, sums.end() - 1) - sums.begin());
}

}  // namespace

Graph block_model(const BlockModel& model, uint64_t seed) {
  const uint64_t n = model.nodes;
  std::vector<uint32_t> label(n);
  std::vector<std::vector<uint32_t>> members(model.classes);
  std::vector<std::vector<double>> sums(model.classes);  // of the members' weights so far
  const double most = std::sqrt(static_cast<double>(n));
  for (uint32_t v = 0; v < n; ++v) {
    label[v] = static_cast<uint32_t>(below(draw(seed, Use::kLabel, v), model.classes));
    const double u = unit(draw(seed, Use::kLabel, v, 1));
    const double weight = std::min(most, std::pow(1 - u, -1 / 1.5));
    add_weight(sums[label[v]], weight);
    members[label[v]].push_back(v);
  }
  const auto member = [&](uint32_t c, uint64_t bits) { return members[c][chosen(sums[c], bits)]; };
  std::vector<double> class_sums;  // classes are chosen by their weight
  for (const auto& s : sums) add_weight(class_sums, s.empty() ? 0.0 : s.back());
  const auto any_class = [&](uint64_t bits) {
    return static_cast<uint32_t>(chosen(class_sums, bits));
  };
  std::vector<Edge> edges;
  if (n > 0) edges.resize(static_cast<size_t>(model.degree / 2 * static_cast<double>(n)));
  for (uint64_t e = 0; e < edges.size(); ++e) {
    const uint32_t a = any_class(draw(seed, Use::kEdge, e, 0));
    const bool inside = unit(draw(seed, Use::kEdge, e, 1)) < model.inside;
    const uint32_t b = inside ? a : any_class(draw(seed, Use::kEdge, e, 2));
    edges[e] = {member(a, draw(seed, Use::kEdge, e, 3)), member(b, draw(seed, Use::kEdge, e, 4))};
  }
  Graph graph = graph_of(n, edges);
  graph.labels = std::move(label);
  return graph;
}

Result<Graph> read_edges(const std::string& path) {
  auto text = real_files().read(path, uint64_t{1} << 34);
  if (!text) return fail(text.error());
  std::unordered_map<uint64_t, uint32_t> number;
  std::vector<Edge> edges;
  uint64_t line_number = 0;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
    ++line_number;
    if (line.empty() || line[0] == '#' || line[0] == '%') continue;
    uint64_t ends[2];
    const char* at = line.data();
    const char* const stop = line.data() + line.size();
    for (uint64_t& id : ends) {
      while (at < stop && (*at == ' ' || *at == '\t')) ++at;
      const auto [next, error] = std::from_chars(at, stop, id);
      if (error != std::errc())
        return fail({ErrorCode::kBadInput,
                     "is not an edge: two whole numbers are expected",
                     path + ":" + std::to_string(line_number),
                     {},
                     {}});
      at = next;
    }
    Edge edge;
    edge.first = number.emplace(ends[0], static_cast<uint32_t>(number.size())).first->second;
    edge.second = number.emplace(ends[1], static_cast<uint32_t>(number.size())).first->second;
    if (number.size() >= UINT32_MAX)
      return fail({ErrorCode::kUnsupported, "has more than 2^32 nodes", path, {}, {}});
    edges.push_back(edge);
  }
  return graph_of(number.size(), edges);
}

}  // namespace sculler::gnn
