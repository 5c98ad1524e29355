#include "eval/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "eval/fakes.h"

namespace sculler::eval {
namespace {

Contestant contestant(const char* name) {
  Contestant c{name, {}};
  c.spec.job_json = nlohmann::json{{"name", name}}.dump();
  c.spec.rank_json = "{}";
  return c;
}

std::string one_sample(double ns) {
  return nlohmann::json{{"status", "PASSED"}, {"iterations", {{{"set", 0}, {"latency_ns", ns}}}}}
      .dump();
}

TEST(Bench, TakesTurnsAndReversesTheOrder) {
  FakeLauncher launcher;
  std::string order;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string& line, int) {
    if (line != "quit") order += asked.job["name"].get<std::string>()[0];
    return one_sample(1000);
  };
  BenchPlan plan;
  plan.stop.looks = {4};
  plan.cold_rounds = 0;
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_TRUE(out.candidate.passed());
  EXPECT_EQ(order, "cncnnccnnc");  // warm-up c n, then c n, n c, c n, n c
  EXPECT_EQ(out.samples_us.at("candidate").size(), 4U);
}

TEST(Bench, ABaselineThatFailsIsNamedAndTheRestGoesOn) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string& line,
                        int turn) -> std::string {
    if (asked.job["name"] == "nccl" && turn == 3) return "";  // died
    return line == "quit" ? R"({"status":"PASSED"})" : one_sample(2000);
  };
  BenchPlan plan;
  plan.stop.looks = {6};
  plan.cold_rounds = 0;
  const auto out =
      run_bench(launcher, {contestant("candidate"), contestant("nccl"), contestant("other")}, plan);
  EXPECT_TRUE(out.candidate.passed());
  EXPECT_EQ(out.failed.count("nccl"), 1U);
  EXPECT_EQ(out.samples_us.count("nccl"), 0U);
  EXPECT_EQ(out.samples_us.at("candidate").size(), 6U);
  EXPECT_EQ(out.samples_us.at("other").size(), 6U);
}

TEST(Bench, AWrongResultInTheMiddleEndsIt) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&,
                        int turn) -> std::string {
    if (asked.job["name"] == "candidate" && turn == 2)
      return R"({"status":"INCORRECT","message":"C[7]"})";
    return one_sample(1000);
  };
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, {});
  EXPECT_EQ(out.candidate.status, "INCORRECT");
  EXPECT_EQ(out.candidate.message, "C[7]");
}

// Samples of one turn: latencies in µs, whether the clocks agree, the checker's region beside it.
std::string turn_of(const std::vector<double>& us, bool agree = true, double region_us = 0) {
  auto list = nlohmann::json::array();
  for (const double one : us) {
    list.push_back({{"set", 0},
                    {"latency_ns", one * 1e3},
                    {"clocks_agree", agree},
                    {"region_ns", region_us * 1e3}});
  }
  return nlohmann::json{{"status", "PASSED"}, {"iterations", list}, {"clock_offset_ns", 10'000}}
      .dump();
}

double jitter(int turn) { return 1 + 0.002 * ((turn * 7919) % 11 - 5) / 5; }

TEST(Bench, ALargeEffectIsDecidedAtTheFirstLook) {
  FakeLauncher launcher;
  int turns = 0;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    ++turns;
    const double us = asked.job["name"] == "candidate" ? 100 : 150;
    return turn_of({us * jitter(turn + 3), us * jitter(turn), us * jitter(turn + 5)});
  };
  BenchPlan plan;
  plan.stop.looks = {8, 16, 32};
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  ASSERT_EQ(out.comparison.count("nccl"), 1U);
  EXPECT_EQ(out.comparison.at("nccl").call, "FASTER");
  EXPECT_EQ(out.comparison.at("nccl").rounds, 8);
  EXPECT_NEAR(out.comparison.at("nccl").ratio.median, 1.5, 0.01);
  EXPECT_EQ(out.cold_us.at("candidate").size(), 12U);  // 4 rounds of 3 samples
  EXPECT_NEAR(out.cold_ratio.at("nccl").median, 1.5, 0.01);
  EXPECT_EQ(turns, 2 + 16 + 8 + 2);  // warm-up, hot, cold, quit
}

TEST(Bench, ColdRoundsAreAskedForAndReportedApart) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked&, const std::string& line, int) {
    return turn_of({line.ends_with("cold") ? 130.0 : 100.0});
  };
  BenchPlan plan;
  const auto out = run_bench(launcher, {contestant("candidate")}, plan);
  EXPECT_EQ(median(out.samples_us.at("candidate")), 100);
  EXPECT_EQ(median(out.cold_us.at("candidate")), 130);
  EXPECT_EQ(out.rounds_us.at("candidate").size(), static_cast<std::size_t>(plan.rounds));
}

TEST(Bench, DisturbedRoundsAreRepeatedAndLeftOut) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    const bool disturbed = asked.job["name"] == "candidate" && turn % 3 == 1;
    return turn_of({disturbed ? 9000.0 : 100 * jitter(turn)}, !disturbed);
  };
  BenchPlan plan;
  plan.stop.looks = {8};
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_EQ(out.comparison.at("nccl").rounds, 8);
  EXPECT_NEAR(out.comparison.at("nccl").ratio.median, 1, 0.01);
  EXPECT_NEAR(median(out.samples_us.at("candidate")), 100, 1);
}

TEST(Bench, ARankWhoseClocksNeverAgreeIsNotFaster) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    const bool liar = asked.job["name"] == "candidate";
    return turn_of({(liar ? 900 : 500) * jitter(turn)}, !liar);
  };
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, {});
  EXPECT_EQ(out.comparison.count("nccl"), 0U);  // no round in which both were believed
  EXPECT_NEAR(median(out.samples_us.at("candidate")), 900, 5);
  EXPECT_FALSE(out.notes.empty());
}

TEST(Bench, FasterNeedsTheCheckersOwnClock) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    const bool own = asked.job["name"] == "candidate";
    // Claims 3 % less than the baseline; by the checker's clock it is slower.
    return turn_of({(own ? 970 : 1000) * jitter(turn)}, true, own ? 1030 : 1010);
  };
  BenchPlan plan;
  plan.stop.margin = 0.005;
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_EQ(out.comparison.at("nccl").call, "AMBIGUOUS");
  EXPECT_GT(out.comparison.at("nccl").ratio.low, 1.02);
}

TEST(Bench, ThrottlingAndWarmingAreNoted) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked&, const std::string&, int turn) {
    return turn_of({100 * (1 + 0.01 * turn) * jitter(turn)});
  };
  BenchPlan plan;
  plan.rounds = 16;
  const auto out = run_bench(launcher, {contestant("candidate")}, plan);
  const auto said = [&](const char* what) {
    return std::any_of(out.notes.begin(), out.notes.end(), [&](const std::string& note) {
      return note.find(what) != std::string::npos;
    });
  };
  EXPECT_TRUE(said("times rose"));
}

std::string short_turn(bool replayed, double us) {
  return nlohmann::json{{"status", "PASSED"},
                        {"iterations",
                         {{{"set", 0},
                           {"latency_ns", us * 1e3},
                           {"replayed", replayed ? 6 : 0},
                           {"ranks", {{{"start_ns", 0}, {"end_ns", 9000}, {"event_ns", 4000}}}}}}}}
      .dump();
}

TEST(Bench, ShortKernelsAreTimedAsGraphs) {
  FakeLauncher launcher;
  std::set<std::string> orders;
  launcher.script = [&](const FakeLauncher::Asked&, const std::string& line, int turn) {
    orders.insert(line);
    return short_turn(line.ends_with("replay"), 4 * jitter(turn));
  };
  BenchPlan plan;
  plan.replay_below_us = 10;
  auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_TRUE(out.replayed);
  EXPECT_EQ(orders.count("go 5 replay"), 1U);
  EXPECT_EQ(orders.count("go 5 cold"), 1U);
  plan.replay_below_us = 3;  // its events show 4
  orders.clear();
  out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_FALSE(out.replayed);
  EXPECT_EQ(orders.count("go 5 replay"), 0U);
}

TEST(Bench, GraphsForAllOrForNobody) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string& line, int turn) {
    return short_turn(line.ends_with("replay") && asked.job["name"] == "candidate",
                      (line.ends_with("replay") ? 4 : 9) * jitter(turn));
  };
  BenchPlan plan;
  plan.replay_below_us = 10;
  const auto out = run_bench(launcher, {contestant("candidate"), contestant("nccl")}, plan);
  EXPECT_FALSE(out.replayed);
  EXPECT_NEAR(median(out.samples_us.at("candidate")), 9, 0.1);
  EXPECT_EQ(out.comparison.at("nccl").call, "AMBIGUOUS");
  EXPECT_FALSE(out.notes.empty());
}

TEST(Bench, OnePairServesManyComparisons) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked&, const std::string&, int turn) {
    return turn_of({100 * jitter(turn)});
  };
  BenchPlan plan;
  plan.cold_rounds = 0;
  LiveBench live(launcher, plan);
  ASSERT_TRUE(live.start(contestant("candidate")));
  ASSERT_TRUE(live.start(contestant("other")));
  for (uint64_t i = 0; i < 5; ++i) {
    const auto out = live.measure(i);
    EXPECT_EQ(out.comparison.at("other").call, "AMBIGUOUS");
    EXPECT_EQ(out.rounds_us.at("other").size(), 8U);
  }
  EXPECT_EQ(launcher.asked.size(), 2U);
}

// The candidate against another program, with bursts: `factor(seconds)` multiplies the candidate's
// time, `effect` is what it really costs.
BenchOutcome measured_with_bursts(double effect, const std::function<double(double)>& factor,
                                  FakeClock& clock) {
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    const double seconds = static_cast<double>(clock.now_ns()) / 1e9;
    clock.advance_ns(1'000'000);
    const bool own = asked.job["name"] == "candidate";
    return turn_of({100 * jitter(turn) * (own ? effect * factor(seconds) : 1)});
  };
  BenchPlan plan;
  plan.stop = StopRule{.looks = {8, 16, 32}, .parts = 3, .pause_ms = 1000};
  plan.cold_rounds = 0;
  LiveBench live(launcher, plan, clock);
  EXPECT_TRUE(live.start(contestant("candidate")));
  EXPECT_TRUE(live.start(contestant("other")));
  return live.measure(1);
}

TEST(Bench, ABurstThatLooksLikeAnEffectIsNotCalled) {
  FakeClock clock;
  const auto out = measured_with_bursts(1, [](double s) { return s < 0.5 ? 3 : 1; }, clock);
  const Comparison& c = out.comparison.at("other");
  EXPECT_EQ(c.call, "AMBIGUOUS");
  EXPECT_EQ(c.parts, 3);
  // Its interval covers what was seen, the burst too.
  EXPECT_LT(c.ratio.low, 0.4);
  EXPECT_GT(c.ratio.high, 0.99);
  EXPECT_TRUE(std::any_of(out.notes.begin(), out.notes.end(), [](const std::string& note) {
    return note.find("(SLOWER, AMBIGUOUS, AMBIGUOUS)") != std::string::npos;
  }));
}

TEST(Bench, AnEffectStandsWhenASecondPartAgrees) {
  FakeClock clock;
  const auto out = measured_with_bursts(1.06, [](double) { return 1; }, clock);
  const Comparison& c = out.comparison.at("other");
  EXPECT_EQ(c.call, "SLOWER");
  EXPECT_EQ(c.parts, 2);
  EXPECT_EQ(c.rounds, 16);
  EXPECT_NEAR(c.ratio.median, 1 / 1.06, 0.005);
  EXPECT_LT(c.ratio.high, 1);
  EXPECT_GE(clock.now_ns(), 1'000'000'000);
  EXPECT_LT(clock.now_ns(), 2'000'000'000);
}

TEST(Bench, ABurstAgainstTheEffectIsOutvoted) {
  FakeClock clock;
  const auto out = measured_with_bursts(1.06, [](double s) { return s < 0.5 ? 0.4 : 1; }, clock);
  const Comparison& c = out.comparison.at("other");
  EXPECT_EQ(c.call, "SLOWER");
  EXPECT_EQ(c.parts, 3);
  // Of the parts that made the call alone.
  EXPECT_NEAR(c.ratio.median, 1 / 1.06, 0.005);
  EXPECT_LT(c.ratio.high, 1);
}

// One of the two got less of the machine and keeps that as long as it lives.
TEST(Bench, APairThatIsUnlikeByItsPlaceIsNotCalled) {
  FakeClock clock;
  FakeLauncher launcher;
  launcher.script = [&](const FakeLauncher::Asked& asked, const std::string&, int turn) {
    clock.advance_ns(1'000'000);
    const bool unlike = asked.job["name"] == "candidate" && launcher.asked.size() <= 2;
    return turn_of({100 * jitter(turn) * (unlike ? 1.08 : 1)});
  };
  BenchPlan plan;
  plan.stop = StopRule{.looks = {8, 16, 32}, .parts = 3, .pause_ms = 1000, .fresh = true};
  plan.cold_rounds = 0;
  LiveBench live(launcher, plan, clock);
  ASSERT_TRUE(live.start(contestant("candidate")));
  ASSERT_TRUE(live.start(contestant("other")));
  const auto out = live.measure(1);
  EXPECT_EQ(out.comparison.at("other").call, "AMBIGUOUS");
  EXPECT_EQ(out.comparison.at("other").parts, 3);
  EXPECT_EQ(launcher.asked.size(), 6U);  // every part on groups of its own
}

TEST(Bench, WhatShowsNoEffectIsMeasuredOnce) {
  FakeClock clock;
  const auto out = measured_with_bursts(1, [](double) { return 1; }, clock);
  EXPECT_EQ(out.comparison.at("other").call, "AMBIGUOUS");
  EXPECT_EQ(out.comparison.at("other").parts, 1);
  EXPECT_LT(clock.now_ns(), 1'000'000'000);
  EXPECT_TRUE(out.notes.empty());
}

}  // namespace
}  // namespace sculler::eval
