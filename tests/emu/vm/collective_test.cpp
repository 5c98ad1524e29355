#include <numeric>

#include "emu/vm/harness.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;

EngineConfig scheduled(ScheduleKind kind, uint64_t seed) {
  EngineConfig config;
  config.schedule = {kind, seed, 0};
  return config;
}

TEST(Grid, SyncOfACooperativeLaunch) {
  for (const ScheduleKind kind :
       {ScheduleKind::kRoundRobin, ScheduleKind::kRandom, ScheduleKind::kPriority}) {
    Job job(scheduled(kind, 3));
    job.load("grid.ptx");
    const int n = 132 * 64;
    auto* x = job.allocate<int>(2 * n);
    ASSERT_TRUE(job.try_launch(0, "grid_sync", 132, 64, 0, true, x, n));
    ASSERT_EQ(job.finish(100'000'000), Stop::kIdle) << job.engine->fault().message;
    for (int i = 0; i < n; ++i) ASSERT_EQ(x[n + i], (i + 37) % n + 2) << i;
  }
}

TEST(Grid, SyncWithoutACooperativeLaunchTraps) {
  Job job;
  job.load("grid.ptx");
  auto* x = job.allocate<int>(128);
  job.launch(0, "grid_sync", 2, 32, x, 64);
  EXPECT_EQ(job.finish(1'000'000), Stop::kFault);
}

TEST(Warp, TilesOfEight) {
  Job job;
  job.load("grid.ptx");
  auto* x = job.allocate<int>(64);
  job.launch(0, "tiles", 1, 64, x);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < 64; ++i) ASSERT_EQ(x[i], (8 * (i / 8 * 8) + 28) * 100 + i / 8) << i;
}

TEST(Warp, CoalescedGroups) {
  Job job;
  job.load("grid.ptx");
  auto* x = job.allocate<int>(32);
  job.launch(0, "coalesced", 1, 32, x);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < 32; ++i) ASSERT_EQ(x[i], i % 3 == 0 ? 1100 + i / 3 : -1) << i;
}

TEST(Warp, HalvesShuffleApart) {
  Job job;
  job.load("grid.ptx");
  auto* x = job.allocate<int>(32);
  job.launch(0, "apart", 1, 32, x);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < 32; ++i) ASSERT_EQ(x[i], i < 16 ? i ^ 1 : i ^ 2) << i;
}

TEST(Block, NamedBarriersAndReductions) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Job job(scheduled(ScheduleKind::kRandom, seed));
    job.load("grid.ptx");
    auto* x = job.allocate<int>(192);
    job.launch(0, "named", 1, 128, x);
    ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
    for (int i = 0; i < 64; ++i) ASSERT_EQ(x[i], i) << i;
    for (int i = 0; i < 128; ++i) ASSERT_EQ(x[64 + i], 26 * 4 + 2 + 1) << i;
  }
}

}  // namespace
}  // namespace sculler::emu
