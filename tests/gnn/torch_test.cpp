// The networks on libtorch: gradients against differences, learning, saved state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gnn/train/model.h"

namespace {

using namespace sculler;
using namespace sculler::gnn;

double noise(uint64_t a, uint64_t b) {
  return std::sin(static_cast<double>(a * 31 + b * 17 + 1) * 1.7);
}

ModelSettings settings(const char* kind) {
  ModelSettings s;
  s.kind = kind;
  s.dim = 5;
  s.classes = 3;
  s.hidden = 8;
  s.layers = 2;
  s.heads = 2;
  s.learning_rate = 0.02;
  s.weight = noise;
  return s;
}

// Two seeds, one of them without neighbours; farther nodes with and without their own.
struct Example {
  Example() {
    sample.nodes = {10, 11, 12, 13, 14};
    sample.seeds = 2;
    sample.blocks.resize(2);
    sample.blocks[0].offsets = {0, 2, 2};
    sample.blocks[0].sources = {2, 3};
    sample.blocks[1].offsets = {0, 2, 2, 4, 5};
    sample.blocks[1].sources = {2, 3, 4, 0, 4};
    for (uint64_t i = 0; i < 25; ++i) features.push_back(static_cast<float>(noise(i, 7)));
  }
  [[nodiscard]] Batch batch() const { return {sample, features.data(), labels.data()}; }
  Sample sample;
  std::vector<float> features;
  std::vector<int32_t> labels{2, 0};
};

class Torch : public testing::TestWithParam<const char*> {};

TEST_P(Torch, GradientsAreThoseOfTheLoss) {
  auto model = make_torch_model(settings(GetParam())).value();
  const Example example;
  std::vector<float> gradient(model->parameters());
  const Outcome at = model->learn(example.batch(), gradient.data());
  EXPECT_GT(at.loss, 0);
  EXPECT_DOUBLE_EQ(model->judge(example.batch()).loss, at.loss);
  const auto state = model->save();
  ASSERT_EQ(state.size(), 3 * gradient.size() + 2);
  double largest = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const auto loss = [&](float by) {
      auto moved = state;
      moved[i] += by;
      EXPECT_TRUE(model->load(moved));
      return model->judge(example.batch()).loss;
    };
    const double slope = (loss(2e-3F) - loss(-2e-3F)) / 4e-3;
    EXPECT_NEAR(static_cast<double>(gradient[i]), slope, 0.01) << i;
    largest = std::max(largest, std::abs(slope));
  }
  EXPECT_GT(largest, 0.1);
}

TEST_P(Torch, LearnsAndGoesOnFromItsState) {
  const Example example;
  auto model = make_torch_model(settings(GetParam())).value();
  std::vector<float> gradient(model->parameters());
  const double first = model->judge(example.batch()).loss;
  const auto steps = [&](Model& m, int n) {
    for (int i = 0; i < n; ++i) {
      (void)m.learn(example.batch(), gradient.data());
      m.step(gradient.data());
    }
  };
  steps(*model, 20);
  const auto state = model->save();
  steps(*model, 20);
  EXPECT_LT(model->judge(example.batch()).loss, first / 2);
  EXPECT_EQ(model->judge(example.batch()).right, 2U);
  auto other = make_torch_model(settings(GetParam())).value();
  ASSERT_TRUE(other->load(state));
  steps(*other, 20);
  EXPECT_EQ(other->save(), model->save());
  EXPECT_FALSE(other->load(std::vector<float>(3)));
}

INSTANTIATE_TEST_SUITE_P(Models, Torch, testing::Values("sage", "gat"));

TEST(TorchSettings, AreChecked) {
  EXPECT_THAT(make_torch_model(settings("gcn")).error().cure, testing::HasSubstr("sage"));
  auto odd = settings("gat");
  odd.heads = 3;
  EXPECT_THAT(make_torch_model(odd).error().message, testing::HasSubstr("heads"));
}

}  // namespace
