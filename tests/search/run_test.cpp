#include "search/run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "search/best.h"
#include "search/tuner.h"
#include "search/world.h"

namespace sculler::search {
namespace {

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    settings_.frame.task = "/t";
    settings_.frame.task_sha256 = "t";
    settings_.frame.target = "emu";
    settings_.frame.size = "emu";
    settings_.frame.stages = search_stages("emu");
    settings_.frame.n_ranks = 2;
    settings_.budget = 20;
    settings_.spool = "/spool";
    settings_.stop_at_percent_sol = 0;
    EXPECT_TRUE(files_.mkdirs("/spool"));
    EXPECT_TRUE(files_.mkdirs("/run"));
    store_ = std::move(*store::Store::open(":memory:", clock_));
  }
  Result<Summary> run(Evaluator& evaluator) {
    Tuner tuner(seeds(), {1, settings_.budget, 8});
    Log log(files_, clock_, "/run/log.jsonl");
    search::Run run(*store_, files_, clock_, evaluator, tuner, progress_, log, settings_);
    run.interrupted = &interrupted_;
    return run.execute({baseline()});
  }
  MemoryFiles files_;
  FakeClock clock_;
  RecordedProgress progress_;
  std::unique_ptr<store::Store> store_;
  RunSettings settings_;
  std::atomic<bool> interrupted_{false};
};

TEST_F(RunTest, FindsConfirmsAndCounts) {
  FakeEvaluator evaluator(judge);
  auto summary = run(evaluator);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->tally.evaluated, 20);
  EXPECT_EQ(summary->tally.passed, 19);
  EXPECT_EQ(summary->why, "budget");
  EXPECT_EQ(summary->best_baseline, "nccl");
  ASSERT_TRUE(summary->best);
  EXPECT_TRUE(summary->best->confirmed);
  EXPECT_EQ(summary->best->candidate.source->name, "seed_a");
  EXPECT_NEAR(summary->best->ratio.at("nccl"), 1000 / *summary->best->verdict.latency_us, 1e-9);
  EXPECT_EQ(evaluator.submitted(), 22);  // a baseline and a confirmation beside
  const auto counts = *store_->counts();
  EXPECT_EQ(counts.programs, 21);
  EXPECT_EQ(counts.attempts, 22);
  EXPECT_EQ(counts.evaluations, 22);
}

TEST_F(RunTest, MeasuredCandidatesAreComparedWithTheBestBaselineOnly) {
  settings_.frame.target = "cpu";
  settings_.frame.stages = search_stages("cpu");
  int with = 0, without = 0;
  FakeEvaluator evaluator([&](const std::string& id, const std::string& line) {
    const auto job = nlohmann::json::parse(line);
    if (job.contains("baseline_of")) {
      EXPECT_FALSE(job.contains("compare"));
      ++without;
    } else {
      EXPECT_EQ(job["compare"], nlohmann::json({"nccl"}));
      ++with;
    }
    return judge(id, line);
  });
  ASSERT_TRUE(run(evaluator));
  EXPECT_EQ(without, 1);
  EXPECT_EQ(with, 21);
}

TEST_F(RunTest, ResumeAsksNothingAgainAndEndsAlike) {
  FakeEvaluator first(judge);
  const auto before = run(first);
  FakeEvaluator second(judge);
  const auto after = run(second);
  EXPECT_EQ(second.submitted(), 0);
  EXPECT_EQ(after->best->program, before->best->program);
  EXPECT_EQ(after->from_store, 22);
  settings_.budget = 25;
  FakeEvaluator third(judge);
  ASSERT_TRUE(run(third));
  EXPECT_GE(third.submitted(), 1);
  EXPECT_LE(third.submitted(), 27);
}

TEST_F(RunTest, WhatTheSpoolHoldsIsNotEvaluatedAgain) {
  // Dies (as after kill -9) at every possible place of the run: the attempts are written, some
  // verdicts only in the spool.
  for (int survives = 0; survives < 22; ++survives) {
    store_ = std::move(*store::Store::open(":memory:", clock_));
    std::map<std::string, int> asked;
    int answered = 0;
    FakeEvaluator dying([&](const std::string& id, const std::string& line) {
      ++asked[id];
      const std::string verdict = judge(id, line);
      if (answered++ == survives) {
        EXPECT_TRUE(files_.write_atomic("/spool/" + id + ".json",
                                        verdict));  // durable, but not handed over
        return std::string("{");
      }
      return verdict;
    });
    EXPECT_FALSE(run(dying));
    FakeEvaluator healthy([&](const std::string& id, const std::string& line) {
      ++asked[id];
      return judge(id, line);
    });
    auto summary = run(healthy);
    ASSERT_TRUE(summary) << summary.error().text();
    EXPECT_EQ(summary->tally.evaluated, 20);
    EXPECT_EQ(store_->counts()->evaluations, 22);
    EXPECT_TRUE(store_->open_attempts()->empty());
    for (const auto& [id, times] : asked)
      EXPECT_LE(times, 1 + (files_.exists("/spool/" + id + ".json") ? 0 : 1)) << survives;
    ASSERT_TRUE(files_.remove_all("/spool"));
    ASSERT_TRUE(files_.mkdirs("/spool"));
  }
}

TEST_F(RunTest, OnResumeWhatFailedInternallyIsAskedAgain) {
  FakeEvaluator broken([](const std::string& id, const std::string&) {
    return R"({"version":1,"job":")" + id + R"(","status":"INTERNAL","stage":"run"})";
  });
  EXPECT_TRUE(run(broken));
  const int asked = broken.submitted();
  EXPECT_GE(asked, 2);
  FakeEvaluator healthy(judge);
  auto summary = run(healthy);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->from_store, 0);
  EXPECT_TRUE(summary->best);
  EXPECT_EQ(store_->counts()->evaluations, store_->counts()->attempts);
}

TEST_F(RunTest, StopsOnTargetPatienceAndInterrupt) {
  settings_.budget = 0;
  settings_.target_ratio = 1.5;
  FakeEvaluator one(judge);
  EXPECT_EQ(run(one)->why, "target");
  settings_.target_ratio = 0;
  settings_.patience = 10;
  store_ = std::move(*store::Store::open(":memory:", clock_));
  FakeEvaluator two(judge);
  EXPECT_EQ(run(two)->why, "patience");
  EXPECT_LT(two.submitted(), 90);
  settings_.patience = 0;
  settings_.stop_at_percent_sol = 70;
  store_ = std::move(*store::Store::open(":memory:", clock_));
  FakeEvaluator three(judge);
  EXPECT_EQ(run(three)->why, "speed of light");
  interrupted_ = true;
  store_ = std::move(*store::Store::open(":memory:", clock_));
  FakeEvaluator four(judge);
  EXPECT_EQ(run(four)->why, "interrupted");
}

TEST_F(RunTest, AnEliteThatIsNotConfirmedIsNotTheBest) {
  // The fastest of all is wrong on fresh seeds.
  FakeEvaluator evaluator([](const std::string& id, const std::string& line) {
    auto verdict = *parse_json(judge(id, line), "v");
    const auto job = *parse_json(line, "j");
    if (job["stages"].size() > 3 && job["candidate"]["defines"].value("B", "") == "3")
      verdict["status"] = "INCORRECT";
    return dump_json(verdict);
  });
  settings_.budget = 40;
  settings_.confirm = 8;
  auto summary = run(evaluator);
  ASSERT_TRUE(summary && summary->best);
  EXPECT_TRUE(summary->best->confirmed);
  EXPECT_EQ(summary->best->candidate.label().find("B=3"), std::string::npos);
  FakeEvaluator never([](const std::string& id, const std::string& line) {
    auto verdict = *parse_json(judge(id, line), "v");
    if (parse_json(line, "j")->at("stages").size() > 3) verdict["status"] = "RACE";
    return dump_json(verdict);
  });
  store_ = std::move(*store::Store::open(":memory:", clock_));
  EXPECT_FALSE(run(never)->best);
}

TEST_F(RunTest, BestFolderHoldsWhatAPersonTakesAway) {
  FakeEvaluator evaluator(judge);
  auto summary = run(evaluator);
  ASSERT_TRUE(summary && summary->best);
  ASSERT_TRUE(write_best(
      files_, "/run/best", *summary,
      {"toy", "emu", "h200x2", "emu", "/run", "sculler evaluate toy best/candidate.cu"}));
  EXPECT_EQ(*files_.list("/run/best"),
            (std::vector<std::string>{"README.md", "candidate.cu", "defines.json", "directive.json",
                                      "verdict.json"}));
  EXPECT_EQ(*files_.read("/run/best/candidate.cu"), summary->best->candidate.source->text);
  const std::string readme = *files_.read("/run/best/README.md");
  EXPECT_NE(readme.find("predicted at size default, not measured: no GPU took part"),
            std::string::npos)
      << readme;
  EXPECT_NE(readme.find("confirmed on fresh seeds"), std::string::npos);
  files_.set_capacity(1);
  EXPECT_EQ(write_best(files_, "/run/best2", *summary, {}).error().code, ErrorCode::kDiskFull);
}

}  // namespace
}  // namespace sculler::search
