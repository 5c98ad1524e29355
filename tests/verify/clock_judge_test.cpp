#include "verify/clock_judge.h"

#include <gtest/gtest.h>

#include "verify/host_load.h"

namespace sculler::verify {
namespace {

// Two ranks; Run sent at 1000, messages take 10 us, the second rank opens 2 us later.
std::vector<RankClock> clocks(uint64_t run_ns) {
  std::vector<RankClock> out;
  for (uint64_t r = 0; r < 2; ++r) {
    RankClock c;
    c.announced_ns = 101'000 + 2000 * r;
    c.start_ns = c.announced_ns + 500;
    c.end_ns = c.start_ns + run_ns;
    c.opened_received_ns = c.announced_ns + 10'000;
    c.done_received_ns = c.end_ns + 10'000;
    out.push_back(c);
  }
  return out;
}

TEST(ClockJudge, LatencyIsFirstStartToLastEnd) {
  ClockJudge judge({8, 50'000, 0.03});
  judge.calibrate(1000, clocks(1000));
  IterationResult result;
  judge.judge(1000, false, clocks(500'000), result);
  EXPECT_EQ(result.latency_ns, 502'000u);
  EXPECT_TRUE(result.clocks_agree);
  EXPECT_EQ(result.ranks[1].start_ns, 2000u);
  EXPECT_EQ(judge.open_offset_ns(), 112'000u);
}

TEST(ClockJudge, WorkBeforeTheRegionIsAdded) {
  ClockJudge judge({8, 50'000, 0.03});
  judge.calibrate(1000, clocks(1000));
  auto late = clocks(1000);
  for (RankClock& c : late) {
    // 400 us pass before Opened is said.
    c.announced_ns += 400'000;
    c.start_ns += 400'000;
    c.end_ns += 400'000;
    c.opened_received_ns += 400'000;
    c.done_received_ns += 400'000;
  }
  IterationResult result;
  judge.judge(1000, false, late, result);
  EXPECT_FALSE(result.clocks_agree);
  EXPECT_GE(result.latency_ns, 400'000u);
}

TEST(ClockJudge, DelayedIterationsAreNotJudged) {
  ClockJudge judge({8, 50'000, 0.03});
  judge.calibrate(1000, clocks(1000));
  auto late = clocks(1000);
  late[0].done_received_ns += 10'000'000;
  IterationResult result;
  judge.judge(1000, true, late, result);
  EXPECT_TRUE(result.clocks_agree);
}

TEST(ClockJudge, ImpossibleFigures) {
  const auto with = [](auto change) {
    auto c = clocks(1000);
    change(c[1]);
    int rank = -1;
    const bool bad = ClockJudge::impossible(1000, c, rank).has_value();
    EXPECT_EQ(rank, bad ? 1 : -1);
    return bad;
  };
  EXPECT_FALSE(with([](RankClock&) {}));
  EXPECT_TRUE(with([](RankClock& c) { c.announced_ns = 999; }));
  EXPECT_TRUE(with([](RankClock& c) { c.announced_ns = c.opened_received_ns + 1; }));
  EXPECT_TRUE(with([](RankClock& c) { c.start_ns = c.announced_ns - 1; }));
  EXPECT_TRUE(with([](RankClock& c) { c.end_ns = c.start_ns - 1; }));
  EXPECT_TRUE(with([](RankClock& c) { c.end_ns = c.done_received_ns + 1; }));
}

TEST(ClockJudge, OneOutlierIsNoLie) {
  ClockJudge judge({8, 50'000, 0.03});
  judge.calibrate(1000, clocks(1000));
  for (int i = 0; i < 9; ++i) {
    auto c = clocks(100'000);
    if (i == 4) c[0].done_received_ns += 50'000'000;
    IterationResult result;
    judge.judge(1000, false, c, result);
    EXPECT_EQ(result.clocks_agree, i != 4);
  }
  EXPECT_FALSE(judge.systematic().has_value());
}

TEST(ClockJudge, ALieIsOneOnAnIdleHostAndATimeSliceOnACrowdedOne) {
  const auto named = [](double crowd) {
    ClockJudge judge({8, 50'000, 0.03});
    judge.calibrate(1000, clocks(1000));
    for (int i = 0; i < 9; ++i) {
      auto c = clocks(100'000);
      c[0].done_received_ns += 50'000'000;
      IterationResult result;
      judge.crowd(crowd);
      judge.judge(1000, false, c, result);
      EXPECT_GT(result.latency_ns, 49'000'000U);  // corrected on both
    }
    return judge.systematic().has_value();
  };
  EXPECT_TRUE(named(1.0));
  EXPECT_FALSE(named(10.0));
}

TEST(HostLoad, IsOneAtLeast) { EXPECT_GE(runnable_per_cpu(), 1.0); }

}  // namespace
}  // namespace sculler::verify
