#include "eval/cpu_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "eval/vector_report.h"

namespace sculler::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(VectorReport, NamesLoopsOfTheCandidateAndNoOthers) {
  const auto report = read_vector_report(
      "candidate.cpp:30:20: missed: couldn't vectorize loop\n"
      "candidate.cpp:30:20: missed: not vectorized: multiple nested loops.\n"
      "candidate.cpp:39:33: optimized: loop vectorized using 64 byte vectors\n"
      "candidate.cpp:39:33: optimized: loop vectorized using 32 byte vectors\n"
      "/usr/include/c++/12/bits/stl_algo.h:5:1: optimized: loop vectorized using 16 byte vectors\n"
      "candidate.cpp:52:3: missed: couldn't vectorize loop\n"
      "candidate.cpp:53:9: missed: not vectorized: complicated access pattern.\n"
      "candidate.cpp:52:3: missed: not vectorized: no vectype for stmt\n"
      "nonsense\ncandidate.cpp:x:1: missed: couldn't vectorize loop\n",
      "");
  EXPECT_THAT(report.remarks, ElementsAre("candidate.cpp:39: vectorised, 512 bits",
                                          "candidate.cpp:52: not vectorised: no vectype for stmt"));
  EXPECT_EQ(report.facts.at("loops_vectorised"), 1);
  EXPECT_EQ(report.facts.at("loops_scalar"), 1);
  EXPECT_EQ(report.facts.count("vector_bits"), 0u);
}

TEST(VectorReport, CountsWidthAndSpillsInTheAssembly) {
  const auto report = read_vector_report("",
                                         "\tvmovups\t(%rdi), %ymm1\n"
                                         "\tvmovaps\t%ymm1, 64(%rsp)\n"
                                         "\tvmovups\t%ymm1, (%rsi)\n"
                                         "\tvmovaps\t64(%rsp), %ymm2\n"
                                         "\tmovl\t%eax, 8(%rsp)\n");
  EXPECT_EQ(report.facts.at("vector_bits"), 256);
  EXPECT_EQ(report.facts.at("vector_spills"), 1);
  EXPECT_EQ(report.facts.count("loops_scalar"), 0u);
}

TEST(VectorReport, RemarksAreBounded) {
  std::string text;
  for (int i = 1; i < 1000; ++i)
    text += "candidate.cpp:" + std::to_string(i) +
            ":1: optimized: loop vectorized using 64 byte vectors\n";
  const auto report = read_vector_report(text, "");
  EXPECT_EQ(report.remarks.size(), 24u);
  EXPECT_EQ(report.facts.at("loops_vectorised"), 999);
}

CpuMeasurement measured(double us, double memory_us, double compute_us) {
  CpuMeasurement m;
  m.us = us;
  m.work.hbm_bytes = 1e6;
  m.work.flops = 4e6;
  m.ceiling = task::Ceiling{std::max(memory_us, compute_us), memory_us, compute_us, 0, "memory"};
  m.facts["vector_bits"] = 512;
  return m;
}

TEST(CpuProfile, NamesExactlyOneBottleneck) {
  EXPECT_EQ(profile_cpu(measured(100, 80, 60)).bottleneck, "memory");
  EXPECT_EQ(profile_cpu(measured(100, 30, 60)).bottleneck, "compute");
  const auto idle = profile_cpu(measured(100, 30, 20));
  EXPECT_EQ(idle.bottleneck, "latency");
  EXPECT_THAT(idle.why, HasSubstr("neither is busy"));
  auto scalar = measured(100, 30, 20);
  scalar.facts["vector_bits"] = 128;
  EXPECT_EQ(profile_cpu(scalar).bottleneck, "compute");
  EXPECT_THAT(profile_cpu(scalar).why, HasSubstr("no wide vectors"));
  auto scan = measured(100, 80, 60);
  scan.latency_bound = true;
  EXPECT_EQ(profile_cpu(scan).bottleneck, "latency");
}

TEST(CpuProfile, PercentOfPeakAndWhatExceedsIt) {
  const auto usual = profile_cpu(measured(100, 80, 60));
  EXPECT_DOUBLE_EQ(*usual.percent_peak, 80);
  EXPECT_FALSE(usual.above);
  EXPECT_DOUBLE_EQ(usual.gbps, 10);
  EXPECT_DOUBLE_EQ(usual.gflops, 40);
  EXPECT_TRUE(profile_cpu(measured(100, 110, 60)).above);
  const auto object = nlohmann::json::parse(usual.json());
  EXPECT_EQ(object.value("bottleneck", ""), "memory");
  EXPECT_DOUBLE_EQ(object.value("percent_peak", 0.0), 80);
}

TEST(CpuProfile, WithoutRatesItSaysSo) {
  auto m = measured(100, 1, 1);
  m.ceiling.reset();
  const auto profile = profile_cpu(m);
  EXPECT_EQ(profile.bottleneck, "memory");  // 4 operations a byte
  EXPECT_FALSE(profile.percent_peak);
  EXPECT_THAT(profile.why, HasSubstr("sculler bench ceilings"));
  m.work.flops = 1e9;
  EXPECT_EQ(profile_cpu(m).bottleneck, "compute");
}

}  // namespace
}  // namespace sculler::eval
