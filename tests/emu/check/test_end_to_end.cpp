// Whole kernels through the virtual machine: what is planted is found under every schedule, what is
// right is silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "emu/check/deadlock.h"
#include "vm_job.h"

namespace sculler::emu {
namespace {

enum Mode { kNoFence, kFence, kReleaseAcquire, kDeviceScope, kRelaxed };

// The message from rank 0 to rank 1; what is found.
std::set<std::string> message(int mode, uint64_t seed) {
  Job job(2, seed);
  const Address data = job.memory(1, 1024, false), flag = job.memory(1, 4),
                out = job.memory(1, 1024);
  for (int rank = 0; rank < 2; ++rank) {
    job.launch(rank, "message", 1, 256, Params().add(rank).add(mode).add(data).add(flag).add(out));
  }
  EXPECT_EQ(job.run(), Engine::Stop::kIdle);
  std::set<std::string> kinds;
  for (const ReportedFinding& finding : job.findings()) kinds.insert(finding.kind);
  // The numbers are right in any case: no comparison would notice.
  EXPECT_EQ(reinterpret_cast<const float*>(out)[255], 510.f);
  for (const ReportedFinding& finding : job.findings()) {
    EXPECT_EQ(finding.now.file, "cases.cu") << finding.text;
    EXPECT_EQ(finding.before.file, "cases.cu") << finding.text;
    EXPECT_NE(finding.rank, finding.other_rank);
  }
  return kinds;
}

TEST(EndToEnd, MessagesBetweenRanks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_THAT(message(kFence, seed), testing::IsEmpty());
    EXPECT_THAT(message(kReleaseAcquire, seed), testing::IsEmpty());
    EXPECT_THAT(message(kNoFence, seed), testing::ElementsAre("relaxed-order"));
    EXPECT_THAT(message(kRelaxed, seed), testing::ElementsAre("relaxed-order"));
    EXPECT_THAT(message(kDeviceScope, seed), testing::ElementsAre("race"));
  }
}

TEST(EndToEnd, OddRowsOfBf16AreSilent) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Job job(1, seed);
    const Address c = job.memory(0, 63 * 64 * 2, false);
    job.launch(0, "rows", 8, 256, Params().add(c).add(63).add(64));
    EXPECT_EQ(job.run(), Engine::Stop::kIdle);
    EXPECT_EQ(texts(job), "");
  }
}

TEST(EndToEnd, ReductionInSharedMemory) {
  for (const int barrier : {1, 0}) {
    Job job(1, 3);
    const Address in = job.memory(0, 4096), out = job.memory(0, 16);
    job.launch(0, "reduce", 4, 256, Params().add(in).add(out).add(barrier));
    EXPECT_EQ(job.run(), Engine::Stop::kIdle);
    if (barrier == 1) {
      EXPECT_EQ(texts(job), "");
      continue;
    }
    EXPECT_THAT(texts(job), testing::HasSubstr("reads what another warp of the block writes"));
    EXPECT_THAT(texts(job), testing::HasSubstr("shared memory of block"));
  }
}

// What happens where between the ranks, under many schedules.
TEST(EndToEnd, AllReduceInPlace) {
  std::set<uint64_t> orders;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    for (const int barriers : {2, 1}) {
      constexpr int kRanks = 4;
      constexpr int kValues = 512;
      Job job(kRanks, seed,
              seed % 4 == 0   ? ScheduleKind::kDelayRank
              : seed % 4 == 1 ? ScheduleKind::kPriority
                              : ScheduleKind::kRandom);
      std::vector<Address> data, flags;
      for (int rank = 0; rank < kRanks; ++rank) {
        data.push_back(job.memory(rank, kValues * 4));
        flags.push_back(job.memory(rank, 4096));
        job.write(data.back(), std::vector<float>(kValues, float(rank + 1)));
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        const Address data_table = job.memory(rank, 64), flag_table = job.memory(rank, 64);
        job.write(data_table, data);
        job.write(flag_table, flags);
        job.launch(rank, "all_reduce", 4, 128,
                   Params()
                       .add(rank)
                       .add(kRanks)
                       .add(data_table)
                       .add(flag_table)
                       .add(kValues)
                       .add(barriers));
      }
      EXPECT_EQ(job.run(), Engine::Stop::kIdle);
      if (barriers == 2) {
        EXPECT_EQ(texts(job), "") << "seed " << seed;
        EXPECT_EQ(reinterpret_cast<const float*>(data[0])[kValues - 1], 10.f);
        orders.insert(job.checker->sync_hash());
      } else {
        ASSERT_FALSE(job.findings().empty()) << "seed " << seed;
        EXPECT_EQ(job.findings()[0].kind, "race");
        EXPECT_NE(job.findings()[0].rank, job.findings()[0].other_rank);
      }
    }
  }
  EXPECT_GT(orders.size(), 12u) << "schedules differ in what was heard from whom first";
}

TEST(EndToEnd, TheSameSeedGivesTheSameOrder) {
  const auto hash = [](uint64_t seed) {
    Job job(2, seed);
    const Address data = job.memory(1, 1024), flag = job.memory(1, 4), out = job.memory(1, 1024);
    for (int rank = 0; rank < 2; ++rank) {
      job.launch(rank, "message", 1, 256,
                 Params().add(rank).add(int{kReleaseAcquire}).add(data).add(flag).add(out));
    }
    EXPECT_EQ(job.run(), Engine::Stop::kIdle);
    return job.checker->sync_hash();
  };
  EXPECT_EQ(hash(5), hash(5));
}

TEST(EndToEnd, TheLastBlockNeedsItsFences) {
  for (const int fence : {1, 0}) {
    Job job(1, 2);
    const Address in = job.memory(0, 64), part = job.memory(0, 64, false), count = job.memory(0, 4),
                  out = job.memory(0, 4);
    job.launch(0, "last_block", 8, 64, Params().add(in).add(part).add(count).add(out).add(fence));
    EXPECT_EQ(job.run(), Engine::Stop::kIdle);
    if (fence == 1) {
      EXPECT_EQ(texts(job), "");
    } else {
      EXPECT_THAT(texts(job), testing::HasSubstr("relaxed-order"));
    }
  }
}

TEST(EndToEnd, UninitialisedInput) {
  Job job(1);
  const Address in = job.memory(0, 1024, false), out = job.memory(0, 1024);
  job.launch(0, "copy", 1, 32, Params().add(in).add(out));
  EXPECT_EQ(job.run(), Engine::Stop::kIdle);
  ASSERT_EQ(job.findings().size(), 1u);
  EXPECT_EQ(job.findings()[0].kind, "uninitialised");
  EXPECT_EQ(job.findings()[0].now.file, "cases.cu");
  EXPECT_THAT(job.findings()[0].text, testing::HasSubstr("buffer"));
}

TEST(EndToEnd, MoreBlocksThanFit) {
  {
    Job job(1);
    const Address count = job.memory(0, 4);
    job.launch(0, "all_here", 264, 1024, Params().add(count));
    ASSERT_EQ(job.run(), Engine::Stop::kIdle)
        << "two blocks of 1024 threads a multiprocessor: all fit";
    EXPECT_EQ(texts(job), "");
  }
  Job full(1);
  const Address again = full.memory(0, 4);
  full.launch(0, "all_here", 528, 1024, Params().add(again));
  ASSERT_EQ(full.run(), Engine::Stop::kStalled);
  const DeadlockText out = explain_deadlock(full.engine->warps(), full.locate(), [&](Address at) {
    return full.engine->memory().describe(at);
  });
  EXPECT_THAT(out.text, testing::HasSubstr("264 of 528 blocks fit"));
  EXPECT_THAT(out.text, testing::HasSubstr("which holds 264"));
  EXPECT_THAT(out.advice, testing::HasSubstr("at most 264 blocks"));
  EXPECT_EQ(out.at.file, "cases.cu");
}

TEST(EndToEnd, WarpsThatABarrierMisses) {
  Job job(1);
  const Address data = job.memory(0, 1024);
  job.launch(0, "left_out", 1, 128, Params().add(data));
  ASSERT_EQ(job.run(), Engine::Stop::kStalled);
  const DeadlockText out = explain_deadlock(job.engine->warps(), job.locate(), [&](Address at) {
    return job.engine->memory().describe(at);
  });
  EXPECT_THAT(out.message, testing::HasSubstr("wait at barrier 1"));
  EXPECT_THAT(out.message, testing::HasSubstr("of 128 arrived"));
  EXPECT_THAT(out.advice, testing::HasSubstr("reach barrier 1"));
}

TEST(EndToEnd, MissingSignal) {
  Job job(2);
  const Address data = job.memory(1, 1024), flag = job.memory(1, 4), out = job.memory(1, 1024);
  job.launch(1, "message", 1, 256,
             Params().add(1).add(int{kReleaseAcquire}).add(data).add(flag).add(out));
  ASSERT_EQ(job.run(), Engine::Stop::kStalled);
  const DeadlockText text = explain_deadlock(job.engine->warps(), job.locate(), [&](Address at) {
    return job.engine->memory().describe(at);
  });
  EXPECT_EQ(text.rank, 1);
  EXPECT_EQ(text.at.file, "cases.cu");
  EXPECT_THAT(text.message, testing::HasSubstr("spin on buffer"));
  EXPECT_THAT(text.message, testing::HasSubstr("which holds 0"));
}

}  // namespace
}  // namespace sculler::emu
