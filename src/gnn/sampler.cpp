#include "gnn/sampler.h"

#include <algorithm>

#include "gnn/draw.h"

namespace sculler::gnn {

std::vector<std::vector<uint32_t>> Sampler::epoch(std::span<const uint32_t> train,
                                                  uint64_t number) const {
  const auto order =
      shuffled(train, [&](uint32_t v) { return draw(settings_.seed, Use::kEpoch, number, v); });
  std::vector<std::vector<uint32_t>> out;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i % settings_.batch == 0) out.emplace_back();
    out.back().push_back(order[i]);
  }
  return out;
}

Sample Sampler::sample(std::span<const uint32_t> seeds, uint64_t epoch, uint64_t minibatch) {
  ++call_;
  Sample out;
  auto& all = out.nodes;
  const auto take = [&](uint32_t v) {
    if (mark_[v] != call_) {
      mark_[v] = call_;
      place_[v] = static_cast<uint32_t>(all.size());
      all.push_back(v);
    }
    return place_[v];
  };
  for (const uint32_t v : seeds) take(v);
  out.seeds = static_cast<uint32_t>(all.size());
  std::vector<uint64_t> chosen;
  for (uint64_t layer = 0; layer < settings_.fanouts.size(); ++layer) {
    // As in DGL's blocks a layer's destinations are all nodes so far.
    const size_t frontier = all.size();
    const uint64_t fanout = settings_.fanouts[layer];
    Block block;
    for (size_t i = 0; i < frontier; ++i) {
      const uint32_t v = all[i];
      const uint64_t begin = graph_.offsets[v], degree = graph_.degree(v);
      if (degree <= fanout) {
        for (uint64_t e = 0; e < degree; ++e)
          block.sources.push_back(take(graph_.neighbours[begin + e]));
      } else {
        // Floyd's sample without replacement: `fanout` of `degree` places.
        chosen.clear();
        const uint64_t where = draw(settings_.seed, Use::kNeighbour, epoch, minibatch, layer, v);
        for (uint64_t j = degree - fanout; j < degree; ++j) {
          uint64_t place = below(sculler_mix(where + j * 0x9E3779B97F4A7C15u), j + 1);
          if (std::find(chosen.begin(), chosen.end(), place) != chosen.end()) place = j;
          chosen.push_back(place);
          block.sources.push_back(take(graph_.neighbours[begin + place]));
        }
      }
      block.offsets.push_back(static_cast<uint32_t>(block.sources.size()));
    }
    out.blocks.push_back(std::move(block));
  }
  return out;
}

std::vector<uint32_t> Sampler::nodes(std::span<const uint32_t> seeds, uint64_t epoch,
                                     uint64_t minibatch) {
  auto all = sample(seeds, epoch, minibatch).nodes;
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace sculler::gnn
