// Training without MPI and libtorch: ranks are threads, the model is linear in every feature that
// was fetched, so that one wrong row changes the losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "gnn/local_net.h"
#include "gnn/parts.h"
#include "gnn/train/checkpoint.h"
#include "gnn/train/options.h"
#include "gnn/train/trainer.h"
#include "steer/policy.h"
#include "steer/trace.h"
#include "support/temp_folder.h"

namespace {

using namespace sculler;
using namespace sculler::gnn;

class LinearModel final : public Model {
 public:
  explicit LinearModel(const ModelSettings& settings) : dim_(settings.dim) {
    for (uint64_t j = 0; j < dim_; ++j) state_.push_back(static_cast<float>(settings.weight(0, j)));
  }
  [[nodiscard]] uint64_t parameters() const override { return dim_; }
  // The squared distance of w · x from the seed's label, x being a neighbour's row, or a node's
  // own; farther nodes count with a label of 0.
  [[nodiscard]] Outcome learn(const Batch& batch, float* gradient) override {
    Outcome out;
    for (size_t i = 0; i < batch.sample.nodes.size(); ++i) {
      const float* x = batch.features + i * dim_;
      double error = i < batch.sample.seeds ? -batch.labels[i] : 0.0;
      for (uint64_t j = 0; j < dim_; ++j)
        error += static_cast<double>(state_[j]) * static_cast<double>(x[j]);
      out.loss += error * error;
      for (uint64_t j = 0; j < dim_; ++j)
        gradient[j] += static_cast<float>(2 * error * static_cast<double>(x[j]));
    }
    out.right = batch.sample.seeds;
    return out;
  }
  [[nodiscard]] Outcome judge(const Batch& batch) override {
    std::vector<float> gradient(dim_);
    return learn(batch, gradient.data());
  }
  void step(const float* gradient) override {
    for (uint64_t j = 0; j < dim_; ++j) state_[j] -= 0.001F * gradient[j];
  }
  [[nodiscard]] std::vector<float> save() const override { return state_; }
  [[nodiscard]] Status load(const std::vector<float>& state) override {
    if (state.size() != dim_) return fail(ErrorCode::kBadInput, "another width");
    state_ = state;
    return {};
  }

 private:
  uint64_t dim_;
  std::vector<float> state_;
};

Result<std::unique_ptr<Model>> make_linear(const ModelSettings& settings) {
  return std::make_unique<LinearModel>(settings);
}

struct Told {
  std::vector<nlohmann::json> epochs;
  nlohmann::json begin, test;
  std::string losses;
};

class Train : public testing::Test {
 protected:
  Train() {
    BlockModel model;
    model.nodes = 600;
    model.classes = 4;
    model.degree = 8;
    dataset_ = synthesise("blocks", block_model(model, 3), {8, 4, 0.5, 0.4}, 3);
  }
  // Cuts the graph; `part` is a node's part, by number where it is null.
  std::string cut(uint32_t parts, const std::function<uint32_t(uint32_t)>& part = {}) {
    std::vector<uint32_t> of(dataset_.graph.nodes());
    if (part)
      for (uint32_t v = 0; v < of.size(); ++v) of[v] = part(v);
    else of = partition(dataset_.graph, parts, 1);
    const std::string to = folder_.path("parts" + std::to_string(parts));
    EXPECT_TRUE(write_parts(to, dataset_, of, parts, "test"));
    return to;
  }
  static TrainSettings settings(const std::string& parts, const std::string& policy = "free",
                                const std::string& buffer = "25%") {
    TrainSettings s;
    s.parts = parts;
    s.sampler.fanouts = {4, 3};
    s.sampler.batch = 17;
    s.epochs = 2;
    s.prefetch.policy = policy;
    s.buffer = buffer;
    return s;
  }
  static std::vector<Status> statuses(const TrainSettings& s, uint32_t ranks, Told& told) {
    test::LocalWorld world(ranks);
    return world.run([&](Net& net) {
      return train(s, net, make_linear,
                   [&](const nlohmann::json& event) {
                     const std::string kind = event.value("event", "");
                     if (kind == "epoch") {
                       told.epochs.push_back(event);
                       told.losses += event.value("losses", "") + " ";
                     }
                     if (kind == "begin") told.begin = event;
                     if (kind == "test") told.test = event;
                   })
          .status;
    });
  }
  static Told run(const TrainSettings& s, uint32_t ranks) {
    Told told;
    for (const auto& status : statuses(s, ranks, told))
      EXPECT_TRUE(status) << status.error().text();
    return told;
  }
  static Error refused(const TrainSettings& s, uint32_t ranks) {
    Told told;
    const auto all = statuses(s, ranks, told);
    EXPECT_TRUE(told.epochs.empty());
    for (const auto& status : all) EXPECT_FALSE(status);
    for (const auto& status : all)
      if (!status && !status.error().message.starts_with("rank")) return status.error();
    return all[0] ? Error{} : all[0].error();
  }

  test::TempFolder folder_{"gnn_train"};
  Dataset dataset_;
};

TEST_F(Train, LossesAreTheSameBitsForEveryPolicyAndSize) {
  for (const uint32_t ranks : {1U, 2U, 4U}) {
    const std::string parts = cut(ranks);
    const auto plain = run(settings(parts, "none", "0"), ranks);
    ASSERT_EQ(plain.epochs.size(), 2U);
    EXPECT_NE(plain.epochs[0].value("losses", ""), plain.epochs[1].value("losses", ""));
    std::vector<std::string> policies{"rudder:1", "massivegnn:2", "known:3"};
    for (const auto& n : steer::policy_names()) policies.emplace_back(n.name);
    for (const auto& policy : policies)
      for (const char* buffer : {"0", "1", "5%", "100%"}) {
        const auto told = run(settings(parts, policy, buffer), ranks);
        EXPECT_EQ(told.losses, plain.losses) << ranks << " ranks, " << policy << " " << buffer;
        uint64_t hits = 0;
        for (size_t e = 0; e < told.epochs.size(); ++e) {
          const auto number = [&](const char* key) {
            return told.epochs[e].value(key, uint64_t{0});
          };
          EXPECT_EQ(number("fetched") - number("extra") + number("hits"), number("remote"));
          EXPECT_EQ(number("remote"), plain.epochs[e].value("remote", uint64_t{1}));
          EXPECT_EQ(number("bytes"), number("fetched") * (8 + 8 * 4));
          hits += number("hits");
        }
        if (ranks == 1 || std::string(buffer) == "0") { EXPECT_EQ(hits, 0U); }
        if (ranks > 1 && policy == "lru" && std::string(buffer) == "100%") { EXPECT_GT(hits, 0U); }
      }
  }
}

TEST_F(Train, DecisionsChangeNoLoss) {
  const std::string parts = cut(2);
  const auto plain = run(settings(parts, "none", "0"), 2);
  for (const char* maker : {"fixed:2", "random:5", "heuristic"}) {
    auto s = settings(parts, "rudder");
    s.prefetch.decide = maker;
    EXPECT_EQ(run(s, 2).losses, plain.losses) << maker;
  }
}

TEST_F(Train, ARankWithoutTrainNodesOrWithIsolatedOnesTakesPart) {
  for (uint32_t v = 0; v < 600; ++v)
    if (v >= 300) dataset_.data.train[v] = 0;
  // The last ten nodes lose their edges; some of them are trained on.
  std::vector<Edge> edges;
  for (uint32_t v = 0; v < 590; ++v)
    for (uint64_t e = dataset_.graph.offsets[v]; e < dataset_.graph.offsets[v + 1]; ++e)
      if (dataset_.graph.neighbours[e] < 590) edges.emplace_back(v, dataset_.graph.neighbours[e]);
  dataset_.graph = graph_of(600, edges);
  for (uint32_t v = 0; v < 600; ++v) dataset_.data.train[v] |= v >= 597 ? 1 : 0;
  const std::string parts = cut(3, [](uint32_t v) { return v < 300 ? v % 2 : v >= 590 ? 1U : 2U; });
  const auto plain = run(settings(parts, "none", "0"), 3);
  EXPECT_EQ(plain.begin["train"][2], 0);
  EXPECT_GT(plain.begin["train"][0], 0);
  EXPECT_EQ(run(settings(parts, "free", "25%"), 3).losses, plain.losses);

  std::fill(dataset_.data.train.begin(), dataset_.data.train.end(), 0);
  EXPECT_THAT(refused(settings(cut(2)), 2).message, testing::HasSubstr("no node is trained on"));
}

TEST_F(Train, ResumesToTheSameLosses) {
  const std::string parts = cut(2);
  auto s = settings(parts);
  s.epochs = 4;
  const auto whole = run(s, 2);
  s.checkpoint = folder_.path("checkpoint");
  s.epochs = 2;
  auto halves = run(s, 2).losses;
  s.epochs = 4;
  s.resume = true;
  s.prefetch.policy = "lru";  // what the losses do not depend on may change
  const auto second = run(s, 2);
  ASSERT_EQ(second.epochs.size(), 2U);
  EXPECT_EQ(second.epochs[0].value("epoch", 0), 2);
  EXPECT_EQ(halves + second.losses, whole.losses);
  EXPECT_EQ(second.test, whole.test);

  s.sampler.batch = 18;
  const auto error = refused(s, 2);
  EXPECT_EQ(error.key, "batch");
  EXPECT_THAT(error.message, testing::HasSubstr("17"));
  s.sampler.batch = 17;
  std::filesystem::resize_file(s.checkpoint, std::filesystem::file_size(s.checkpoint) - 4);
  EXPECT_THAT(refused(s, 2).message, testing::HasSubstr("cut"));
}

TEST_F(Train, RefusesWhatDoesNotFit) {
  const std::string parts = cut(2);
  const auto ranks = refused(settings(parts), 3);
  EXPECT_EQ(ranks.key, "num_parts");
  EXPECT_THAT(ranks.cure, testing::HasSubstr("mpirun -n 2"));
  EXPECT_THAT(refused(settings(parts, "fifo"), 2).message, testing::HasSubstr("s3fifo"));
  EXPECT_THAT(refused(settings(parts, "free", "101%"), 2).message, testing::HasSubstr("share"));
  EXPECT_EQ(refused(settings(folder_.path("nowhere")), 2).code, ErrorCode::kNotFound);
  // One rank's file is cut: all end, one says why.
  const std::string file = parts + "/part1/node_feats/features.npy";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const auto cut_file = refused(settings(parts), 2);
  EXPECT_EQ(cut_file.file, file);
  EXPECT_EQ(cut_file.code, ErrorCode::kBadInput);
}

TEST_F(Train, RecordsTracesThatAreReplayed) {
  auto s = settings(cut(2));
  s.prefetch.record = folder_.path("trace");
  const auto told = run(s, 2);
  uint64_t ids = 0;
  for (const char* rank : {".0", ".1"}) {
    auto trace = steer::read_trace(s.prefetch.record + rank);
    ASSERT_TRUE(trace) << trace.error().text();
    EXPECT_GT(trace->head.halo, 0U);
    EXPECT_EQ(trace->epoch.back(), 1U);
    ids += trace->ids.size();
  }
  EXPECT_EQ(ids, told.epochs[0].value("remote", uint64_t{0}) +
                     told.epochs[1].value("remote", uint64_t{0}));
}

TEST(TrainParts, RowsOutOfRangeAreRefused) {
  const std::vector<float> rows{1, 2, 3, 4};
  std::vector<float> out;
  EXPECT_TRUE(copy_rows(rows, 2, std::vector<uint64_t>{1, 0}, out));
  EXPECT_EQ(out, (std::vector<float>{3, 4, 1, 2}));
  const auto bad = copy_rows(rows, 2, std::vector<uint64_t>{2}, out);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, testing::HasSubstr("row 2"));
}

TEST(TrainParts, OptionsSayWhatIsWrong) {
  auto parsed = parse_train_options({"p", "--fanout", "10,25", "--policy", "lru", "--no-test"});
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(parsed->settings.sampler.fanouts, (std::vector<uint32_t>{25, 10}));
  EXPECT_FALSE(parsed->settings.test);
  EXPECT_THAT(parse_train_options({"--help"})->help, testing::HasSubstr("s3fifo"));
  EXPECT_EQ(parse_train_options({}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(parse_train_options({"p", "--resume"}).error().key, "--resume");
  EXPECT_EQ(parse_train_options({"p", "--batch", "0"}).error().code, ErrorCode::kUsage);
}

TEST(TrainParts, CheckpointsAreWholeOrRefused) {
  Checkpoint made;
  made.epochs = 7;
  made.settings = {{"batch", "17"}};
  made.state = {1.5F, -2, 3};
  const std::string bytes = encode(made);
  auto read = decode(bytes, "c");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->epochs, 7U);
  EXPECT_EQ(read->state, made.state);
  EXPECT_TRUE(same_settings(*read, made, "c"));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode(bytes.substr(0, n), "c")) << n;
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_THAT(decode(damaged, "c").error().message, testing::HasSubstr("damaged"));
}

}  // namespace
