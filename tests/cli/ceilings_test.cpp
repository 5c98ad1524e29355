#include "cli/ceilings.h"

#include <gtest/gtest.h>

#include "task/profile.h"

namespace sculler::cli {
namespace {

constexpr const char* kLines = R"({"rate":"memory","implementation":"memcpy","threads":1,"value":10}
{"rate":"memory","implementation":"triad","threads":2,"value":31.25}
nonsense
{"rate":"memory","implementation":"broken","threads":2,"value":-1}
{"rate":"memory","implementation":"a = 1\n[x]","threads":2,"value":99}
{"rate":"vector","implementation":"fma_512x10","threads":2,"value":236}
{"rate":"product","implementation":"openblas","threads":2,"value":190.5}
{"rate":"latency","implementation":"memory","threads":1,"value":110}
{"rate":"latency","implementation":"multiply_add","threads":1,"value":1.1}
)";

TEST(Ceilings, ReadsFiguresAndPicksTheBest) {
  const auto figures = parse_ceilings(kLines);
  ASSERT_EQ(figures.size(), 6u);
  EXPECT_EQ(best_ceiling(figures, "memory")->implementation, "triad");
  EXPECT_EQ(best_ceiling(figures, "latency")->implementation, "multiply_add");
  EXPECT_EQ(best_ceiling(figures, "tensor"), nullptr);
}

TEST(Ceilings, TheProfileLoadsAndGivesACeiling) {
  const auto text = ceilings_profile(parse_ceilings(kLines), "Cores \"X\", 2 threads");
  ASSERT_TRUE(text) << text.error().text();
  MemoryFiles files;
  (void)files.mkdirs("/p");
  (void)files.write_atomic("/p/cpu.toml", *text);
  const auto profile = task::load_profile(files, "/p/cpu.toml");
  ASSERT_TRUE(profile) << profile.error().text() << "\n" << *text;
  EXPECT_EQ(profile->name, "cpu");
  EXPECT_EQ(profile->number("implementations.memory.memcpy_1"), 10);
  task::Work work;
  work.flops = 190.5e6;
  work.flops_vec = 236e5;
  work.hbm_bytes = 31.25e5;
  const auto ceiling = task::measured_ceiling(*profile, work);
  ASSERT_TRUE(ceiling);
  EXPECT_NEAR(ceiling->product_us, 1000, 1e-6);
  EXPECT_NEAR(ceiling->vector_us, 100, 1e-6);
  EXPECT_NEAR(ceiling->memory_us, 100, 1e-6);
  EXPECT_NEAR(ceiling->us, 1000, 1e-6);
  EXPECT_EQ(ceiling->bound, "product");
}

TEST(Ceilings, AMissingRateIsNamed) {
  auto figures = parse_ceilings(kLines);
  std::erase_if(figures, [](const CeilingFigure& f) { return f.rate == "vector"; });
  const auto text = ceilings_profile(figures, "x");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().key, "vector");
  EXPECT_FALSE(task::measured_ceiling(task::Profile{}, {}));
}

}  // namespace
}  // namespace sculler::cli
