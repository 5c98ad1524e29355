// What orders two accesses and what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "history.h"

namespace sculler::emu {
namespace {

// Writer: rank 0 stores data in rank 1's memory, then a flag there. Reader: rank 1 reads flag, then
// data.
struct Message {
  Order store = Order::kRelease, load = Order::kAcquire;
  Scope store_scope = Scope::kSys, load_scope = Scope::kSys;
  bool fence_before = false, fence_after = false;
  Scope fence_scope = Scope::kSys;
  int reader_rank = 1;
  uint32_t reader_block = 0;
  uint32_t reader_warp = 0;
  bool rmw = false;
};

History pass(const Message& m) {
  History h;
  const ActorId writer = h.warp(0), reader = h.warp(m.reader_rank, m.reader_block, m.reader_warp);
  const Address data = History::memory(1, 0), flag = History::memory(1, 4096);
  h.store(writer, data, 1);
  if (m.fence_before) h.checker->fence(writer, Order::kAcqRel, m.fence_scope);
  if (m.rmw) {
    h.atomic(writer, flag, 2, m.store, m.store_scope);
  } else {
    h.store(writer, flag, 2, m.store, m.store_scope);
  }
  h.load(reader, flag, 3, m.load, m.load_scope);
  if (m.fence_after) h.checker->fence(reader, Order::kAcqRel, m.fence_scope);
  h.load(reader, data, 4);
  return h;
}

TEST(Order, NothingOrders) {
  History h;
  h.store(h.warp(0), History::memory(1), 1);
  h.load(h.warp(1), History::memory(1), 2);
  ASSERT_EQ(h.races(), 1u);
  const Finding& race = h.checker->findings()[0];
  EXPECT_EQ(race.now.rank, 1);
  EXPECT_EQ(race.now.access, Access::kLoad);
  EXPECT_EQ(race.now.code.instruction, 2u);
  EXPECT_EQ(race.before.rank, 0);
  EXPECT_EQ(race.before.code.instruction, 1u);
  EXPECT_EQ(race.before.block, 0);
  EXPECT_EQ(race.before.warp, 0);
  EXPECT_EQ(race.address, History::memory(1));
  EXPECT_THAT(race.place, testing::HasSubstr("of rank 1, offset 0"));
}

TEST(Order, ReleaseAcquire) { EXPECT_TRUE(pass({}).checker->findings().empty()); }
TEST(Order, ReleaseAcquireByRmw) {
  EXPECT_TRUE(pass({.store = Order::kAcqRel, .rmw = true}).checker->findings().empty());
}

TEST(Order, RelaxedStoreAndLoad) {
  const History h = pass({.store = Order::kRelaxed, .load = Order::kRelaxed});
  EXPECT_EQ(h.races(), 0u);
  EXPECT_EQ(h.relaxed(), 1u) << "ordered by relaxed accesses only: a class of its own";
}

TEST(Order, VolatileIsRelaxed) {
  const History h = pass({.store = Order::kVolatile, .load = Order::kVolatile});
  EXPECT_EQ(h.relaxed(), 1u);
}

TEST(Order, HalfAPatternIsNone) {
  EXPECT_EQ(pass({.load = Order::kRelaxed}).relaxed(), 1u);
  EXPECT_EQ(pass({.store = Order::kRelaxed}).relaxed(), 1u);
  EXPECT_EQ(
      pass({.store = Order::kRelaxed, .load = Order::kRelaxed, .fence_before = true}).relaxed(),
      1u);
  EXPECT_EQ(
      pass({.store = Order::kRelaxed, .load = Order::kRelaxed, .fence_after = true}).relaxed(), 1u);
}

TEST(Order, FencesMakeRelaxedAndVolatileOnesOrder) {
  for (const Order order : {Order::kRelaxed, Order::kVolatile}) {
    EXPECT_TRUE(pass({.store = order, .load = order, .fence_before = true, .fence_after = true})
                    .checker->findings()
                    .empty());
  }
  EXPECT_TRUE(pass({.store = Order::kRelaxed, .fence_before = true}).checker->findings().empty())
      << "fence, acquire";
  EXPECT_TRUE(pass({.load = Order::kRelaxed, .fence_after = true}).checker->findings().empty())
      << "release, fence";
}

TEST(Order, AFenceTooLateOrdersNothing) {
  History h;
  const Address data = History::memory(1, 0), flag = History::memory(1, 4096);
  h.checker->fence(h.warp(0), Order::kAcqRel, Scope::kSys);
  h.store(h.warp(0), data, 1);
  h.store(h.warp(0), flag, 2, Order::kRelaxed);
  h.load(h.warp(1), flag, 3, Order::kAcquire);
  h.load(h.warp(1), data, 4);
  EXPECT_EQ(h.relaxed(), 1u);
}

TEST(Order, ScopeMustReach) {
  // Another rank: only .sys.
  for (const Scope scope : {Scope::kCta, Scope::kCluster, Scope::kGpu}) {
    const History h = pass({.store_scope = scope});
    ASSERT_EQ(h.races(), 2u) << "the data, and the flag itself, which is then no atomic pair";
    EXPECT_EQ(h.checker->findings()[0].now.code.instruction, 3u);
    EXPECT_EQ(h.checker->findings()[1].now.code.instruction, 4u);
    EXPECT_THAT(h.checker->findings()[1].note, testing::HasSubstr("on another device"));
    EXPECT_EQ(pass({.load_scope = scope}).races(), 2u);
  }
  EXPECT_EQ(pass({.store = Order::kRelaxed,
                  .load = Order::kRelaxed,
                  .fence_before = true,
                  .fence_after = true,
                  .fence_scope = Scope::kGpu})
                .races(),
            1u);
  // Another block of the same rank: .gpu does.
  EXPECT_TRUE(pass({.store_scope = Scope::kGpu,
                    .load_scope = Scope::kGpu,
                    .reader_rank = 0,
                    .reader_block = 1})
                  .checker->findings()
                  .empty());
  const History block = pass(
      {.store_scope = Scope::kCta, .load_scope = Scope::kCta, .reader_rank = 0, .reader_block = 1});
  ASSERT_EQ(block.races(), 2u);
  EXPECT_THAT(block.checker->findings()[1].note, testing::HasSubstr("in another block"));
  // Another warp of the same block: .cta does.
  EXPECT_TRUE(pass({.store_scope = Scope::kCta,
                    .load_scope = Scope::kCta,
                    .reader_rank = 0,
                    .reader_warp = 1})
                  .checker->findings()
                  .empty());
}

TEST(Order, ReleaseSequencesRunThroughRmwsOnly) {
  const Address data = History::memory(1, 0), flag = History::memory(1, 4096);
  for (const bool rmw : {true, false}) {
    History h(3);
    h.store(h.warp(0), data, 1);
    h.store(h.warp(0), flag, 2, Order::kRelease);
    if (rmw) {
      h.atomic(h.warp(2), flag, 3, Order::kRelaxed);
    } else {
      h.store(h.warp(2), flag, 3, Order::kRelaxed);
    }
    h.load(h.warp(1), flag, 4, Order::kAcquire);
    h.load(h.warp(1), data, 5);
    EXPECT_EQ(h.races() + h.relaxed(), rmw ? 0u : 1u);
  }
}

TEST(Order, ACounterCollectsTheReleasesOfAll) {
  History h(8);
  const Address counter = History::memory(0, 4096);
  for (int rank = 1; rank < 8; ++rank) {
    h.store(h.warp(rank), History::memory(rank), 1);
    h.atomic(h.warp(rank), counter, 2, Order::kRelease);
  }
  h.load(h.warp(0), counter, 3, Order::kAcquire);
  for (int rank = 1; rank < 8; ++rank) h.load(h.warp(0), History::memory(rank), 4);
  EXPECT_TRUE(h.checker->findings().empty());
  h.load(h.warp(1), History::memory(2), 5);
  EXPECT_EQ(h.races(), 1u) << "rank 1 acquired nothing";
}

TEST(Order, AReleaseDoesNotCoverWhatFollowsIt) {
  History h;
  const Address data = History::memory(1, 0), flag = History::memory(1, 4096);
  h.store(h.warp(0), flag, 1, Order::kRelease);
  h.store(h.warp(0), data, 2);
  h.load(h.warp(1), flag, 3, Order::kAcquire);
  h.load(h.warp(1), data, 4);
  EXPECT_EQ(h.races(), 1u);
}

TEST(Order, TransitiveThroughAThirdRank) {
  History h(3);
  const Address data = History::memory(2, 0);
  h.store(h.warp(0), data, 1);
  h.store(h.warp(0), History::memory(1, 64), 2, Order::kRelease);
  h.load(h.warp(1), History::memory(1, 64), 3, Order::kAcquire);
  h.store(h.warp(1), History::memory(2, 64), 4, Order::kRelease);
  h.load(h.warp(2), History::memory(2, 64), 5, Order::kAcquire);
  h.load(h.warp(2), data, 6);
  EXPECT_TRUE(h.checker->findings().empty());
}

TEST(Order, BarriersOrderTheWarpsOfABlock) {
  History h;
  h.store(h.warp(0, 0, 1), History::memory(0), 1);
  h.sync_block(0, 0);
  h.load(h.warp(0, 0, 3), History::memory(0), 2);
  EXPECT_TRUE(h.checker->findings().empty());
  h.load(h.warp(0, 1, 0), History::memory(0), 3);
  EXPECT_EQ(h.races(), 1u) << "the other block was not there";
}

TEST(Order, BarrierThenReleaseByOneWarpPublishesTheBlock) {
  History h;
  const Address flag = History::memory(1, 4096);
  for (uint32_t warp = 0; warp < 4; ++warp)
    h.store(h.warp(0, 0, warp), History::memory(1, warp * 4), 1);
  h.sync_block(0, 0);
  h.checker->fence(h.warp(0), Order::kAcqRel, Scope::kSys);
  h.store(h.warp(0), flag, 2, Order::kVolatile);
  h.load(h.warp(1), flag, 3, Order::kVolatile);
  h.checker->fence(h.warp(1), Order::kAcqRel, Scope::kSys);
  h.sync_block(1, 0);
  for (uint32_t warp = 0; warp < 4; ++warp)
    h.load(h.warp(1, 0, 3 - warp), History::memory(1, warp * 4), 4);
  EXPECT_TRUE(h.checker->findings().empty());
}

TEST(Order, NamedBarrierOfSomeWarps) {
  History h;
  const std::array<ActorId, 2> pair{h.warp(0, 0, 0), h.warp(0, 0, 1)};
  h.store(pair[0], History::memory(0), 1);
  h.store(h.warp(0, 0, 2), History::memory(0, 64), 1);
  h.checker->barrier(pair.data(), 2, &pair[1], 1);
  h.load(pair[1], History::memory(0), 2);
  EXPECT_TRUE(h.checker->findings().empty());
  h.load(pair[1], History::memory(0, 64), 3);
  EXPECT_EQ(h.races(), 1u) << "warp 2 did not arrive";
  h.store(pair[1], History::memory(0, 128), 4);
  h.load(pair[0], History::memory(0, 128), 5);
  EXPECT_EQ(h.races(), 2u) << "warp 0 arrived and did not wait";
}

TEST(Order, StreamsHostsAndEvents) {
  History h(1);
  const ActorId other = h.checker->add_stream(0);
  h.store(h.warp(0), History::memory(0), 1);
  h.finish(0);
  h.copy(h.streams[0], Access::kLoad, History::memory(0), 4, "cudaMemcpyAsync");
  EXPECT_TRUE(h.checker->findings().empty()) << "the stream is behind its grid";
  h.copy(other, Access::kLoad, History::memory(0), 4, "ncclAllGather");
  ASSERT_EQ(h.races(), 1u);
  EXPECT_EQ(h.checker->findings()[0].now.what, "ncclAllGather");
  h.checker->edge(h.streams[0], h.hosts[0]);
  h.checker->edge(h.hosts[0], other);
  h.copy(other, Access::kStore, History::memory(0), 4, "cudaMemsetAsync");
  EXPECT_EQ(h.races(), 1u) << "after a host synchronisation all is ordered";
  h.start(0);
  h.load(h.warp(0), History::memory(0), 2);
  EXPECT_EQ(h.races(), 2u) << "the other stream's store is not ordered before this grid";
}

TEST(Order, GridsOfOneStreamFollowEachOther) {
  History h(2, 4, 4);
  for (int round = 0; round < 50; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      for (uint32_t block = 0; block < 4; ++block)
        h.store(h.warp(rank, (block + static_cast<uint32_t>(round)) % 4),
                History::memory(rank, block * 4), 1);
    }
    for (int rank = 0; rank < 2; ++rank) h.finish(rank);
    for (int rank = 0; rank < 2; ++rank) h.start(rank);
  }
  EXPECT_TRUE(h.checker->findings().empty());
}

TEST(Order, StreamWordsSynchronise) {
  History h;
  const Address data = History::memory(1, 0), flag = History::memory(1, 4096);
  h.store(h.warp(0), data, 1);
  h.finish(0);
  RangeAccess word;
  word.actor = h.streams[0];
  word.access = Access::kStore;
  word.begin = flag;
  word.bytes = 4;
  word.what = "cuStreamWriteValue32";
  word.order = Order::kRelease;
  h.checker->range(word);
  h.load(h.warp(1), flag, 3, Order::kAcquire);
  h.load(h.warp(1), data, 4);
  EXPECT_TRUE(h.checker->findings().empty());
}

TEST(Order, EightRanksLsaBarrierEveryBlock) {
  // Every block tells its number to the same block of each peer, by release, and waits for all.
  constexpr int kRanks = 8;
  History h(kRanks, 4, 4);
  const auto flag = [](int at, int from, uint32_t block) {
    return History::memory(at, 65536 + static_cast<uint64_t>(from) * 1024 + block * 4);
  };
  for (int round = 0; round < 4; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (uint32_t block = 0; block < 4; ++block) {
        for (uint32_t warp = 0; warp < 4; ++warp) {
          const int peer = (rank + 1 + round) % kRanks;
          h.store(h.warp(rank, block, warp),
                  History::memory(peer, 512 * block + 128 * warp + static_cast<uint64_t>(rank) * 4),
                  1);
        }
        h.sync_block(rank, block);
        for (int peer = 0; peer < kRanks; ++peer)
          h.store(h.warp(rank, block), flag(peer, rank, block), 2, Order::kRelease);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (uint32_t block = 0; block < 4; ++block) {
        for (int peer = 0; peer < kRanks; ++peer)
          h.load(h.warp(rank, block), flag(rank, peer, block), 3, Order::kAcquire);
        h.sync_block(rank, block);
        for (uint32_t warp = 0; warp < 4; ++warp) {
          for (uint64_t from = 0; from < kRanks; ++from) {
            h.load(h.warp(rank, block, 3 - warp),
                   History::memory(rank, 512 * block + 128 * warp + from * 4), 4);
          }
        }
        h.sync_block(rank, block);
        for (int peer = 0; peer < kRanks; ++peer)
          h.store(h.warp(rank, block), flag(peer, rank, block), 5, Order::kRelease);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (uint32_t block = 0; block < 4; ++block) {
        for (int peer = 0; peer < kRanks; ++peer)
          h.load(h.warp(rank, block), flag(rank, peer, block), 6, Order::kAcquire);
        h.sync_block(rank, block);
      }
    }
  }
  EXPECT_TRUE(h.checker->findings().empty());
  h.load(h.warp(0, 0), History::memory(0, 512 * 3), 7);
  EXPECT_EQ(h.races(), 0u) << "block 3 of the peers was not heard by block 0, yet nothing was "
                              "written since its own barrier";
}

TEST(Order, SyncHashFollowsTheOrderNotTheAddresses) {
  const auto run = [](bool swapped, uint64_t shift) {
    auto checker = make_checker();
    std::vector<ActorId> streams, warps;
    for (int rank = 0; rank < 3; ++rank) {
      streams.push_back(checker->add_stream(rank));
      checker->allocated(rank, History::memory(rank, shift), 4096, true);
    }
    for (int rank = 0; rank < 3; ++rank) {
      const GridId grid =
          checker->begin_grid({rank, "k", 1, 1, streams[static_cast<size_t>(rank)]});
      warps.push_back(checker->begin_block(grid, 0, kSharedBase, 0));
    }
    const auto word = [&](size_t actor, Access access, uint64_t offset, Order order) {
      Address address[32] = {History::memory(0, shift + offset)};
      WarpAccess out;
      out.actor = warps[actor];
      out.access = access;
      out.order = order;
      out.mask = 1;
      out.address = address;
      checker->access(out);
    };
    for (const size_t from : {swapped ? size_t{2} : size_t{1}, swapped ? size_t{1} : size_t{2}}) {
      word(from, Access::kStore, from * 4, Order::kRelease);
      for (int spin = 0; spin < 3; ++spin) word(0, Access::kLoad, from * 4, Order::kAcquire);
    }
    return checker->sync_hash();
  };
  EXPECT_EQ(run(false, 0), run(false, 8192));
  EXPECT_NE(run(false, 0), run(true, 0));
  EXPECT_NE(run(false, 0), make_checker()->sync_hash());
}

}  // namespace
}  // namespace sculler::emu
