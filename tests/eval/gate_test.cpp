// The gate of a machine's GPUs: timings run alone, checks share up to their bound, nobody starves.
#include "eval/gate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

namespace sculler::eval {
namespace {

TEST(Gate, ATimingRunsAloneAndChecksShareUpToTheirBound) {
  Gate gate(3);
  std::atomic<int> checks{0}, timings{0}, most{0}, broken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        if (t % 4 == 0) {
          const Gate::Pass pass(gate, Gate::Kind::kTiming);
          if (timings.fetch_add(1) != 0 || checks != 0) ++broken;
          std::this_thread::yield();
          timings.fetch_sub(1);
        } else {
          const Gate::Pass pass(gate, Gate::Kind::kCheck);
          const int now = checks.fetch_add(1) + 1;
          if (timings != 0 || now > 3) ++broken;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {}
          std::this_thread::yield();
          checks.fetch_sub(1);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_GT(most, 1);
}

TEST(Gate, AWaitingTimingIsNotOvertakenByChecks) {
  Gate gate(2);
  std::atomic<bool> timed{false};
  std::atomic<int> before{0};
  auto first = std::make_unique<Gate::Pass>(gate, Gate::Kind::kCheck);
  std::thread timing([&] {
    const Gate::Pass pass(gate, Gate::Kind::kTiming);
    timed = true;
  });
  // The timing is in the queue once a check that comes after it can be held back.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::thread late([&] {
    const Gate::Pass pass(gate, Gate::Kind::kCheck);
    if (!timed) ++before;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(timed);
  first.reset();
  timing.join();
  late.join();
  EXPECT_EQ(before, 0);
}

// Two gates on one file stand for two evaluators.
TEST(MachineLock, TimingsOfTwoEvaluatorsRunAloneAndTheirChecksShare) {
  const std::string file = testing::TempDir() + "machine-lock-" + std::to_string(::getpid());
  Gate gates[2] = {Gate(8, file), Gate(8, file)};
  std::atomic<int> checks{0}, timings{0}, most{0}, broken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Gate& gate = gates[t % 2];
        if (t < 2) {
          const Gate::Pass pass(gate, Gate::Kind::kTiming);
          if (timings.fetch_add(1) != 0 || checks != 0) ++broken;
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          timings.fetch_sub(1);
        } else {
          const Gate::Pass pass(gate, Gate::Kind::kCheck);
          const int now = checks.fetch_add(1) + 1;
          if (timings != 0) ++broken;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {}
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          checks.fetch_sub(1);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::filesystem::remove(file);
  EXPECT_EQ(broken, 0);
  EXPECT_GT(most, 1);
}

TEST(MachineLock, GivesUpWhereItIsNotLetGo) {
  const std::string file = testing::TempDir() + "machine-lock-held-" + std::to_string(::getpid());
  const auto timing = MachineLock::take(file, MachineLock::Kind::kAlone, 0);
  EXPECT_TRUE(timing.held());
  EXPECT_FALSE(MachineLock::take(file, MachineLock::Kind::kShared, 10).held());
  EXPECT_FALSE(MachineLock::take(file, MachineLock::Kind::kAlone, 10).held());
  EXPECT_FALSE(MachineLock::take(file + "/no/such/folder", MachineLock::Kind::kAlone, 10).held());
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace sculler::eval
