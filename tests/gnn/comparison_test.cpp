// Rows of trainings become a table and a picture.
#include "gnn/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace {

using namespace sculler;
using namespace sculler::gnn;
using testing::HasSubstr;

TrainingRow row(const char* policy, const char* buffer, uint64_t seed, uint64_t fetched,
                double seconds) {
  TrainingRow out;
  out.policy = policy;
  out.buffer = buffer;
  out.seed = seed;
  out.remote = 1000;
  out.hits = 1000 - fetched;
  out.fetched = fetched;
  out.bytes = fetched * 100;
  out.epoch_s = seconds;
  out.losses = "abc";
  return out;
}

TEST(Comparison, ReadsATrainingsEvents) {
  const auto made = training_row(
      "mpirun: hello\n"
      R"({"event":"begin","policy":"free","buffer":"5%"})"
      "\n"
      R"({"event":"epoch","remote":10,"hits":4,"fetched":6,"extra":0,"bytes":60,"seconds":3.0,"losses":"a"})"
      "\n"
      R"({"event":"epoch","remote":10,"hits":5,"fetched":7,"extra":2,"bytes":70,"seconds":1.0,"losses":"b"})"
      "\n"
      R"({"event":"test","accuracy":0.5})"
      "\n"
      R"({"event":"end"})"
      "\n");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->fetched, 13U);
  EXPECT_EQ(made->epoch_s, 2.0);
  EXPECT_EQ(made->losses, "a b");
  const auto back = training_row_of(json_of(*made), "x");
  ASSERT_TRUE(back);
  EXPECT_EQ(json_of(*back), json_of(*made));
  EXPECT_FALSE(training_row(R"({"event":"begin","policy":"free","buffer":"5%"})"));
  EXPECT_FALSE(training_row_of({{"policy", "free"}}, "x"));
}

TEST(Comparison, ComparesWithNoBufferOfTheSameSeed) {
  const std::vector<TrainingRow> rows{row("none", "0", 1, 1000, 4),  row("free", "5%", 1, 600, 2),
                                      row("free", "25%", 1, 300, 1), row("none", "0", 2, 800, 4),
                                      row("free", "5%", 2, 400, 4),  row("free", "25%", 2, 200, 2)};
  const auto all = compared(rows);
  ASSERT_EQ(all.size(), 4U);  // none stands under both sizes
  EXPECT_EQ(all[0].policy, "none");
  EXPECT_EQ(all[1].policy, "free");
  EXPECT_EQ(all[1].buffer, "5%");
  EXPECT_NEAR(all[1].rows_change.low, -0.5, 1e-12);
  EXPECT_NEAR(all[1].rows_change.high, -0.4, 1e-12);
  EXPECT_NEAR(all[1].speed.median, 1.5, 1e-12);
  EXPECT_TRUE(unequal(rows).empty());
  auto other = rows;
  other[4].losses = "abd";
  EXPECT_EQ(unequal(other), (std::vector<uint64_t>{2}));
  EXPECT_THAT(comparison_table(all), HasSubstr("-45.0% [-50.0, -40.0]"));
  const std::string svg = comparison_svg(all, "a <b>");
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_TRUE(compared({}).empty());
}

}  // namespace
