#include "search/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "search/world.h"

namespace sculler::search {
namespace {

// Runs the tuner with `width` proposals at once, told in order or reversed; gives labels in order
// of proposal.
std::vector<std::string> drive(Tuner& tuner, std::size_t width, bool reversed,
                               int64_t most = 100'000) {
  std::vector<std::string> labels;
  int64_t program = 0;
  std::vector<Outcome> waiting;
  while (static_cast<int64_t>(labels.size()) < most) {
    auto batch = tuner.propose(width);
    for (auto& candidate : batch) {
      labels.push_back(candidate.label());
      Outcome outcome;
      outcome.program = ++program;
      nlohmann::json defines;
      for (const auto& [name, value] : candidate.defines) defines[name] = value;
      outcome.passed = candidate.source->name != "seed_b";
      outcome.status = outcome.passed ? "PASSED" : "RACE";
      outcome.score = outcome.passed ? 1000 / time_of(candidate.source->name, defines) : 0;
      outcome.candidate = std::move(candidate);
      waiting.push_back(std::move(outcome));
    }
    if (batch.empty() || waiting.size() >= width) {
      if (waiting.empty()) break;
      if (reversed) std::reverse(waiting.begin(), waiting.end());
      for (const auto& outcome : waiting) tuner.told(outcome);
      waiting.clear();
    }
  }
  return labels;
}

TEST(Tuner, SeedsComeFirstThenTheBestIsFound) {
  Tuner tuner(seeds(), {1, 40, 8});
  const auto labels = drive(tuner, 2, false);
  ASSERT_EQ(labels.size(), 40u);
  EXPECT_EQ(labels[0], "seed_a");
  EXPECT_EQ(labels[1], "seed_b");
  EXPECT_EQ(labels[2], "seed_c");
  EXPECT_TRUE(tuner.exhausted());
  EXPECT_NE(std::find(labels.begin(), labels.end(), "seed_a A=16 B=3"), labels.end());
  // What was wrong at its usual values with a status that tunables cannot cure is not tried again.
  EXPECT_EQ(std::count_if(labels.begin(), labels.end(),
                          [](const auto& l) { return l.starts_with("seed_b"); }),
            1);
}

TEST(Tuner, NothingIsProposedTwiceAndTheWholeSpaceIsUsed) {
  Tuner tuner(seeds(), {3, 0, 8});
  auto labels = drive(tuner, 3, false);
  EXPECT_EQ(labels.size(), 48u + 48u + 1u);
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(std::unique(labels.begin(), labels.end()), labels.end());
}

TEST(Tuner, OrderOfVerdictsAndWidthChangeNothing) {
  Tuner one(seeds(), {5, 40, 8}), two(seeds(), {5, 40, 8}), three(seeds(), {5, 40, 8}),
      other(seeds(), {6, 40, 8});
  const auto first = drive(one, 1, false);
  EXPECT_EQ(first, drive(two, 7, true));
  EXPECT_EQ(first, drive(three, 4, false));
  EXPECT_NE(first, drive(other, 1, false));
}

TEST(Tuner, SourcesOfOneCellAreInterleavedWithOthers) {
  Tuner tuner({source_of("one", "lsa"), source_of("two", "lsa"), source_of("three", "none")},
              {1, 3, 8});
  EXPECT_EQ(drive(tuner, 1, false), (std::vector<std::string>{"one", "three", "two"}));
}

TEST(Tuner, NoSeedsIsTheEnd) {
  Tuner tuner({}, {1, 40, 8});
  EXPECT_TRUE(tuner.propose(4).empty());
  EXPECT_TRUE(tuner.exhausted());
}

}  // namespace
}  // namespace sculler::search
