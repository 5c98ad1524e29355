// Which of several findings is the verdict's.
#include <gtest/gtest.h>

#include "emu/server/report.h"
#include "emu/vm/memory.h"

namespace sculler::emu {
namespace {

class FirstCause : public ::testing::Test {
 protected:
  FirstCause() : memory_(2, uint64_t{64} << 20, nullptr) {
    counter_ = *memory_.allocate(0, 64, Allocation::Kind::kDevice, "counter");
    data_ = *memory_.allocate(0, 4096, Allocation::Kind::kDevice, "data");
  }
  static Finding uninitialised(Address at, Access access) {
    Finding f;
    f.kind = Finding::Kind::kUninitialised;
    f.address = at;
    f.now = {0, 1, 0, access, {1, 5}, ""};
    return f;
  }
  static Finding race(Address at, int64_t other_block = 2) {
    Finding f;
    f.kind = Finding::Kind::kRace;
    f.address = at;
    f.now = {0, 1, 0, Access::kLoad, {1, 9}, ""};
    f.before = {0, other_block, 0, Access::kStore, {1, 7}, other_block < 0 ? "cudaMemset" : ""};
    return f;
  }
  const Finding* first(const std::vector<Finding>& findings) {
    return uninitialised_first(memory_, findings);
  }

  Memory memory_;
  Address counter_ = 0, data_ = 0;
};

TEST_F(FirstCause, AnUnclearedCounterComesBeforeTheRacesThatItLeadsTo) {
  const std::vector<Finding> findings{uninitialised(counter_, Access::kAtomic), race(data_),
                                      race(counter_)};
  EXPECT_EQ(first(findings), &findings[0]) << "those who count write the counter themselves";
}

TEST_F(FirstCause, WhatIsWrittenTooLateIsARace) {
  EXPECT_EQ(first({uninitialised(data_, Access::kLoad), race(data_ + 128)}), nullptr);
  EXPECT_EQ(first({uninitialised(counter_, Access::kAtomic), race(counter_, -1)}), nullptr)
      << "somebody clears the counter, and nothing orders that";
}

TEST_F(FirstCause, ARaceOfTheSameReadOnAnotherRankCounts) {
  const Address other = *memory_.allocate(1, 4096, Allocation::Kind::kDevice, "data");
  Finding folded = race(other);
  folded.now = {1, 3, 0, Access::kStore, {1, 7}, ""};
  folded.before = {1, 1, 0, Access::kLoad, {1, 5}, ""};
  EXPECT_EQ(first({uninitialised(data_, Access::kLoad), folded}), nullptr);
  folded.before.code.instruction = 6;
  EXPECT_NE(first({uninitialised(data_, Access::kLoad), folded}), nullptr);
}

TEST_F(FirstCause, ARaceThatCameBeforeIsTheCause) {
  EXPECT_EQ(first({race(data_), uninitialised(counter_, Access::kAtomic)}), nullptr);
}

TEST_F(FirstCause, TheHarnessOwnReadIsNone) {
  Finding check = uninitialised(data_, Access::kLoad);
  check.now.what = "the harness";
  EXPECT_EQ(first({check}), nullptr);
  EXPECT_EQ(first({}), nullptr);
}

}  // namespace
}  // namespace sculler::emu
