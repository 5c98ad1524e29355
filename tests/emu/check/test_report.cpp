// The sentences, word for word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emu/check/deadlock.h"
#include "emu/check/report.h"
#include "emu/vm/memory.h"

namespace sculler::emu {
namespace {

Location locate(CodeRef code) {
  if (code.function == 9) return {"", 0, 77, "kernel", "ld.u32 %r1, [%rd1]", {}};
  return {"/src/ring.cu", code.instruction, 1000 + code.instruction, "ring", "text", {}};
}

Finding race(int rank, int other, int64_t block, int64_t other_block) {
  Finding finding;
  finding.now = {rank, block, 2, Access::kLoad, {1, 84}, {}};
  finding.before = {other, other_block, 0, Access::kStore, {1, 61}, {}};
  finding.place = "window 1 of rank 1 + 4096";
  return finding;
}

TEST(Report, RaceBetweenRanks) {
  const ReportedFinding out = report(race(1, 0, 3, 4), locate);
  EXPECT_EQ(out.kind, "race");
  EXPECT_EQ(
      out.text,
      "rank 1, ring.cu:84 reads what rank 0 writes at ring.cu:61; no barrier or signal orders them "
      "(window 1 of rank 1 + 4096; rank 1 block 3 warp 2 after rank 0 block 4 warp 0)");
  EXPECT_EQ(out.advice,
            "Put a barrier of the ranks, or a release store that the other side acquires, between "
            "the write and the read.");
  EXPECT_EQ(out.now.text(), "ring.cu:84");
  EXPECT_EQ(out.before.line, 61u);
  EXPECT_EQ(out.rank, 1);
  EXPECT_EQ(out.other_rank, 0);
}

TEST(Report, RelaxedOrder) {
  Finding finding = race(1, 0, 3, 4);
  finding.kind = Finding::Kind::kRelaxedOrder;
  finding.count = 12;
  const ReportedFinding out = report(finding, locate);
  EXPECT_EQ(out.text,
            "rank 1, ring.cu:84 reads what rank 0 writes at ring.cu:61; only relaxed accesses lie "
            "between them, which "
            "order nothing (window 1 of rank 1 + 4096; rank 1 block 3 warp 2 after rank 0 block 4 "
            "warp 0), 12 times");
  EXPECT_THAT(out.advice,
              testing::StartsWith("Give the barrier or flag between them release order"));
}

TEST(Report, WithinOneRank) {
  EXPECT_THAT(
      report(race(1, 1, 3, 3), locate).text,
      testing::HasSubstr(
          "reads what another warp of the block writes at ring.cu:61; no barrier of the block"));
  EXPECT_EQ(report(race(1, 1, 3, 3), locate).advice, "Put __syncthreads() between them.");
  EXPECT_THAT(report(race(1, 1, 3, 4), locate).text,
              testing::HasSubstr("nothing orders the two blocks"));
  Finding copy = race(1, 1, 3, -1);
  copy.before = {1, -1, -1, Access::kStore, {}, "cudaMemcpyAsync"};
  EXPECT_THAT(
      report(copy, locate).text,
      testing::HasSubstr(
          "reads what it writes at cudaMemcpyAsync; no stream order, event or synchronisation"));
}

TEST(Report, ScopeNote) {
  Finding finding = race(1, 0, 3, 4);
  finding.note =
      "a release between them reaches the device only, and the reader is on another device";
  const ReportedFinding out = report(finding, locate);
  EXPECT_THAT(out.text, testing::EndsWith(": " + finding.note));
  EXPECT_THAT(out.advice, testing::HasSubstr("system scope"));
}

TEST(Report, OneSided) {
  Finding finding;
  finding.kind = Finding::Kind::kUninitialised;
  finding.now = {0, 5, 1, Access::kLoad, {9, 4}, {}};
  finding.place = "cudaMalloc #3 of rank 0 + 16";
  const ReportedFinding out = report(finding, locate);
  EXPECT_EQ(out.text,
            "rank 0, PTX of kernel:77 reads cudaMalloc #3 of rank 0 + 16, which nobody has written "
            "(rank 0 block 5 warp 1)");
  for (const auto kind :
       {Finding::Kind::kBounds, Finding::Kind::kWrongRank, Finding::Kind::kUseAfterFree,
        Finding::Kind::kMisaligned, Finding::Kind::kMisuse}) {
    finding.kind = kind;
    EXPECT_THAT(report(finding, locate).text,
                testing::StartsWith("rank 0, PTX of kernel:77 reads cudaMalloc #3"));
    EXPECT_FALSE(report(finding, locate).advice.empty());
  }
}

WarpState state(int rank, uint32_t block, uint32_t warp, WarpState::Wait wait, uint32_t line) {
  WarpState out{};
  out.rank = rank;
  out.kernel = "ring";
  out.block = block;
  out.warp = warp;
  out.wait = wait;
  out.code = {1, line};
  out.lanes = 32;
  return out;
}

std::string describe(Address address) {
  return address == 0 ? "nothing" : "window 1 of rank 0 + 64";
}

TEST(Deadlock, MissingSignal) {
  std::vector<WarpState> warps;
  for (int rank = 0; rank < 2; ++rank) {
    for (uint32_t block = 0; block < 4; ++block) {
      WarpState spin = state(rank, block, 0, WarpState::Wait::kSpin, 84);
      spin.address = kDeviceBase + 64;
      spin.value = 3;
      if (rank == 1) warps.push_back(spin);
      for (uint32_t warp = 1; warp < 4; ++warp) {
        WarpState barrier = state(rank, block, warp, WarpState::Wait::kBarrier, 90);
        barrier.arrived = 3;
        barrier.expected = 4;
        if (rank == 1) warps.push_back(barrier);
      }
    }
  }
  const DeadlockText out = explain_deadlock(warps, locate, describe);
  EXPECT_EQ(out.text,
            "rank 1, ring, ring.cu:84: 4 warps of 4 blocks (first block 0) spin on window 1 of "
            "rank 0 + 64, which holds 3\n"
            "rank 1, ring, ring.cu:90: 12 warps of 4 blocks (first block 0) wait at barrier 0, "
            "where 3 of 4 arrived\n"
            "Look for the store that should change window 1 of rank 0 + 64: rank 1 waits in the "
            "memory of rank 0, which "
            "never signals there.\n");
  EXPECT_EQ(out.rank, 1);
  EXPECT_EQ(out.at.text(), "ring.cu:84");
  ASSERT_EQ(out.groups.size(), 2u);
  EXPECT_EQ(out.groups[0].owner, 0);
}

TEST(Deadlock, MoreBlocksThanFit) {
  std::vector<WarpState> warps;
  for (uint32_t block = 0; block < 264; ++block) {
    if (block < 132) {
      WarpState spin = state(0, block, 0, WarpState::Wait::kSpin, 40);
      spin.address = kDeviceBase + 64;
      spin.value = 131;
      warps.push_back(spin);
    } else if (block == 132) {
      warps.push_back(state(0, block, 0, WarpState::Wait::kNotResident, 0));
      warps.back().arrived = 132;
      warps.back().expected = 264;
    }
  }
  const DeadlockText out = explain_deadlock(warps, locate, describe);
  EXPECT_EQ(out.text,
            "rank 0, ring, ring.cu:40: 132 warps of 132 blocks (first block 0) spin on window 1 of "
            "rank 0 + 64, which holds 131\n"
            "rank 0, ring: 132 blocks (first block 132) have not started: the device is full of "
            "blocks that wait\n"
            "rank 0, ring: 132 of 264 blocks fit\n"
            "Launch ring with at most 132 blocks, or cooperatively: a block that has not started "
            "cannot signal those that "
            "wait for it.\n");
}

TEST(Deadlock, BarrierThatSomeLeaveOut) {
  WarpState barrier = state(0, 7, 1, WarpState::Wait::kBarrier, 12);
  barrier.barrier = 1;
  barrier.arrived = 1;
  barrier.expected = 2;
  const DeadlockText out = explain_deadlock({barrier}, locate, describe);
  EXPECT_EQ(out.message,
            "rank 0, ring, ring.cu:12: 1 warp of 1 block (first block 7) wait at barrier 1, where "
            "1 of 2 arrived");
  EXPECT_EQ(out.advice,
            "Let every thread of the block reach barrier 1: no return, branch or narrower count "
            "may leave some out.");
}

TEST(Deadlock, NobodyWaits) {
  const DeadlockText out = explain_deadlock({}, locate, describe);
  EXPECT_THAT(out.message, testing::HasSubstr("no warp waits"));
  EXPECT_EQ(out.rank, -1);
}

TEST(Deadlock, ThousandsOfStatesAreBounded) {
  std::vector<WarpState> warps;
  for (uint32_t block = 0; block < 2000; ++block) {
    WarpState spin = state(0, block, 0, WarpState::Wait::kSpin, 40);
    spin.address = kDeviceBase + block * 64;
    warps.push_back(spin);
  }
  WarpState lanes = state(0, 0, 0, WarpState::Wait::kBarrier, 41);
  lanes.barrier = ~0u;
  lanes.arrived = 3;
  lanes.expected = 32;
  EXPECT_THAT(explain_deadlock({lanes}, locate, describe).text,
              testing::HasSubstr("wait for lanes of their own warp, of which 3 of 32"));
  EXPECT_EQ(explain_deadlock(warps, locate, describe).groups.size(), kMaxGroups);
}

}  // namespace
}  // namespace sculler::emu
