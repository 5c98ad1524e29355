// Generators, partitions, sampling: what they promise, and that they are the same everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "gnn/remote.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;
using namespace sculler::gnn;

void is_sound(const Graph& graph) {
  ASSERT_EQ(graph.neighbours.size(), graph.offsets.back());
  for (uint32_t v = 0; v < graph.nodes(); ++v)
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e) {
      const uint32_t u = graph.neighbours[e];
      ASSERT_LT(u, graph.nodes());
      ASSERT_NE(u, v) << "a loop";
      if (e > graph.offsets[v]) {
        ASSERT_LT(graph.neighbours[e - 1], u) << "not ascending, or twice";
      }
      const auto* begin = graph.neighbours.data();
      ASSERT_TRUE(std::binary_search(begin + graph.offsets[u], begin + graph.offsets[u + 1], v))
          << "an edge in one direction";
    }
}

uint64_t hash_of(const std::vector<uint32_t>& values) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const uint32_t v : values) h = (h ^ v) * 0x100000001b3u;
  return h;
}

TEST(Graphs, DropLoopsAndRepetitions) {
  const Graph graph = graph_of(4, {{0, 1}, {1, 0}, {2, 2}, {0, 1}, {3, 1}});
  EXPECT_EQ(graph.offsets, (std::vector<uint64_t>{0, 1, 3, 3, 4}));
  EXPECT_EQ(graph.neighbours, (std::vector<uint32_t>{1, 0, 3, 1}));
}

TEST(Graphs, RmatIsSkewedAndTheSameEverywhere) {
  const Graph graph = rmat(10, 16, 3);
  is_sound(graph);
  EXPECT_EQ(graph.nodes(), 1024U);
  uint64_t most = 0;
  for (uint32_t v = 0; v < graph.nodes(); ++v) most = std::max(most, graph.degree(v));
  const double mean = static_cast<double>(graph.neighbours.size()) / 1024;
  EXPECT_GT(static_cast<double>(most), 6 * mean);
  EXPECT_EQ(hash_of(graph.neighbours), hash_of(rmat(10, 16, 3).neighbours));
  EXPECT_NE(hash_of(graph.neighbours), hash_of(rmat(10, 16, 4).neighbours));
}

TEST(Graphs, BlocksHaveMostEdgesWithinTheirClass) {
  const Graph graph = block_model({3000, 8, 12, 0.8}, 1);
  is_sound(graph);
  ASSERT_EQ(graph.labels.size(), graph.nodes());
  uint64_t inside = 0;
  for (uint32_t v = 0; v < graph.nodes(); ++v)
    for (uint64_t e = graph.offsets[v]; e < graph.offsets[v + 1]; ++e)
      inside += graph.labels[v] == graph.labels[graph.neighbours[e]] ? 1 : 0;
  // 0.8 and an eighth of the rest, less repetitions, of which there are more inside.
  const double share = static_cast<double>(inside) / static_cast<double>(graph.neighbours.size());
  EXPECT_GT(share, 0.75);
  EXPECT_LT(share, 0.86);
}

TEST(Graphs, PartsAreBalancedAndCutLessThanChance) {
  const Graph graph = block_model({4000, 8, 16, 0.9}, 2);
  const auto part = partition(graph, 4, 1);
  std::vector<uint64_t> size(4);
  for (const uint32_t p : part) ++size.at(p);
  for (const uint64_t s : size) EXPECT_LE(s, 1051U);
  EXPECT_LT(cut_share(graph, part), 0.5) << "chance cuts three quarters";
  EXPECT_EQ(part, partition(graph, 4, 1));
  const auto one = partition(graph, 1, 1);
  EXPECT_EQ(std::set<uint32_t>(one.begin(), one.end()), std::set<uint32_t>{0});
  EXPECT_EQ(partition(graph_of(5, {}), 2, 1).size(), 5U) << "isolated nodes";
}

TEST(Graphs, EdgeListsAreReadAndBadLinesNamed) {
  const test::TempFolder folder("gnn_edges");
  const std::string path = folder.path("edges.txt");
  std::ofstream(path) << "# a comment\n100\t7\n7 9\n\n9 100\n";
  const auto graph = read_edges(path);
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(graph->nodes(), 3U);
  EXPECT_EQ(graph->neighbours.size(), 6U);
  std::ofstream(path) << "1 2\n3 x\n";
  const auto bad = read_edges(path);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().file, path + ":2");
  EXPECT_FALSE(read_edges(folder.path("missing")));
}

TEST(Sampling, TakesAtMostTheFanoutOfEachNode) {
  // A star: the centre has 50 leaves.
  std::vector<Edge> edges;
  for (uint32_t v = 1; v <= 50; ++v) edges.emplace_back(0, v);
  const Graph star = graph_of(51, edges);
  Sampler sampler(star, {{10}, 4, 1});
  const std::vector<uint32_t> centre = {0};
  EXPECT_EQ(sampler.nodes(centre, 0, 0).size(), 11U);
  EXPECT_NE(sampler.nodes(centre, 0, 0), sampler.nodes(centre, 0, 1)) << "minibatches differ";
  EXPECT_EQ(sampler.nodes(centre, 2, 5), sampler.nodes(centre, 2, 5)) << "and are repeatable";
  const std::vector<uint32_t> leaf = {7};
  EXPECT_EQ(sampler.nodes(leaf, 0, 0), (std::vector<uint32_t>{0, 7}));
  // Every leaf is drawn about equally often: 10 of 50, 2000 times.
  std::vector<int> count(51);
  for (uint64_t b = 0; b < 2000; ++b)
    for (const uint32_t v : sampler.nodes(centre, 1, b)) ++count[v];
  for (uint32_t v = 1; v <= 50; ++v) EXPECT_NEAR(count[v], 400, 90) << v;
}

TEST(Sampling, BlocksNameTheEdgesThatWereDrawn) {
  const auto graph = gnn::rmat(9, 8, 1);
  gnn::Sampler sampler(graph, {{3, 4}, 10, 7});
  const std::vector<uint32_t> seeds{5, 17, 300};
  const auto sample = sampler.sample(seeds, 2, 1);
  ASSERT_EQ(sample.blocks.size(), 2U);
  EXPECT_EQ(sample.seeds, 3U);
  EXPECT_EQ(sample.blocks[0].destinations(), 3U);
  EXPECT_EQ(std::vector<uint32_t>(sample.nodes.begin(), sample.nodes.begin() + 3), seeds);
  const std::vector<uint32_t> fanouts{3, 4};
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto& block = sample.blocks[layer];
    for (uint32_t i = 0; i < block.destinations(); ++i) {
      const uint32_t v = sample.nodes[i];
      std::set<uint32_t> near;
      for (uint32_t e = block.offsets[i]; e < block.offsets[i + 1]; ++e)
        near.insert(sample.nodes[block.sources[e]]);
      EXPECT_EQ(near.size(), std::min<uint64_t>(fanouts[layer], graph.degree(v)));
      for (const uint32_t u : near)
        EXPECT_TRUE(std::binary_search(
            graph.neighbours.begin() + static_cast<int64_t>(graph.offsets[v]),
            graph.neighbours.begin() + static_cast<int64_t>(graph.offsets[v + 1]), u));
    }
  }
  EXPECT_EQ(sampler.nodes(seeds, 2, 1).size(), sample.nodes.size());
}

TEST(Sampling, AnEpochHasEveryTrainNodeOnce) {
  const Graph graph = graph_of(10, {{0, 1}});
  const Sampler sampler(graph, {{5}, 4, 9});
  const std::vector<uint32_t> train = {1, 2, 3, 5, 7, 8};
  const auto epoch = sampler.epoch(train, 0);
  ASSERT_EQ(epoch.size(), 2U);
  EXPECT_EQ(epoch[1].size(), 2U) << "the last minibatch is short";
  std::set<uint32_t> all;
  for (const auto& b : epoch) all.insert(b.begin(), b.end());
  EXPECT_EQ(all, std::set<uint32_t>(train.begin(), train.end()));
  EXPECT_NE(epoch, sampler.epoch(train, 1));
  EXPECT_TRUE(sampler.epoch({}, 0).empty()) << "no train nodes on a rank";
}

TEST(Sampling, ARanksTraceHasRemoteIdsAlone) {
  const Graph graph = block_model({2000, 4, 10, 0.9}, 5);
  const auto part = partition(graph, 3, 1);
  TraceSettings settings;
  settings.sampler = {{10, 5}, 50, 3};
  settings.rank = 1;
  settings.epochs = 2;
  const auto trace = remote_trace(graph, part, settings);
  ASSERT_GT(trace.minibatches(), 4U);
  for (const uint64_t id : trace.ids) ASSERT_NE(part[id], 1U);
  EXPECT_GT(trace.head.halo, 0U);
  std::set<uint64_t> candidates;
  for (const auto& c : trace.head.candidates) candidates.insert(c.id);
  for (const uint64_t id : trace.ids) ASSERT_TRUE(candidates.contains(id)) << "VIP missed a node";
  EXPECT_GE(candidates.size(), trace.head.halo / 2);
  settings.train = 0;
  EXPECT_EQ(remote_trace(graph, part, settings).minibatches(), 0U);
}

// VIP on a path 0 - 1 - 2 by hand: seeds {0}, one of one a minibatch, fanouts 1 and 1.
TEST(Sampling, InclusionProbabilitiesByHand) {
  const Graph path = graph_of(3, {{0, 1}, {1, 2}});
  const std::vector<uint32_t> train = {0}, fanouts = {1, 1};
  const auto vip = steer::inclusion_probabilities(path.view(), train, 1, fanouts);
  // p0 = (1, 0, 0); p1: node 1 gets all of 0; p2: 0 and 2 get half of 1 each.
  EXPECT_FLOAT_EQ(vip[0], 1.0F);
  EXPECT_FLOAT_EQ(vip[1], 1.0F);
  EXPECT_FLOAT_EQ(vip[2], 0.5F);
  for (const float p : steer::inclusion_probabilities(path.view(), {}, 1, fanouts))
    EXPECT_EQ(p, 0.0F);
}

}  // namespace
