// What operations read and wrote, seen in front of another observer.
#include <gtest/gtest.h>

#include "emu/check/checker.h"
#include "emu/check/footprint.h"
#include "emu/vm/memory.h"

namespace sculler::emu {
namespace {

constexpr Address kAt = kDeviceBase + (Address{1} << 20);
constexpr CodeRef kLoadLine{3, 10}, kStoreLine{3, 20};

class FootprintTest : public ::testing::Test {
 protected:
  void SetUp() override {
    inner_ = make_checker();
    footprint_ = std::make_unique<Footprint>(*inner_);
    footprint_->add_host(0);
    stream_ = footprint_->add_stream(0);
    footprint_->allocated(0, kAt, 1 << 16, true);
  }
  void launch(uint32_t op, uint32_t blocks) {
    footprint_->operation(stream_, op, {});
    GridInfo info;
    info.kernel = "k";
    info.blocks = blocks;
    info.warps_per_block = 2;
    info.stream = stream_;
    grid_ = footprint_->begin_grid(info);
    warps_.clear();
    for (uint32_t b = 0; b < blocks; ++b)
      warps_.push_back(footprint_->begin_block(grid_, b, kSharedBase, 1024));
  }
  void end(uint32_t blocks) {
    for (uint32_t b = 0; b < blocks; ++b) footprint_->end_block(grid_, b);
    footprint_->end_grid(grid_);
  }
  // A warp's access of 4 bytes a lane, side by side.
  void access(ActorId warp, Access kind, Address begin, Order order = Order::kWeak,
              Scope scope = Scope::kGpu, uint32_t mask = ~0u) {
    Address lanes[32];
    for (uint32_t i = 0; i < 32; ++i) lanes[i] = begin + Address{4} * i;
    footprint_->access({warp, kind, order, scope, MemorySpace::kGlobal, 4, mask, lanes, mask,
                        kind == Access::kLoad ? kLoadLine : kStoreLine});
  }
  [[nodiscard]] const Footprint::Side& side(uint32_t op, bool written, Address at = kAt) const {
    const auto& page = footprint_->operations().at(op).pages.at(at / Footprint::kPageBytes);
    return written ? page.written : page.read;
  }

  std::unique_ptr<Observer> inner_;
  std::unique_ptr<Footprint> footprint_;
  ActorId stream_ = 0;
  GridId grid_ = 0;
  std::vector<ActorId> warps_;
};

TEST_F(FootprintTest, AKernelsAccessesToTheByteWithBlocksAndSteps) {
  launch(7, 3);
  access(warps_[1], Access::kLoad, kAt + 512);  // step 1 of block 1
  access(warps_[1] + 1, Access::kStore, kAt);   // step 2
  access(warps_[2], Access::kStore, kAt + 128, Order::kWeak, Scope::kGpu, 0x0fu);  // step 1
  access(warps_[2] + 1, Access::kStore, kAt + 256);
  end(3);
  EXPECT_EQ(side(7, false).bytes.count(), 128u);
  EXPECT_EQ(side(7, true).bytes.count(), 128u + 16u + 128u);
  EXPECT_TRUE(side(7, true).bytes.test(143));
  EXPECT_FALSE(side(7, true).bytes.test(144));
  const auto& first = side(7, true).grains[0];
  EXPECT_EQ(first.first_block, 1u);
  EXPECT_EQ(first.last_block, 2u);
  EXPECT_EQ(first.first_step, 1u);
  EXPECT_EQ(first.last_step, 2u);
  EXPECT_EQ(first.code.instruction, kStoreLine.instruction);
  EXPECT_EQ(side(7, false).grains[2].first_block, 1u);
  EXPECT_EQ(side(7, false).grains[2].code.instruction, kLoadLine.instruction);
  EXPECT_EQ(side(7, false).grains[0].first_block, UINT32_MAX);
  EXPECT_EQ(footprint_->operations().at(7).steps, 2u);
}

TEST_F(FootprintTest, SignalsAreNoDataAndAtomicsOnDataAre) {
  launch(1, 1);
  access(warps_[0], Access::kLoad, kAt, Order::kAcquire, Scope::kSys);
  access(warps_[0], Access::kStore, kAt, Order::kRelease, Scope::kSys);
  access(warps_[0], Access::kLoad, kAt, Order::kRelaxed, Scope::kSys);
  access(warps_[0], Access::kAtomic, kAt, Order::kRelaxed, Scope::kSys);
  EXPECT_TRUE(footprint_->operations().at(1).pages.empty());
  access(warps_[0], Access::kAtomic, kAt, Order::kRelaxed, Scope::kGpu);
  end(1);
  EXPECT_EQ(side(1, true).bytes.count(), 128u);
  EXPECT_EQ(side(1, false).bytes.count(), 128u);
}

TEST_F(FootprintTest, BulkCopiesCountInGlobalMemoryAlone) {
  launch(1, 2);
  AsyncAccess a;
  a.actor = warps_[1];
  a.access = Access::kStore;
  a.begin = kSharedBase + 1024;
  a.bytes = 256;
  footprint_->async(a);
  a.access = Access::kLoad;
  a.begin = kAt + 4000;
  footprint_->async(a);
  end(2);
  ASSERT_EQ(footprint_->operations().at(1).pages.size(), 2u);  // over the page's end
  EXPECT_EQ(side(1, false).bytes.count(), 96u);
  EXPECT_EQ(side(1, false, kAt + 4096).bytes.count(), 160u);
  EXPECT_EQ(side(1, false, kAt + 4096).grains[0].last_block, 1u);
}

TEST_F(FootprintTest, CopiesAreTheirStreamsAndHostsAreNobodys) {
  footprint_->operation(stream_, 4, host_code(9));
  footprint_->range({stream_, Access::kStore, kAt, 5000, host_code(9), "cudaMemcpyAsync"});
  footprint_->range({stream_, Access::kLoad, kAt, 8, {}, "wait", Order::kAcquire});
  footprint_->range({stream_ + 77, Access::kStore, kAt + 8192, 8, {}, "the harness"});
  const auto& op = footprint_->operations().at(4);
  EXPECT_EQ(op.site.instruction, 9u);
  EXPECT_EQ(op.pages.size(), 2u);
  EXPECT_EQ(side(4, true).bytes.count(), 4096u);
  EXPECT_EQ(side(4, true, kAt + 4096).bytes.count(), 904u);
  EXPECT_TRUE(side(4, false).bytes.none());
  EXPECT_EQ(side(4, true).grains[0].first_block, UINT32_MAX);
  // An operation that the trace does not hold takes nothing over.
  footprint_->operation(stream_, UINT32_MAX, {});
  footprint_->range({stream_, Access::kStore, kAt + 8192, 8, {}, "cudaMemcpyAsync"});
  EXPECT_EQ(op.pages.size(), 2u);
  footprint_->clear();
  EXPECT_TRUE(footprint_->operations().empty());
}

TEST_F(FootprintTest, MemoryIsBoundedAndSaid) {
  footprint_->operation(stream_, 1, {});
  footprint_->range({stream_,
                     Access::kStore,
                     kAt,
                     (Footprint::kMostPages + 10) * Footprint::kPageBytes,
                     {},
                     "cudaMemsetAsync"});
  EXPECT_TRUE(footprint_->truncated());
  EXPECT_EQ(footprint_->operations().at(1).pages.size(), Footprint::kMostPages);
}

// The observer behind sees all that it would see alone.
TEST_F(FootprintTest, TheCheckerBehindFindsTheSameRaces) {
  launch(1, 2);
  access(warps_[0], Access::kStore, kAt);
  access(warps_[1], Access::kStore, kAt);
  end(2);
  ASSERT_FALSE(footprint_->findings().empty());
  EXPECT_EQ(footprint_->findings().front().kind, Finding::Kind::kRace);
  EXPECT_EQ(footprint_->findings().size(), inner_->findings().size());
}

}  // namespace
}  // namespace sculler::emu
