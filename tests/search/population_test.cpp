#include "search/evolve/population.h"

#include <gtest/gtest.h>

#include <map>

#include "search/evolve/schedule.h"
#include "search/evolve_world.h"

namespace sculler::search {
namespace {

Member member(int64_t program, double score, const std::string& backend = "lsa", int island = 0) {
  Member m;
  m.program = program;
  m.candidate = usual(
      *make_source("m" + std::to_string(program), "m.cu", toy(backend, static_cast<int>(program))),
      "model");
  m.score = score;
  m.island = island;
  m.status = score > 0 ? "PASSED" : "RACE";
  m.signature = std::make_shared<Signature>(signature_of(m.candidate.source->text));
  return m;
}

TEST(Population, WeightsAreThePapers) {
  // median 2, MAD 1: sigmoid(8 * (score - 2)) / (1 + children).
  const auto w = parent_weights({1, 2, 3}, {0, 1, 3}, 8);
  EXPECT_NEAR(w[0], 1 / (1 + std::exp(8.0)), 1e-12);
  EXPECT_NEAR(w[1], 0.5 / 2, 1e-12);
  EXPECT_NEAR(w[2], 1 / (1 + std::exp(-8.0)) / 4, 1e-12);
  for (const double weight : parent_weights({2, 2, 2}, {0, 0, 0}, 8)) EXPECT_EQ(weight, 0.5);
  // No spread but for one that is better.
  const auto one = parent_weights({2, 2, 2, 9}, {0, 0, 0, 0}, 8);
  EXPECT_GT(one[3], 0.99);
  EXPECT_EQ(parent_weights({}, {}, 8).size(), 0u);
}

TEST(Population, DrawsByWeight) {
  Population p(1, 60, 8);
  p.add(member(1, 1));
  p.add(member(2, 2));
  p.add(member(3, 3));
  for (int i = 0; i < 3; ++i) p.count_child(3);
  std::map<int64_t, int> drawn;
  Random random(7);
  for (int i = 0; i < 20'000; ++i) ++drawn[p.parent(0, random)->program];
  // Weights 0.0003, 0.5, 0.25.
  EXPECT_NEAR(drawn[2] / 20'000.0, 0.5 / 0.7502, 0.02);
  EXPECT_NEAR(drawn[3] / 20'000.0, 0.2499 / 0.7502, 0.02);
  EXPECT_LT(drawn[1], 60);
}

TEST(Population, TheBestOfACellStays) {
  Population p(1, 3, 8);
  p.add(member(1, 1, "none"));
  for (int i = 2; i < 10; ++i) p.add(member(i, 10 + i, "lsa"));
  EXPECT_EQ(p.size(0), 3u);
  EXPECT_EQ(p.cells(), 2u);
  EXPECT_NE(p.find(1), nullptr);
  EXPECT_NE(p.find(9), nullptr);
  EXPECT_NE(p.find(8), nullptr);
  EXPECT_EQ(p.find(7), nullptr);
  // More cells than room: the lowest goes.
  p.add(member(20, 0.5, "gin"));
  EXPECT_NE(p.find(20), nullptr);  // the best of its cell, so 8 went
  p.add(member(21, 5, "hybrid"));
  EXPECT_EQ(p.find(20), nullptr);
  EXPECT_EQ(p.elites(10, 9).size(), 2u);
  EXPECT_EQ(p.best_score(), 19);
}

TEST(Population, RepairsTheLatestThatMayBe) {
  Population p(2, 60, 8);
  p.add(member(1, 0));
  auto other = member(2, 0);
  other.status = "INTERNAL";
  p.add(other);
  other = member(3, 0);
  other.status = "UNSUPPORTED";
  p.add(other);
  ASSERT_NE(p.broken(0, 2), nullptr);
  EXPECT_EQ(p.broken(0, 2)->program, 1);
  EXPECT_EQ(p.broken(1, 2), nullptr);
  p.count_repair(1);
  p.count_repair(1);
  EXPECT_EQ(p.broken(0, 2), nullptr);
  EXPECT_EQ(p.recent(0, 2)[0]->program, 3);
}

TEST(Population, LikenessSeesTokensAlone) {
  const auto a = signature_of("int a = 1; // note\nint b;");
  EXPECT_EQ(likeness(a, signature_of("int a=1;/* else */int b;")), 1);
  EXPECT_LT(likeness(a, signature_of("int a = 2; int b;")), 1);
  std::string longer;
  for (int i = 0; i < 3000; ++i) longer += fmt::format("x{} += y{};\n", i, i);
  const auto one = signature_of(longer), two = signature_of(longer + "z = 0;");
  EXPECT_GT(likeness(one, two), 0.99);
  std::string half;
  for (int i = 0; i < 1500; ++i) half += fmt::format("x{} += y{};\n", i, i);
  EXPECT_NEAR(likeness(one, signature_of(half)), 0.5, 0.1);
  Population p(1, 60, 8);
  p.add(member(1, 1));
  EXPECT_EQ(p.like(signature_of(toy("lsa", 1) + "// more"), 2)->program, 1);
  EXPECT_EQ(p.like(signature_of(toy("lsa", 2)), 2), nullptr);
}

TEST(Schedule, IsAFunctionOfTheIndex) {
  EvolveSettings s;
  std::map<std::string, int> explore, exploit;
  for (int64_t i = 0; i < 5000; ++i) {
    Draw a = draw(s, 3, i, 10'000), b = draw(s, 3, i, 10'000);
    EXPECT_EQ(a.mutation, b.mutation);
    EXPECT_EQ(a.random.next(), b.random.next());
    EXPECT_EQ(a.island, i % 2);
    EXPECT_EQ(a.explore, i < 4000);
    ++(a.explore ? explore : exploit)[std::string(mutation_name(a.mutation))];
    const auto& temperatures = a.explore ? s.explore_temperatures : s.exploit_temperatures;
    EXPECT_NE(std::find(temperatures.begin(), temperatures.end(), a.temperature),
              temperatures.end());
  }
  EXPECT_NEAR(explore["diff"] / 4000.0, 0.15, 0.02);
  EXPECT_NEAR(explore["full"] / 4000.0, 0.70, 0.02);
  EXPECT_NEAR(exploit["diff"] / 1000.0, 0.25, 0.04);
  EXPECT_NEAR(exploit["crossover"] / 1000.0, 0.15, 0.04);
}

TEST(Schedule, SettingsInText) {
  EXPECT_EQ(parse_mix("0.15,0.7, 0.15")->full, 0.7);
  EXPECT_FALSE(parse_mix("1,2"));
  EXPECT_FALSE(parse_mix("0,0,0"));
  EXPECT_EQ(parse_temperatures("0,.5")->size(), 2u);
  EXPECT_FALSE(parse_temperatures("3"));
  EXPECT_FALSE(parse_temperatures("nan"));
  EXPECT_EQ(parse_backends("lsa, none")->size(), 2u);
  EXPECT_EQ(parse_backends("lsb").error().text(), "\"lsb\" is no backend (did you mean lsa?)");
}

}  // namespace
}  // namespace sculler::search
