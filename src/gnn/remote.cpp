#include "gnn/remote.h"

#include "gnn/draw.h"
#include "steer/vip.h"

namespace sculler::gnn {

namespace {

std::vector<uint32_t> train_nodes(const Graph& graph, const std::vector<uint32_t>& part,
                                  const TraceSettings& settings, uint64_t half) {
  std::vector<uint32_t> out;
  for (uint32_t v = 0; v < graph.nodes(); ++v)
    if (part[v] == settings.rank &&
        unit(draw(settings.sampler.seed, Use::kTrain, v, half)) < settings.train)
      out.push_back(v);
  return out;
}

}  // namespace

steer::TraceHead trace_head(const Graph& graph, const std::vector<bool>& mine,
                            const std::vector<uint32_t>& train, const SamplerSettings& sampler) {
  steer::TraceHead head;
  std::vector<bool> halo(graph.nodes());
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    if (!mine[v]) continue;
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
      const uint32_t u = graph.neighbours[e];
      if (mine[u] || halo[u]) continue;
      halo[u] = true;
      ++head.halo;
    }
  }
  const auto vip =
      steer::inclusion_probabilities(graph.view(), train, sampler.batch, sampler.fanouts);
  for (uint32_t v = 0; v < graph.nodes(); ++v)
    if (!mine[v] && vip[v] > 0) head.candidates.push_back({v, graph.degree(v), vip[v]});
  return head;
}

steer::Trace remote_trace(const Graph& graph, const std::vector<uint32_t>& part,
                          const TraceSettings& settings) {
  steer::Trace trace;
  std::vector<bool> mine(graph.nodes());
  for (uint32_t v = 0; v < graph.nodes(); ++v) mine[v] = part[v] == settings.rank;
  auto train = train_nodes(graph, part, settings, 0);
  trace.head = trace_head(graph, mine, train, settings.sampler);

  Sampler sampler(graph, settings.sampler);
  std::vector<uint64_t> remote;
  for (uint64_t epoch = 0; epoch < settings.epochs; ++epoch) {
    if (settings.drift && epoch == (settings.epochs + 1) / 2)
      train = train_nodes(graph, part, settings, 1);
    uint64_t minibatch = 0;
    for (const auto& seeds : sampler.epoch(train, epoch)) {
      remote.clear();
      for (const uint32_t v : sampler.nodes(seeds, epoch, minibatch))
        if (part[v] != settings.rank) remote.push_back(v);
      trace.add(remote, static_cast<uint32_t>(epoch));
      ++minibatch;
    }
  }
  return trace;
}

}  // namespace sculler::gnn
