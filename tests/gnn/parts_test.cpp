// Graphs and parts on disk: what is written is read back, what is wrong is named.
#include "gnn/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "gnn/npy.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;
using namespace sculler::gnn;
using testing::HasSubstr;

Dataset blocks(uint32_t nodes) {
  BlockModel model;
  model.nodes = nodes;
  model.classes = 4;
  model.degree = 8;
  return synthesise("blocks", block_model(model, 1), {6, 4, 0.5, 0.3}, 1);
}

TEST(Npy, IsNumPysFormat) {
  const std::string bytes = npy::head("<f4", std::vector<uint64_t>{3, 2});
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(bytes.size() % 64, 0U);
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"));
  EXPECT_THAT(npy::head("<u8", std::vector<uint64_t>{3}), HasSubstr("'shape': (3,), }"));
  const std::string file = bytes + std::string(24, '\0');
  auto read = parse_npy<float>(file, "f");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->shape, (std::vector<uint64_t>{3, 2}));
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_FALSE(parse_npy<float>(file.substr(0, n), "f")) << n;
  const auto other = parse_npy<int32_t>(file, "f");
  EXPECT_EQ(other.error().key, "descr");
  EXPECT_THAT(other.error().cure, HasSubstr("astype('<i4')"));
  std::string fortran = file;
  fortran.replace(fortran.find("False"), 5, "True ");
  EXPECT_EQ(parse_npy<float>(fortran, "f").error().key, "fortran_order");
  std::string huge = file;
  huge.replace(huge.find("(3, 2)"), 6, "(9999999999999999, 99999999999)").resize(file.size());
  EXPECT_FALSE(parse_npy<float>(huge, "f"));
}

TEST(Metis, TextIsRead) {
  auto graph = parse_metis("% a path and a lone node\n4 2\n2\n1 3\n2\n\n", "g");
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(graph->nodes(), 4U);
  EXPECT_EQ(graph->neighbours, (std::vector<uint32_t>{1, 0, 2, 1}));
  EXPECT_EQ(graph->degree(3), 0U);
  auto weighted = parse_metis("2 1 011 2\n7 7 2 5\n8 8 1 5\n", "g");
  ASSERT_TRUE(weighted) << weighted.error().text();
  EXPECT_EQ(weighted->neighbours, (std::vector<uint32_t>{1, 0}));
  const std::pair<const char*, const char*> bad[] = {{"", "head"},
                                                     {"2\n", "head"},
                                                     {"2 1\n2\n", "ends at node 1"},
                                                     {"2 1\n3\n1\n", "neighbour 3"},
                                                     {"2 1\n0\n1\n", "neighbour 0"},
                                                     {"2 2\n2\n1\n", "twice 2"},
                                                     {"2 1\n2\nx\n", "whole number"},
                                                     {"2 1 1\n2\n1 1\n", "weight"},
                                                     {"2 1 5\n2\n1\n", "format 5"}};
  for (const auto& [text, what] : bad) {
    const auto read = parse_metis(text, "g");
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(what)) << text;
    EXPECT_THAT(read.error().file, testing::StartsWith("g:"));
  }
}

class Parts : public testing::Test {
 protected:
  static void cut_file(const std::string& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }
  test::TempFolder folder_{"gnn_parts"};
};

TEST_F(Parts, ADatasetIsReadBack) {
  const Dataset made = blocks(200);
  ASSERT_TRUE(write_dataset(folder_.path("g"), made));
  auto read = read_dataset(folder_.path("g"));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->name, "blocks");
  EXPECT_EQ(read->graph.neighbours, made.graph.neighbours);
  EXPECT_EQ(read->data.features, made.data.features);
  EXPECT_EQ(read->data.labels, made.data.labels);
  EXPECT_EQ(read->data.train, made.data.train);
  EXPECT_EQ(read->data.test, made.data.test);
}

TEST_F(Parts, SynthesisHasClassesThatFeaturesTell) {
  const Dataset made = blocks(800);
  // The nearest class mean is right far more often than by chance.
  std::vector<double> means(4 * 6), count(4);
  for (uint32_t v = 0; v < 800; ++v) {
    const auto c = static_cast<size_t>(made.data.labels[v]);
    ++count[c];
    for (size_t j = 0; j < 6; ++j)
      means[c * 6 + j] += static_cast<double>(made.data.features[v * 6 + j]);
  }
  uint32_t right = 0;
  for (uint32_t v = 0; v < 800; ++v) {
    size_t best = 0;
    double nearest = 1e9;
    for (size_t c = 0; c < 4; ++c) {
      double distance = 0;
      for (size_t j = 0; j < 6; ++j) {
        const double d =
            static_cast<double>(made.data.features[v * 6 + j]) - means[c * 6 + j] / count[c];
        distance += d * d;
      }
      if (distance < nearest) {
        nearest = distance;
        best = c;
      }
    }
    right += best == static_cast<size_t>(made.data.labels[v]) ? 1 : 0;
  }
  EXPECT_GT(right, 300U);
  const Dataset communities = synthesise("r", rmat(8, 8, 1), {}, 1);
  EXPECT_EQ(communities.data.classes, 16U);
}

TEST_F(Parts, APartitionHoldsTheWholeGraphRenumbered) {
  const Dataset made = blocks(300);
  const auto part = partition(made.graph, 3, 1);
  auto book = write_parts(folder_.path("p"), made, part, 3, "greedy");
  ASSERT_TRUE(book) << book.error().text();
  auto read = read_book(folder_.path("p"));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->begin, book->begin);
  EXPECT_EQ(read->method, "greedy");
  auto graph = read_topology(*read);
  ASSERT_TRUE(graph) << graph.error().text();
  // orig_id leads back: the same edges, rows and labels.
  std::vector<uint32_t> old;
  for (uint32_t p = 0; p < 3; ++p) {
    auto ids = read_npy<uint32_t>(folder_.path("p") + "/" + read->topology[p] + "/orig_id.npy");
    ASSERT_TRUE(ids);
    for (const uint32_t v : ids->data) EXPECT_EQ(part[v], p);
    old.insert(old.end(), ids->data.begin(), ids->data.end());
  }
  ASSERT_EQ(old.size(), 300U);
  for (uint32_t v = 0; v < 300; ++v) {
    std::set<uint32_t> near;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; ++e)
      near.insert(old[graph->neighbours[e]]);
    const auto first = made.graph.neighbours.begin();
    EXPECT_EQ(near,
              std::set<uint32_t>(first + static_cast<int64_t>(made.graph.offsets[old[v]]),
                                 first + static_cast<int64_t>(made.graph.offsets[old[v] + 1])));
    EXPECT_EQ(read->owner(v), part[old[v]]);
  }
  const auto report = cut_report(made, part, 3);
  for (uint32_t p = 0; p < 3; ++p) {
    auto data = read_part(*read, p);
    ASSERT_TRUE(data) << data.error().text();
    for (uint64_t i = 0; i < read->size(p); ++i) {
      const uint32_t v = old[read->begin[p] + i];
      EXPECT_EQ(data->labels[i], made.data.labels[v]);
      EXPECT_EQ(data->features[i * 6 + 5], made.data.features[v * 6 + 5]);
    }
    const auto halo = halo_of(*graph, *read, p);
    EXPECT_EQ(halo.size(), report.halo[p]);
    auto kept = read_npy<uint32_t>(folder_.path("p") + "/" + read->topology[p] + "/halo.npy");
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->data, halo);
  }
}

TEST_F(Parts, WhatIsWrongIsNamed) {
  const Dataset made = blocks(100);
  const std::string to = folder_.path("p");
  const auto write = [&] {
    ASSERT_TRUE(write_parts(to, made, partition(made.graph, 2, 1), 2, "greedy"));
  };
  write();
  const std::string json_path = to + "/parts.json";
  const std::string good = real_files().read(json_path).value();
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    auto json = nlohmann::json::parse(good);
    change(json);
    EXPECT_TRUE(real_files().write_atomic(json_path, json.dump()));
    const auto read = read_book(to);
    EXPECT_FALSE(read);
    return read ? Error{} : read.error();
  };
  EXPECT_EQ(with([](auto& j) { j.erase("node_map"); }).key, "node_map._N");
  EXPECT_EQ(with([](auto& j) { j["node_map"]["_N"][1][0] = 3; }).key, "node_map._N");
  EXPECT_EQ(with([](auto& j) { j["node_map"]["_N"].erase(1); }).key, "node_map._N");
  EXPECT_EQ(with([](auto& j) { j["num_nodes"] = 7; }).key, "num_nodes");
  EXPECT_EQ(with([](auto& j) { j["version"] = 2; }).code, ErrorCode::kVersion);
  EXPECT_THAT(with([](auto& j) { j.erase("version"); }).message, HasSubstr("DGL"));
  EXPECT_THAT(with([](auto& j) { j.erase("part-1"); }).text(), HasSubstr("part-1"));
  for (const size_t n : {0U, 1U, 40U, 200U}) {
    ASSERT_TRUE(real_files().write_atomic(json_path, good.substr(0, n)));
    EXPECT_FALSE(read_book(to)) << n;
  }
  EXPECT_THAT(read_book(folder_.path("none")).error().cure, HasSubstr("sculler-gnn partition"));

  write();
  auto book = read_book(to);
  ASSERT_TRUE(book);
  cut_file(to + "/part1/graph/offsets.npy");
  EXPECT_EQ(read_topology(*book).error().file, to + "/part1/graph/offsets.npy");
  write();
  auto neighbours = read_npy<uint32_t>(to + "/part0/graph/neighbours.npy").value().data;
  neighbours[3] = 100;
  ASSERT_TRUE(write_npy(to + "/part0/graph/neighbours.npy", neighbours));
  EXPECT_THAT(read_topology(*book).error().message, HasSubstr("names node 100"));
  write();
  auto labels = read_npy<int32_t>(to + "/part0/node_feats/labels.npy").value().data;
  labels[2] = 4;
  ASSERT_TRUE(write_npy(to + "/part0/node_feats/labels.npy", labels));
  EXPECT_THAT(read_part(*book, 0).error().message, HasSubstr("node 2 has label 4"));
  labels.pop_back();
  ASSERT_TRUE(write_npy(to + "/part0/node_feats/labels.npy", labels));
  EXPECT_EQ(read_part(*book, 0).error().key, "shape");
}

TEST_F(Parts, MetisBalancesNodesAndTrainNodes) {
  Dataset made = blocks(2000);
  // Train nodes lie together, which a cut by size alone would not balance.
  for (uint32_t v = 0; v < 2000; ++v) made.data.train[v] = made.data.labels[v] == 0 ? 1 : 0;
  auto part = metis_parts(made.graph, made.data.train, 4, 1);
  if (!part && part.error().code == ErrorCode::kUnsupported) GTEST_SKIP() << part.error().text();
  ASSERT_TRUE(part) << part.error().text();
  const auto report = cut_report(made, *part, 4);
  EXPECT_LE(report.balance, 1.1);
  EXPECT_LE(report.train_balance, 1.2);
  EXPECT_LT(report.cut, 0.7);
  EXPECT_GT(report.cut, 0.0);
  EXPECT_EQ(*part, metis_parts(made.graph, made.data.train, 4, 1).value());
  EXPECT_EQ(metis_parts(made.graph, made.data.train, 1, 1).value(), std::vector<uint32_t>(2000, 0));
}

TEST(Limits, MetisHas32Bits) {
  EXPECT_TRUE(fits_metis(INT32_MAX, INT32_MAX));
  const auto edges = fits_metis(10, uint64_t{INT32_MAX} + 1);
  ASSERT_FALSE(edges);
  EXPECT_EQ(edges.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(edges.error().text(), HasSubstr("2147483648"));
  EXPECT_FALSE(fits_metis(uint64_t{INT32_MAX} + 1, 10));
}

}  // namespace
