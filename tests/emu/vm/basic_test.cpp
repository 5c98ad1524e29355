#include <algorithm>
#include <cmath>
#include <numeric>

#include "emu/vm/harness.h"
#include "emu/vm/scheduler.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;

TEST(Basic, VectorAdd) {
  Job job;
  job.load("basic.ptx");
  const int n = 1000;
  auto *a = job.allocate<float>(n), *b = job.allocate<float>(n), *c = job.allocate<float>(n);
  for (int i = 0; i < n; ++i) a[i] = static_cast<float>(i), b[i] = 0.5f * static_cast<float>(i);
  const GridId g = job.launch(0, "vector_add", 4, 256, a, b, c, n);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], 1.5f * static_cast<float>(i)) << i;
  const GridCounters& counters = job.engine->counters(g);
  EXPECT_EQ(counters.global_load_bytes, 8000u);
  EXPECT_EQ(counters.global_store_bytes, 4000u);
  EXPECT_EQ(counters.fp_flops, 1000u);
}

TEST(Basic, ReduceUnderSchedules) {
  for (const ScheduleKind kind : {ScheduleKind::kRoundRobin, ScheduleKind::kRandom,
                                  ScheduleKind::kPriority, ScheduleKind::kDelayRank}) {
    EngineConfig config;
    config.schedule = {kind, 7, 0};
    Job job(config);
    job.load("basic.ptx");
    const int n = 5000;
    auto *in = job.allocate<int>(n), *out = job.allocate<int>(1);
    std::iota(in, in + n, 1);
    job.launch(0, "reduce", 7, 128, in, out, n);
    ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
    EXPECT_EQ(*out, n * (n + 1) / 2);
  }
}

TEST(Basic, DivergentLoops) {
  Job job;
  job.load("basic.ptx");
  const int n = 333;
  auto *in = job.allocate<unsigned>(n), *out = job.allocate<unsigned>(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<unsigned>(i + 1);
  job.launch(0, "collatz", 6, 64, in, out, n);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < n; ++i) {
    unsigned v = in[i], steps = 0;
    for (; v != 1; ++steps) v = v & 1 ? 3 * v + 1 : v / 2;
    ASSERT_EQ(out[i], steps) << i;
  }
}

TEST(Basic, Recursion) {
  Job job;
  job.load("basic.ptx");
  auto* out = job.allocate<int>(64);
  job.launch(0, "recursion", 1, 64, out);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  const int fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (int i = 0; i < 64; ++i) ASSERT_EQ(out[i], fib[i % 12]) << i;
}

TEST(Basic, Printf) {
  Job job;
  job.load("basic.ptx");
  job.launch(0, "say", 1, 32, 3);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  EXPECT_EQ(job.printed,
            "thread 0 says  1.50 text 123456789ab\nthread 1 says  1.50 text 123456789ab\n");
}

TEST(Basic, GlobalsAreKeptPerRank) {
  EngineConfig config;
  config.n_ranks = 2;
  Job job(config);
  job.load("basic.ptx");
  int* out[2] = {job.allocate<int>(32, 0), job.allocate<int>(32, 1)};
  job.launch(0, "globals", 1, 32, out[0]);
  job.launch(1, "globals", 2, 32, out[1]);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(out[r][5], 2);
    auto counter = job.engine->global(job.modules[static_cast<size_t>(r)], "counter");
    ASSERT_TRUE(counter);
    EXPECT_EQ(*reinterpret_cast<int*>(counter->first), 5 + 32 * (r + 1));
  }
}

TEST(Basic, LockWithinAWarp) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EngineConfig config;
    config.schedule = {seed == 0 ? ScheduleKind::kRoundRobin : ScheduleKind::kRandom, seed, 0};
    Job job(config);
    job.load("basic.ptx");
    auto* mutex = job.allocate<int>(1);
    auto* sum = job.allocate<int>(1);
    job.launch(0, "lock", 2, 64, mutex, sum);
    ASSERT_EQ(job.finish(50'000'000), Stop::kIdle) << job.engine->fault().message;
    EXPECT_EQ(*sum, 128);
  }
}

TEST(Basic, DoublePrecisionSineWithItsSlowPath) {
  Job job;
  job.load("basic.ptx");
  auto* x = job.allocate<double>(32);
  double want[32];
  for (int i = 0; i < 32; ++i) {
    x[i] = (i % 2 != 0 ? 1e12 : 1.0) * (i + 0.25);
    want[i] = std::sin(x[i]);
  }
  job.launch(0, "sine", 1, 32, x);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(x[i], want[i], 1e-14) << i;
}

TEST(Basic, DynamicSharedMemory) {
  Job job;
  job.load("basic.ptx");
  auto* out = job.allocate<int>(128);
  ASSERT_TRUE(job.try_launch(0, "dynamic", 1, 128, 512, false, out, 5));
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int i = 0; i < 128; ++i) ASSERT_EQ(out[i], (i + 5) % 128 * 3);
}

TEST(Faults, DynamicSharedMemoryThatWasNotAskedFor) {
  Job job;
  job.load("basic.ptx");
  auto* out = job.allocate<int>(128);
  ASSERT_TRUE(job.try_launch(0, "dynamic", 1, 128, 256, false, out, 5));
  ASSERT_EQ(job.finish(), Stop::kFault);
  EXPECT_EQ(job.engine->fault().kind, Fault::Kind::kIllegalAddress);
  const Location at = job.engine->locate(job.engine->fault().code);
  EXPECT_EQ(at.file, "basic.cu");
  EXPECT_NE(job.engine->fault().message.find("shared memory offset"), std::string::npos)
      << job.engine->fault().message;
}

TEST(Faults, OutOfBoundsNamesTheAllocation) {
  Job job;
  job.load("basic.ptx");
  auto *a = job.allocate<float>(100), *b = job.allocate<float>(100), *c = job.allocate<float>(99);
  job.launch(0, "vector_add", 1, 128, a, b, c, 100);
  ASSERT_EQ(job.finish(), Stop::kFault);
  const Fault& f = job.engine->fault();
  EXPECT_EQ(f.kind, Fault::Kind::kIllegalAddress);
  EXPECT_NE(f.message.find("writes 4 bytes at buffer of rank 0 + 396 (it ends at 396)"),
            std::string::npos)
      << f.message;
  EXPECT_EQ(job.engine->locate(f.code).line, 5u);
  EXPECT_EQ(job.finish(), Stop::kIdle);
}

TEST(Faults, FarBehindAnAllocationIsNobodys) {
  Job job;
  Memory& memory = job.engine->memory();
  struct Range {
    Address begin;
    uint64_t bytes;
  };
  std::vector<Range> ranges;
  const Allocation::Kind kinds[] = {Allocation::Kind::kDevice, Allocation::Kind::kNccl};
  for (const uint64_t bytes : {4u, 524288u, 3u << 20, 64u, 20u << 20, 1000u}) {
    for (const Allocation::Kind kind : kinds) {
      const auto at = memory.allocate(0, bytes, kind, "buffer");
      ASSERT_TRUE(at);
      EXPECT_EQ(*at % (2u << 20), 0u);
      ranges.push_back({*at, bytes});
    }
  }
  for (const Range& r : ranges) {
    for (const uint64_t away : {uint64_t{0}, uint64_t{256}, r.bytes / 2, r.bytes - 1}) {
      const Allocation* behind = memory.find(r.begin + r.bytes + away);
      EXPECT_TRUE(behind == nullptr || behind->begin == r.begin) << r.bytes << ' ' << away;
      EXPECT_EQ(memory.find(r.begin - 1 - away), nullptr) << r.bytes << ' ' << away;
      EXPECT_NE(memory.check(0, r.begin + r.bytes + away, 1), nullptr);
    }
  }
  EXPECT_EQ(memory.describe(ranges[2].begin + 700000),
            "buffer of rank 0 + 700000 (it ends at 524288)");
  EXPECT_EQ(memory.describe(ranges[2].begin - 2), "2 bytes before buffer of rank 0");
}

TEST(Faults, MemoryRunsOutAtItsLimitAndComesBack) {
  EngineConfig config;
  config.limits.memory_bytes = uint64_t{64} << 20;
  Job job(config);
  Memory& memory = job.engine->memory();
  EXPECT_FALSE(memory.allocate(0, uint64_t{65} << 20, Allocation::Kind::kDevice, "large"));
  for (int round = 0; round < 330; ++round) {  // more than the range holds with its guards
    auto a = memory.allocate(0, uint64_t{40} << 20, Allocation::Kind::kDevice, "a");
    ASSERT_TRUE(a) << round;
    EXPECT_FALSE(memory.allocate(0, uint64_t{40} << 20, Allocation::Kind::kNccl, "b"));
    ASSERT_TRUE(memory.release(0, *a));
  }
  for (int n = 0; n < 20000; ++n)
    ASSERT_TRUE(memory.allocate(0, 16, Allocation::Kind::kDevice, "small")) << n;
}

TEST(Faults, OtherRanksMemory) {
  EngineConfig config;
  config.n_ranks = 2;
  Job job(config);
  job.load("basic.ptx");
  auto *a = job.allocate<float>(32, 0), *b = job.allocate<float>(32, 0),
       *c = job.allocate<float>(32, 1);
  job.launch(0, "vector_add", 1, 32, a, b, c, 32);
  ASSERT_EQ(job.finish(), Stop::kFault);
  EXPECT_NE(job.engine->fault().message.find("no registered window"), std::string::npos)
      << job.engine->fault().message;
  auto* window = job.allocate<float>(32, 1, Allocation::Kind::kNccl);
  job.launch(0, "vector_add", 1, 32, a, b, window, 32);
  EXPECT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
}

TEST(Faults, NullPointer) {
  Job job;
  job.load("basic.ptx");
  auto* a = job.allocate<float>(32);
  job.launch(0, "vector_add", 1, 32, a, a, static_cast<float*>(nullptr), 32);
  ASSERT_EQ(job.finish(), Stop::kFault);
  EXPECT_NE(job.engine->fault().message.find("null pointer"), std::string::npos)
      << job.engine->fault().message;
}

TEST(Stall, SpinIsFoundAndEndsWhenMemoryChanges) {
  Job job;
  job.load("basic.ptx");
  auto *flag = job.allocate<int>(1), *out = job.allocate<int>(1);
  job.launch(0, "wait_for", 1, 1, flag, out);
  ASSERT_EQ(job.finish(1'000'000), Stop::kStalled);
  const auto warps = job.engine->warps();
  ASSERT_EQ(warps.size(), 1u);
  EXPECT_EQ(warps[0].wait, WarpState::Wait::kSpin);
  EXPECT_EQ(warps[0].address, reinterpret_cast<Address>(flag));
  EXPECT_EQ(job.engine->locate(warps[0].code).line, 51u);
  *flag = 9;
  ASSERT_EQ(job.finish(1'000'000), Stop::kIdle);
  EXPECT_EQ(*out, 9);
}

TEST(Stall, BarrierThatSomeLanesNeverReach) {
  Job job;
  job.load("basic.ptx");
  auto* out = job.allocate<int>(64);
  job.launch(0, "half_barrier", 1, 64, out);
  ASSERT_EQ(job.finish(5'000'000), Stop::kStalled);
  bool barrier = false, spin = false;
  for (const auto& w : job.engine->warps()) {
    barrier =
        barrier || (w.wait == WarpState::Wait::kBarrier && w.arrived == 32 && w.expected == 64);
    spin = spin || w.wait == WarpState::Wait::kSpin;
  }
  EXPECT_TRUE(barrier && spin);
}

TEST(Stall, PollingThroughBlockBarriers) {
  EngineConfig config;
  config.quiet_limit = 50'000;
  Job job(config);
  job.load("basic.ptx");
  auto *flag = job.allocate<int>(1), *out = job.allocate<int>(64);
  job.launch(0, "poll_together", 1, 64, flag, out);
  ASSERT_EQ(job.finish(200'000'000), Stop::kStalled);
  *flag = 4;
  ASSERT_EQ(job.finish(), Stop::kIdle);
  EXPECT_EQ(out[63], 4);
}

// Eight looks at a word that never changes, counted in a register: an end, not a deadlock.
TEST(Stall, WaitsBoundedByACountEnd) {
  const std::string text = R"(.version 8.7
.target sm_90a
.address_size 64
.visible .entry give_up(.param .u64 word)
{
  .reg .pred %p<5>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [word];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  bar.sync 0;
  @%p1 bra $DONE;
  ld.acquire.sys.b32 %r2, [%rd2];
  mov.u32 %r3, 0;
$LOOP:
  ld.acquire.sys.b32 %r4, [%rd2];
  setp.eq.s32 %p2, %r4, %r2;
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, 8;
  and.pred %p4, %p2, %p3;
  @%p4 bra $LOOP;
$DONE:
  bar.sync 0;
  ret;
}
)";
  for (const auto kind : {ScheduleKind::kRoundRobin, ScheduleKind::kRandom, ScheduleKind::kPriority,
                          ScheduleKind::kDelayRank}) {
    for (const unsigned threads : {32u, 256u}) {
      EngineConfig config;
      config.schedule.kind = kind;
      Job job(config);
      auto module = job.engine->load(0, text);
      ASSERT_TRUE(module) << module.error().message;
      job.modules = {*module};
      job.launch(0, "give_up", 4, threads, job.allocate<uint32_t>(1));
      EXPECT_EQ(job.finish(100'000), Engine::Stop::kIdle) << static_cast<int>(kind);
    }
  }
}

TEST(Stall, WaitsBoundedByTheClockEnd) {
  Job job;
  job.load("basic.ptx");
  auto *flag = job.allocate<int>(1), *out = job.allocate<int>(1);
  job.launch(0, "give_up", 1, 32, flag, 5'000'000'000ll, out);
  ASSERT_EQ(job.finish(50'000'000), Stop::kIdle);
  EXPECT_EQ(*out, -1);
}

TEST(Stall, GridLargerThanTheMachineThatSpins) {
  EngineConfig config;
  config.limits.sms = 2;
  Job job(config);
  job.load("basic.ptx");
  auto* flag = job.allocate<int>(1);
  job.launch(0, "spin_on_last", 64, 64, flag);  // 2 SMs hold 64 blocks of two warps
  EXPECT_EQ(job.finish(50'000'000), Stop::kIdle);
  *flag = 0;
  job.launch(0, "spin_on_last", 65, 64, flag);
  ASSERT_EQ(job.finish(50'000'000), Stop::kStalled);
  bool waiting = false;
  for (const auto& w : job.engine->warps())
    waiting = waiting || w.wait == WarpState::Wait::kNotResident;
  EXPECT_TRUE(waiting);
  *flag = 0;
  job.engine->kill_rank(0);
  auto refused = job.try_launch(0, "spin_on_last", 65, 64, 0, true, flag);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "cudaErrorCooperativeLaunchTooLarge");
}

TEST(Stall, NoScheduleLetsTheLastBlockInEarly) {
  for (const ScheduleKind kind : {ScheduleKind::kRandom, ScheduleKind::kPriority}) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      EngineConfig config;
      config.limits.sms = 1;
      config.schedule = {kind, seed, 0};
      Job job(config);
      job.load("basic.ptx");
      auto* flag = job.allocate<int>(1);
      job.launch(0, "spin_on_last", 64, 64, flag);  // an SM holds 32
      EXPECT_EQ(job.finish(50'000'000), Stop::kStalled) << seed;
    }
  }
}

TEST(Admission, IsNearlyAscending) {
  int shuffled = 0, ascending = 0;
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    vm::Scheduler scheduler(Schedule{ScheduleKind::kRandom, seed, 0});
    const std::vector<uint32_t> order = scheduler.admission(264, 132);
    if (order.empty()) {
      ++ascending;
      continue;
    }
    ASSERT_EQ(order.size(), 264u);
    std::vector<bool> seen(264);
    bool moved = false;
    for (uint32_t k = 0; k < 264; ++k) {
      seen[order[k]] = true;
      moved = moved || order[k] != k;
      EXPECT_EQ(order[k] < 132, k < 132) << seed;
      EXPECT_LT(order[k] > k ? order[k] - k : k - order[k], 16u) << seed;
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool b) { return b; }));
    shuffled += moved ? 1 : 0;
  }
  EXPECT_GT(ascending, 4);
  EXPECT_GT(shuffled, 32);
  EXPECT_TRUE(vm::Scheduler(Schedule{}).admission(264, 132).empty());
}

TEST(Determinism, SameSeedSameInstructionCount) {
  uint64_t counts[2];
  for (uint64_t& n : counts) {
    EngineConfig config;
    config.schedule = {ScheduleKind::kRandom, 42, 0};
    Job job(config);
    job.load("basic.ptx");
    auto* mutex = job.allocate<int>(1);
    auto* sum = job.allocate<int>(1);
    job.launch(0, "lock", 3, 96, mutex, sum);
    ASSERT_EQ(job.finish(), Stop::kIdle);
    n = job.engine->instructions();
  }
  EXPECT_EQ(counts[0], counts[1]);
}

}  // namespace
}  // namespace sculler::emu
