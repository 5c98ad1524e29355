#include <algorithm>

#include "gnn/draw.h"
#include "gnn/graph.h"

namespace sculler::gnn {

namespace {

// Every node once, neighbours near each other; starts are drawn.
std::vector<uint32_t> breadth_first(const Graph& graph, uint64_t seed) {
  const uint64_t n = graph.nodes();
  std::vector<uint32_t> all(n), order;
  for (uint32_t v = 0; v < n; ++v) all[v] = v;
  const auto starts = shuffled(all, [&](uint32_t v) { return draw(seed, Use::kPartition, v); });
  std::vector<bool> seen(n);
  order.reserve(n);
  size_t head = 0;
  for (const uint32_t start : starts) {
    if (seen[start]) continue;
    seen[start] = true;
    order.push_back(start);
    for (; head < order.size(); ++head) {
      const uint32_t v = order[head];
      for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
        const uint32_t u = graph.neighbours[e];
        if (seen[u]) continue;
        seen[u] = true;
        order.push_back(u);
      }
    }
  }
  return order;
}

}  // namespace

std::vector<uint32_t> partition(const Graph& graph, uint32_t parts, uint64_t seed) {
  constexpr int kPasses = 8;
  const uint64_t n = graph.nodes();
  const double most = 1.05 * static_cast<double>(n) / parts + 1;
  std::vector<uint32_t> part(n, parts);  // parts: none yet
  std::vector<uint64_t> size(parts), near(parts);
  const auto order = breadth_first(graph, seed);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const uint32_t v : order) {
      std::fill(near.begin(), near.end(), 0);
      for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
        if (part[graph.neighbours[e]] < parts) ++near[part[graph.neighbours[e]]];
      if (part[v] < parts) --size[part[v]];
      uint32_t best = 0;
      double best_score = -1;
      for (uint32_t p = 0; p < parts; ++p) {
        const double room = 1 - static_cast<double>(size[p]) / most;
        if (static_cast<double>(size[p]) + 1 > most) continue;
        const double score = static_cast<double>(near[p] + 1) * room;
        if (score > best_score) {
          best = p;
          best_score = score;
        }
      }
      part[v] = best;
      ++size[best];
    }
  }
  return part;
}

double cut_share(const Graph& graph, const std::vector<uint32_t>& part) {
  uint64_t cut = 0;
  for (uint32_t v = 0; v < graph.nodes(); ++v)
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
      cut += part[v] != part[graph.neighbours[e]] ? 1 : 0;
  return graph.neighbours.empty()
             ? 0.0
             : static_cast<double>(cut) / static_cast<double>(graph.neighbours.size());
}

}  // namespace sculler::gnn
