#include "eval/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/clocks.h"
#include "eval/spread.h"

namespace sculler::eval {
namespace {

TEST(Noise, ThePlanIsReadWithBounds) {
  auto plan =
      parse_noise(R"({"noise":{"aa":200,"planted":0.05,"planted_n":60,"per_pair":0}})", "t");
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->aa, 200);
  EXPECT_EQ(plan->per_pair, 1);
  EXPECT_EQ(plan->calibrate, 30);
  EXPECT_FALSE(parse_noise(R"({"noise":{"planted_n":60}})", "t"));
  EXPECT_EQ(parse_noise("{}", "t")->aa, 0);
  const auto again = parse_noise("{\"noise\":" + print_noise(*plan) + "}", "t");
  EXPECT_EQ(again->planted, 0.05);
}

TEST(Noise, RatesCountWhatWasCalled) {
  NoiseReport r;
  for (const char* call : {"AMBIGUOUS", "FASTER", "SLOWER", "AMBIGUOUS"})
    r.cases.push_back({"aa", "candidate", 1, {1, 0.99, 1.01}, call, 8, 100});
  for (const char* call : {"SLOWER", "SLOWER", "FASTER"})
    r.cases.push_back({"planted", "candidate", 2, {0.95, 0.94, 0.96}, call, 16, 200});
  EXPECT_EQ(call_rate(r, "aa").called, 2);
  EXPECT_EQ(call_rate(r, "planted").called, 2);
  EXPECT_EQ(call_rate(r, "planted").wrong_way, 1);
  EXPECT_EQ(call_rate(r, "calibrate").n, 0);
  const auto text = noise_text(r, {.planted = 0.05}, "cpu", "silu", "quick");
  EXPECT_NE(text.find("2 of   4 called"), std::string::npos) << text;
  EXPECT_NE(text.find("1 the wrong way"), std::string::npos) << text;
}

TEST(Noise, ThePlantedVariantWrapsTheCandidate) {
  const auto cpu = planted_source("int a;\n", 0.05, false),
             cuda = planted_source("int a;\n", 0.015, true);
  EXPECT_NE(cpu.find("SCULLER_PLANTED 0.050000"), std::string::npos);
  EXPECT_NE(cpu.find("#line 1\nint a;"), std::string::npos);
  EXPECT_EQ(cpu.find("cuda"), std::string::npos);
  EXPECT_NE(cuda.find("sculler_setup_of_candidate"), std::string::npos);
}

TEST(Spread, IsKeptAMachineAndTarget) {
  MemoryFiles files;
  ASSERT_TRUE(files.mkdirs("/c"));
  ASSERT_TRUE(save_spread(files, "/c", "m", Target::kCpu, {0.013, 30, 5, "silu", "quick", "d"}));
  ASSERT_TRUE(save_spread(files, "/c", "m", Target::kCuda, {0.004, 30, 5, "g", "q", "d"}));
  EXPECT_EQ(load_spread(files, "/c", "m", Target::kCpu)->fraction, 0.013);
  EXPECT_EQ(load_spread(files, "/c", "m", Target::kCuda)->pairs, 5);
  EXPECT_FALSE(load_spread(files, "/c", "other", Target::kCpu));
}

TEST(Spread, FollowsWhatPairsDifferBy) {
  EXPECT_EQ(spread_of({{1, {0.001, -0.002, 0.001}}}, Target::kCpu), 0.01);
  EXPECT_EQ(spread_of({}, Target::kCuda), 0.003);
  // Neither one comparison nor one pair that a burst hit counts; what most pairs show does.
  EXPECT_NEAR(spread_of({{1, {0.008, 1.2, 0.007}}, {2, {-0.009, -0.01, -0.01}}, {3, {1.3, 1.2}}},
                        Target::kCpu),
              std::expm1(0.03), 1e-9);
}

TEST(Clocks, CpuinfoGivesThreeFigures) {
  ClockReading r;
  read_cpuinfo("model name : x\ncpu MHz\t\t: 2000.5\ncpu MHz : 3000.5\ncpu MHz : junk\n", r);
  EXPECT_EQ(r.mhz_low, 2000.5);
  EXPECT_EQ(r.mhz_high, 3000.5);
  EXPECT_EQ(r.mhz_mean, 2500.5);
  r.gpus = {{1980, 3201, 40, 0x4}, {1500, 3201, 80, 0x40}};
  EXPECT_EQ(slowdown_text(r), "heat, power");
  EXPECT_NE(clocks_json(r).find("\"sm_mhz\":1500"), std::string::npos);
}

}  // namespace
}  // namespace sculler::eval
