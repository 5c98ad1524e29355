#include "eval/cascade.h"

#include <gtest/gtest.h>

#include "eval/fakes.h"
#include "eval/job_line.h"

namespace sculler::eval {
namespace {

using nlohmann::json;

class CascadeTest : public testing::Test {
 protected:
  Job job(const char* target, const std::vector<const char*>& stages,
          const json& extra = json::object()) {
    auto object = job_object();
    object["task"] = SCULLER_SOURCE_DIR "/tasks/workloads/gemm_allgather";
    object["target"] = target;
    object["stages"] = stages;
    object.update(extra);
    auto parsed = parse_job(object.dump(), "test");
    EXPECT_TRUE(parsed) << parsed.error().text();
    return *parsed;
  }
  Verdict run(const Job& j) {
    if (!launcher_.script) {
      launcher_.script = [](const auto&, const auto&, int) {
        return std::string(R"({"status":"PASSED"})");
      };
    }
    Cascade cascade(real_files(), linter_, compiler_, toolchain_, SCULLER_SOURCE_DIR, launcher_,
                    machine_);
    return cascade.run(j);
  }
  // Requests for candidates, baselines left out.
  [[nodiscard]] std::size_t launches() const { return launcher_.asked.size(); }

  FakeLinter linter_;
  FakeCompiler compiler_;
  FakeLauncher launcher_;
  Toolchain toolchain_{};
  Machine machine_{.containment = "full",
                   .containment_why = "",
                   .dropins = {"/lib/libcuda.so.1"},
                   .cuda_libraries = {"/lib/libnccl.so.2"},
                   .cuda_arch = "90a",
                   .gpus = 2,
                   .nccl_version = 22809,
                   .n_threads = 2,
                   .expected_cache = "/cache/expected"};
};

TEST_F(CascadeTest, StopsAtLintBeforeAnythingCostsSomething) {
  linter_.problem =
      LintProblem{"candidate.cu:3", "banned-call: dlopen", "Remove it.", "LINT_ERROR"};
  const auto v = run(job("emu", {"lint", "compile", "emulate"}));
  EXPECT_EQ(v.status, "LINT_ERROR");
  EXPECT_EQ(v.stage, "lint");
  EXPECT_EQ(v.where, "candidate.cu:3");
  EXPECT_TRUE(compiler_.requests.empty());
  EXPECT_EQ(launches(), 0U);
}

TEST_F(CascadeTest, StopsAtACompileError) {
  compiler_.outcome = {};
  compiler_.outcome.status = "COMPILE_ERROR";
  compiler_.outcome.where = "candidate.cu:9";
  compiler_.outcome.message = "expected a ;";
  const auto v = run(job("emu", {"lint", "compile", "emulate"}));
  EXPECT_EQ(v.status, "COMPILE_ERROR");
  EXPECT_EQ(v.where, "candidate.cu:9");
  EXPECT_EQ(compiler_.requests.size(), 1U);
  EXPECT_EQ(launches(), 0U);
}

TEST_F(CascadeTest, OnlyTheStagesThatWereAskedFor) {
  auto v = run(job("emu", {"lint", "compile"}));
  EXPECT_EQ(v.status, "PASSED");
  EXPECT_EQ(v.stage, "compile");
  EXPECT_EQ(launches(), 0U);
  v = run(job("emu", {"emulate"}));
  EXPECT_EQ(v.stage, "emulate");
  EXPECT_EQ(launches(), 1U);
  EXPECT_FALSE(compiler_.requests[1].cubin);  // PTX only where no GPU is in play
}

TEST_F(CascadeTest, NothingPassesTheRunStageWithoutHavingRun) {
  const auto v = run(job("emu", {"lint", "compile", "run"}));
  EXPECT_EQ(v.status, "PASSED");
  EXPECT_EQ(launches(), 1U);
}

TEST_F(CascadeTest, UnsupportedIsFinalOnEmuAndPassesOnToCuda) {
  launcher_.script = [](const FakeLauncher::Asked& asked, const std::string&, int) -> std::string {
    if (asked.target == Target::kEmu)
      return R"({"status":"UNSUPPORTED","message":"wgmma.mma_async is not known"})";
    return R"({"status":"PASSED"})";
  };
  auto v = run(job("emu", {"lint", "compile", "emulate", "run"}));
  EXPECT_EQ(v.status, "UNSUPPORTED");
  EXPECT_EQ(v.stage, "emulate");
  v = run(job("cuda", {"lint", "compile", "emulate", "run"}, {{"size", "quick"}}));
  EXPECT_EQ(v.status, "PASSED");
  EXPECT_EQ(v.stage, "run");
  ASSERT_FALSE(v.notes.empty());
  EXPECT_NE(v.notes[0].find("wgmma"), std::string::npos) << v.notes[0];
}

TEST_F(CascadeTest, ACudaJobIsEmulatedFirstAtTheEmuSize) {
  (void)run(job("cuda", {"emulate", "run"}, {{"size", "quick"}}));
  ASSERT_EQ(launches(), 2U);
  EXPECT_EQ(launcher_.asked[0].target, Target::kEmu);
  EXPECT_EQ(launcher_.asked[0].job["problem"]["dims"][0], 512);
  EXPECT_EQ(launcher_.asked[1].target, Target::kCuda);
  EXPECT_EQ(launcher_.asked[1].job["problem"]["dims"][0], 4096);
}

TEST_F(CascadeTest, TheRanksLearnNothingSecret) {
  (void)run(job("emu", {"emulate"}));
  ASSERT_EQ(launches(), 1U);
  const auto& rank = launcher_.asked[0].rank;
  for (const char* key :
       {"seed", "iterations", "tolerance", "reference", "expected", "job", "expected_cache"}) {
    EXPECT_FALSE(rank.contains(key)) << key;
  }
  EXPECT_EQ(rank["multicast_allowed"], false);
  EXPECT_EQ(rank["expect_nccl"], 22809);
}

TEST_F(CascadeTest, EveryStageHasItsOwnSeedAndStressItsOwnSizes) {
  (void)run(job("emu", {"emulate", "stress", "confirm"}));
  ASSERT_EQ(launches(), 6U);
  std::set<int64_t> seeds, shifts, ranks;
  std::set<std::string> dims, schedules;
  for (const auto& asked : launcher_.asked) {
    seeds.insert(asked.job["seed"].get<int64_t>());
    dims.insert(asked.job["problem"]["dims"].dump());
    ranks.insert(asked.job["n_ranks"].get<int64_t>());
    shifts.insert(asked.job["shift"].get<int64_t>());
    EXPECT_EQ(asked.job["shift"], asked.rank["shift"]);
    EXPECT_EQ(asked.job["shift"].get<int64_t>() % 256, 0);
    schedules.insert(asked.job["emu"]["schedule"]["kind"].get<std::string>());
  }
  EXPECT_EQ(seeds.size(), 6U);
  EXPECT_GE(dims.size(), 3U);
  EXPECT_EQ(ranks, (std::set<int64_t>{2, 4}));
  EXPECT_GE(shifts.size(), 2U);
  EXPECT_GE(schedules.size(), 3U);
}

TEST_F(CascadeTest, StressRunsOneInputTwiceAndDelaysEachRankOnce) {
  (void)run(job("cuda", {"stress"}, {{"size", "quick"}}));
  ASSERT_EQ(launches(), 6U);  // four runs, and the stressed artifact with either rank late
  std::set<int> late;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& list = launcher_.asked[i].job["iterations"];
    EXPECT_EQ(list[1]["content"], list[2]["content"]);
    EXPECT_NE(list[1]["set"], list[2]["set"]);
    EXPECT_GT(list[1]["delay_before_ns"].get<int64_t>(), 0);
    EXPECT_GT(list[1]["delay_inside_ns"].get<int64_t>(), 0);
    if (list[1].contains("delayed_rank")) late.insert(list[1]["delayed_rank"].get<int>());
  }
  EXPECT_EQ(late, (std::set<int>{0, 1}));
  EXPECT_TRUE(std::any_of(compiler_.requests.begin(), compiler_.requests.end(),
                          [](const CompileRequest& r) { return r.stressed; }));
  for (const std::size_t i : {4U, 5U}) {
    const auto& env = launcher_.asked[i].env;
    EXPECT_TRUE(std::any_of(env.begin(), env.end(), [&](const auto& entry) {
      return entry.first == "SCULLER_STRESS_RANK" && entry.second == std::to_string(i - 4);
    }));
  }
}

TEST_F(CascadeTest, AFailureUnderStressSaysWithWhat) {
  launcher_.script = [](const FakeLauncher::Asked& asked, const std::string&, int) -> std::string {
    if (asked.job["buffers"][0]["family"] == "normal") return R"({"status":"PASSED"})";
    return R"({"status":"RACE","message":"two writes","rank":1,"where":"x.cu:4","findings":[{"kind":"race","text":"t","line":4}]})";
  };
  const auto v = run(job("emu", {"emulate", "stress"}));
  EXPECT_EQ(v.status, "RACE");
  EXPECT_EQ(v.stage, "stress");
  EXPECT_EQ(v.rank, 1);
  EXPECT_NE(v.message.find("inputs "), std::string::npos);
  EXPECT_NE(v.findings.find("race"), std::string::npos);
}

TEST_F(CascadeTest, FewerGpusThanRanksSaysSo) {
  machine_.gpus = 1;
  const auto v = run(job("cuda", {"lint", "compile", "run"}, {{"size", "quick"}}));
  EXPECT_EQ(v.status, "INTERNAL");
  EXPECT_NE(v.message.find("2 GPUs"), std::string::npos) << v.message;
}

TEST_F(CascadeTest, ATrustedProcessThatDiedIsStartedOnceMore) {
  int deaths = 1;
  launcher_.script = [&](const auto&, const auto&, int) {
    return std::string(deaths-- > 0 ? "" : R"({"status":"PASSED"})");
  };
  const auto once = run(job("emu", {"emulate"}));
  EXPECT_EQ(once.status, "PASSED");
  EXPECT_EQ(launches(), 2U);
  ASSERT_EQ(once.notes.size(), 1U);
  EXPECT_TRUE(once.notes[0].starts_with("run again: ")) << once.notes[0];
  deaths = 99;
  const auto always = run(job("emu", {"emulate"}));
  EXPECT_EQ(always.status, "INTERNAL");
  EXPECT_EQ(launches(), 4U);
}

TEST_F(CascadeTest, PredictionIsCalledPredicted) {
  launcher_.script = [](const FakeLauncher::Asked& asked, const std::string&, int) -> std::string {
    EXPECT_EQ(asked.job["emu"]["predict"]["dims"][0], 16384);
    return R"({"status":"PASSED","predicted":{"size":"default","latency_us":600,"per_rank_us":[600,590]}})";
  };
  const auto v = run(job("emu", {"emulate", "bench"}, {{"predict_size", "default"}}));
  ASSERT_TRUE(v.latency);
  EXPECT_EQ(v.latency->kind, "predicted");
  EXPECT_EQ(v.latency->size, "default");
  EXPECT_EQ(v.per_rank_us.size(), 2U);
}

// A bench answer: n iterations of `us` each.
std::string samples(int n, double us) {
  json list = json::array();
  for (int i = 0; i < n; ++i) {
    list.push_back({{"set", i},
                    {"latency_ns", us * 1e3 + i},
                    {"ranks",
                     {{{"start_ns", 0}, {"end_ns", us * 1e3}},
                      {{"start_ns", 0}, {"end_ns", us * 1e3 - 500}}}}});
  }
  return json{{"status", "PASSED"}, {"iterations", list}}.dump();
}

TEST_F(CascadeTest, BenchGivesRatiosWithIntervals) {
  int groups = 0;
  launcher_.script = [&](const FakeLauncher::Asked& asked, const std::string& line,
                         int turn) -> std::string {
    if (turn == 0) ++groups;
    EXPECT_EQ(asked.job["mode"], "bench");
    EXPECT_GE(asked.job["n_sets"].get<int>(), 8);
    if (line == "quit") return R"({"status":"PASSED"})";
    return samples(std::stoi(line.substr(3)), asked.rank["candidate"] == "/cache/a.so" ? 1000 : 0);
  };
  const auto v = run(job("cuda", {"bench"}, {{"size", "quick"}, {"compare", {"nccl"}}}));
  EXPECT_EQ(v.status, "PASSED") << v.message;
  EXPECT_EQ(groups, 2);
  ASSERT_TRUE(v.latency);
  EXPECT_EQ(v.latency->kind, "measured");
  EXPECT_NEAR(v.latency->us.median, 1000, 1);
  ASSERT_EQ(v.ratio.count("nccl"), 1U);
  EXPECT_NEAR(v.ratio.at("nccl").median, 1.0, 0.01);
  EXPECT_EQ(v.comparison.at("nccl"), "AMBIGUOUS");
  // Nothing differs: decided at the first look, 8 rounds of 5.
  EXPECT_EQ(v.samples_us.at("candidate").size(), 40U);
  EXPECT_EQ(v.compare_call, "AMBIGUOUS");
  EXPECT_GT(v.margin, 0);
  EXPECT_TRUE(v.cold_us);
}

TEST_F(CascadeTest, ARecordedSpreadIsTheMargin) {
  launcher_.script = [&](const FakeLauncher::Asked&, const std::string& line, int) -> std::string {
    if (line == "quit") return R"({"status":"PASSED"})";
    return samples(std::stoi(line.substr(3)), 1000);
  };
  machine_.spreads[Target::kCuda] = 0.0123;
  const auto v = run(job("cuda", {"bench"}, {{"size", "quick"}, {"compare", {"nccl"}}}));
  EXPECT_EQ(v.margin, 0.0123);
}

TEST_F(CascadeTest, WhatCannotBeToldFromItsRivalIsNoElite) {
  launcher_.script = [&](const FakeLauncher::Asked&, const std::string& line, int) -> std::string {
    if (!line.starts_with("go")) return R"({"status":"PASSED"})";
    return samples(std::stoi(line.substr(3)), 1000);
  };
  const auto v = run(job("cuda", {"bench", "confirm"}, {{"size", "quick"}, {"compare", {"nccl"}}}));
  EXPECT_EQ(v.status, "AMBIGUOUS");
  EXPECT_EQ(v.stage, "confirm");
}

TEST_F(CascadeTest, ATimeBelowTheFloorIsImplausible) {
  const std::string profile = SCULLER_SOURCE_DIR "/profiles/h200x2.toml";
  if (!real_files().exists(profile)) GTEST_SKIP() << "profiles/h200x2.toml is not there";
  launcher_.script = [](const FakeLauncher::Asked&, const std::string& line, int) -> std::string {
    if (line == "quit") return R"({"status":"PASSED"})";
    return samples(std::stoi(line.substr(3)), 3.0);
  };
  const auto v = run(job("cuda", {"bench"},
                         {{"size", "quick"}, {"compare", json::array()}, {"profile", profile}}));
  EXPECT_EQ(v.status, "IMPLAUSIBLE") << v.message;
  EXPECT_NE(v.message.find("is below the"), std::string::npos);
}

}  // namespace
}  // namespace sculler::eval
