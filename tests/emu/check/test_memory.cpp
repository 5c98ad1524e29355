// Which bytes conflict: granularity, vectors, atomics, shared memory, initialisation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "history.h"

namespace sculler::emu {
namespace {

TEST(Bytes, RowsOfOddLengthBySeveralWarps) {
  // One bf16 row of 63 elements a warp: rows meet within 4-byte words.
  History h(1, 1, 4);
  constexpr uint64_t kRow = 63 * 2;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t warp = 0; warp < 4; ++warp) {
      h.touch(h.warp(0, 0, warp), Access::kStore, History::memory(0, warp * kRow), 1, Order::kWeak,
              Scope::kSys, 32, 2);
      h.touch(h.warp(0, 0, warp), Access::kStore, History::memory(0, warp * kRow + 64), 2,
              Order::kWeak, Scope::kSys, 31, 2);
    }
  }
  EXPECT_TRUE(h.checker->findings().empty());
  h.touch(h.warp(0, 0, 1), Access::kStore, History::memory(0, kRow - 2), 3, Order::kWeak,
          Scope::kSys, 1, 2);
  ASSERT_EQ(h.races(), 1u) << "one element into the neighbour's row";
  EXPECT_EQ(h.checker->findings()[0].address, History::memory(0, kRow - 2));
}

TEST(Bytes, SingleBytesOfOneWord) {
  History h(1, 1, 4);
  for (uint32_t warp = 0; warp < 4; ++warp) {
    h.touch(h.warp(0, 0, warp), Access::kStore, History::memory(0, warp), 1, Order::kWeak,
            Scope::kSys, 1, 1);
  }
  EXPECT_EQ(h.races(), 0u);
  h.load(h.warp(0, 0, 0), History::memory(0), 2);
  EXPECT_EQ(h.races(), 1u);
  EXPECT_EQ(h.checker->findings()[0].count, 3u) << "three of the four bytes are others'";
}

TEST(Bytes, ManyReadersThenAWrite) {
  History h(2, 4, 4);
  for (int rank = 0; rank < 2; ++rank) {
    for (uint32_t block = 0; block < 4; ++block) {
      for (uint32_t warp = 0; warp < 4; ++warp) {
        h.touch(h.warp(rank, block, warp), Access::kLoad, History::memory(0), 1, Order::kWeak,
                Scope::kSys, 32, 16);
      }
    }
  }
  EXPECT_TRUE(h.checker->findings().empty()) << "readers do not conflict";
  h.sync_block(0, 0);
  h.store(h.warp(0, 0, 1), History::memory(0), 2);
  ASSERT_EQ(h.races(), 2u) << "with readers of the own and of the other rank, folded";
  EXPECT_EQ(h.checker->findings()[0].count + h.checker->findings()[1].count, 28u)
      << "all but the four warps behind the same barrier";
}

TEST(Bytes, AReaderBeforeAWriterIsNotForgotten) {
  // Two ordered readers and one that is not: the write must meet the third.
  History h(1, 2, 4);
  h.load(h.warp(0, 1, 0), History::memory(0), 1);
  h.load(h.warp(0, 0, 0), History::memory(0), 2);
  h.sync_block(0, 0);
  h.load(h.warp(0, 0, 1), History::memory(0), 3);
  h.store(h.warp(0, 0, 1), History::memory(0), 4);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_EQ(h.checker->findings()[0].before.block, 1);
}

TEST(Bytes, AtomicsDoNotRaceWithEachOther) {
  History h;
  const Address word = History::memory(1, 128);
  for (int rank = 0; rank < 2; ++rank) {
    h.atomic(h.warp(rank), word, 1, Order::kRelaxed);
    h.load(h.warp(rank), word, 2, Order::kVolatile);
    h.store(h.warp(rank), word, 3, Order::kVolatile);
  }
  EXPECT_TRUE(h.checker->findings().empty());
  h.load(h.warp(0, 1), word, 4);
  EXPECT_EQ(h.races(), 1u) << "a weak load of a word that others write atomically";
}

TEST(Bytes, WideAtomicsAndNarrowOnes) {
  History h;
  const Address word = History::memory(1, 128);
  h.store(h.warp(0), History::memory(1, 0), 1);
  h.touch(h.warp(0), Access::kStore, word, 2, Order::kRelease, Scope::kSys, 1, 16);
  h.load(h.warp(1), word + 12, 3, Order::kAcquire);
  h.load(h.warp(1), History::memory(1, 0), 4);
  EXPECT_TRUE(h.checker->findings().empty())
      << "the last word of a 16-byte store carries its release";
}

TEST(Bytes, SixteenByteFlaggedLines) {
  // Data and flag in one volatile vector a lane, as low-latency protocols do.
  History h;
  h.touch(h.warp(0), Access::kStore, History::memory(1), 1, Order::kVolatile, Scope::kSys, 32, 16);
  h.touch(h.warp(1), Access::kLoad, History::memory(1), 2, Order::kVolatile, Scope::kSys, 32, 16);
  h.touch(h.warp(0), Access::kStore, History::memory(1), 1, Order::kVolatile, Scope::kSys, 32, 16);
  EXPECT_TRUE(h.checker->findings().empty());
}

TEST(Bytes, AFailedCompareAndSwapWritesNothing) {
  History h(1, 1, 2);
  const Address word = History::memory(0, 64);
  Address address[32] = {word};
  WarpAccess cas;
  cas.actor = h.warp(0);
  cas.access = Access::kAtomic;
  cas.order = Order::kRelaxed;
  cas.mask = 1;
  cas.wrote = 0;
  cas.address = address;
  cas.code = {1, 1};
  h.checker->access(cas);
  h.load(h.warp(0, 0, 1), word, 2);
  EXPECT_TRUE(h.checker->findings().empty());
  cas.wrote = 1;
  h.checker->access(cas);
  EXPECT_EQ(h.races(), 1u);
}

TEST(Bytes, SharedMemoryOfABlock) {
  History h(1, 2, 4);
  const auto shared = [&](ActorId actor, Access access, uint64_t offset, uint32_t line) {
    h.touch(actor, access, kSharedBase + offset, line, Order::kWeak, Scope::kCta, 32, 4,
            MemorySpace::kShared);
  };
  shared(h.warp(0, 0, 0), Access::kStore, 128, 1);
  shared(h.warp(0, 1, 0), Access::kStore, 128, 1);
  EXPECT_TRUE(h.checker->findings().empty()) << "each block has its own";
  shared(h.warp(0, 0, 1), Access::kLoad, 128, 2);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_EQ(h.checker->findings()[0].place, "shared memory of block 0, offset 128");
  EXPECT_EQ(h.checker->findings()[0].count, 2u);
  h.sync_block(0, 1);
  shared(h.warp(0, 1, 1), Access::kLoad, 128, 3);
  EXPECT_EQ(h.checker->findings().size(), 1u);
}

TEST(Initialisation, OfGlobalAndSharedMemory) {
  History h(1, 1, 2);
  h.checker->allocated(0, History::memory(0, 2 << 20), 8192, false);
  const Address fresh = History::memory(0, 2 << 20);
  h.copy(h.streams[0], Access::kLoad, fresh + 2048, 64, "cudaMemcpyAsync");
  EXPECT_TRUE(h.checker->findings().empty()) << "a copy may carry what nobody wrote";
  h.store(h.warp(0), fresh, 1);
  h.load(h.warp(0), fresh, 2);
  EXPECT_TRUE(h.checker->findings().empty());
  h.touch(h.warp(0), Access::kLoad, fresh, 3, Order::kWeak, Scope::kSys, 32, 4);
  ASSERT_EQ(h.count(Finding::Kind::kUninitialised), 1u);
  EXPECT_EQ(h.checker->findings()[0].address, fresh + 4) << "the first byte that nobody wrote";
  h.copy(h.streams[0], Access::kStore, fresh + 4096, 4096, "cudaMemsetAsync");
  h.finish(0);
  h.start(0);
  h.touch(h.warp(0), Access::kLoad, fresh + 8064, 4, Order::kWeak, Scope::kSys, 32, 4);
  EXPECT_EQ(h.count(Finding::Kind::kUninitialised), 1u);
  h.touch(h.warp(0), Access::kLoad, kSharedBase, 5, Order::kWeak, Scope::kCta, 1, 4,
          MemorySpace::kShared);
  EXPECT_EQ(h.count(Finding::Kind::kUninitialised), 2u);
  h.atomic(h.warp(0), fresh + 512, 6, Order::kRelaxed);
  EXPECT_EQ(h.count(Finding::Kind::kUninitialised), 3u) << "an atomic reads";
}

TEST(Initialisation, FreedMemoryIsForgotten) {
  History h(2, 1, 1);
  const Address again = History::memory(0, 4 << 20);
  h.checker->allocated(0, again, 10000, true);
  h.touch(h.warp(0), Access::kStore, again, 1, Order::kWeak, Scope::kSys, 32, 4);
  h.checker->freed(again, 10000);
  h.checker->allocated(0, again, 10000, false);
  h.touch(h.warp(1), Access::kStore, again, 2, Order::kWeak, Scope::kSys, 32, 4);
  EXPECT_EQ(h.races(), 0u) << "what the memory was before does not count";
  h.touch(h.warp(1), Access::kLoad, again + 8192, 3);
  EXPECT_EQ(h.count(Finding::Kind::kUninitialised), 1u);
}

TEST(LastWriter, IsKnownToTheByte) {
  History h(2, 1, 2);
  const auto* written = dynamic_cast<const WriteHistory*>(h.checker.get());
  ASSERT_NE(written, nullptr);
  Finding::Side writer;
  EXPECT_FALSE(written->last_writer(History::memory(0), &writer)) << "nobody has";
  h.touch(h.warp(0, 0, 0), Access::kStore, History::memory(0), 7, Order::kWeak, Scope::kSys, 32, 2);
  h.touch(h.warp(1, 0, 1), Access::kStore, History::memory(0, 6), 9, Order::kWeak, Scope::kSys, 1,
          2);
  ASSERT_TRUE(written->last_writer(History::memory(0, 5), &writer));
  EXPECT_EQ(writer.rank, 0);
  EXPECT_EQ(writer.code.instruction, 7u);
  for (const uint64_t offset : {6u, 7u}) {
    ASSERT_TRUE(written->last_writer(History::memory(0, offset), &writer));
    EXPECT_EQ(writer.rank, 1);
    EXPECT_EQ(writer.block, 0);
    EXPECT_EQ(writer.warp, 1);
    EXPECT_EQ(writer.code.instruction, 9u);
  }
  EXPECT_TRUE(written->last_writer(History::memory(0, 63), &writer));
  EXPECT_FALSE(written->last_writer(History::memory(0, 64), &writer));
  EXPECT_FALSE(written->last_writer(0x1000, &writer));
  // A reader is none, a copy is one, and what is reset has none.
  h.load(h.warp(0), History::memory(0, 128), 3);
  EXPECT_FALSE(written->last_writer(History::memory(0, 128), &writer));
  h.copy(h.streams[1], Access::kStore, History::memory(0, 128), 64, "cudaMemcpyAsync");
  ASSERT_TRUE(written->last_writer(History::memory(0, 130), &writer));
  EXPECT_EQ(writer.what, "cudaMemcpyAsync");
  EXPECT_EQ(writer.rank, 1);
  h.checker->allocated(0, History::memory(0), 1 << 20, false);
  EXPECT_FALSE(written->last_writer(History::memory(0, 5), &writer));
}

TEST(Findings, FoldAndStopAtTheLimit) {
  History h(
      2, 1, 1,
      {.races = true, .init = true, .max_findings = 5, .collect_records = 1 << 20, .describe = {}});
  for (uint32_t line = 0; line < 20; ++line) {
    h.store(h.warp(0), History::memory(0, line * 4), 100);
    h.store(h.warp(1), History::memory(0, line * 4), 200);
  }
  EXPECT_EQ(h.checker->findings().size(), 1u);
  EXPECT_EQ(h.checker->findings()[0].count, 20u);
  for (uint32_t line = 0; line < 20; ++line)
    h.load(h.warp(0), History::memory(0, line * 4), 300 + line);
  EXPECT_EQ(h.checker->findings().size(), 5u);
  Finding bounds;
  bounds.kind = Finding::Kind::kBounds;
  h.checker->finding(bounds);
  EXPECT_EQ(h.checker->findings().size(), 5u);
}

TEST(Findings, OffMeansOff) {
  History h(2, 1, 1,
            {.races = false,
             .init = false,
             .max_findings = 5,
             .collect_records = 1 << 20,
             .describe = {}});
  h.checker->allocated(0, History::memory(0, 4 << 20), 4096, false);
  h.store(h.warp(0), History::memory(0), 1);
  h.load(h.warp(1), History::memory(0), 2);
  h.load(h.warp(1), History::memory(0, 4 << 20), 3);
  EXPECT_TRUE(h.checker->findings().empty());
}

// Against a slow checker that keeps one full clock a warp and every access a byte: the same pairs
// of places, with accesses of all sizes, barriers and release/acquire, and with collections of the
// records in between.
class Reference {
 public:
  explicit Reference(size_t n) : clocks_(n, std::vector<uint32_t>(n, 0)) {
    for (size_t i = 0; i < n; ++i) clocks_[i][i] = 1;
  }
  void access(size_t who, uint64_t begin, uint64_t bytes, bool write) {
    for (uint64_t at = begin; at < begin + bytes; ++at) {
      for (const Past& past : bytes_[at]) {
        if (past.who != who && (past.write || write) && clocks_[who][past.who] < past.count)
          racy_.insert({at, who});
      }
      if (write) bytes_[at].clear();
      bytes_[at].push_back({who, clocks_[who][who], write});
    }
  }
  void barrier(const std::vector<size_t>& all) {
    std::vector<uint32_t> top(clocks_.size(), 0);
    for (const size_t who : all) join(top, clocks_[who]);
    for (const size_t who : all) {
      clocks_[who] = top;
      ++clocks_[who][who];
    }
  }
  void release(size_t who, uint64_t flag) {
    flags_[flag] = clocks_[who];
    ++clocks_[who][who];
  }
  void acquire(size_t who, uint64_t flag) {
    if (flags_.count(flag) != 0) join(clocks_[who], flags_[flag]);
  }
  [[nodiscard]] size_t racy() const { return racy_.size(); }

 private:
  struct Past {
    size_t who;
    uint32_t count;
    bool write;
  };
  static void join(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
  }
  std::vector<std::vector<uint32_t>> clocks_;
  std::map<uint64_t, std::vector<Past>> bytes_;
  std::map<uint64_t, std::vector<uint32_t>> flags_;
  std::set<std::pair<uint64_t, size_t>> racy_;
};

TEST(Reference, RandomHistoriesAgree) {
  size_t with_races = 0, without = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](uint32_t n) { return random() % n; };
    History h(2, 2, 2,
              {.races = true,
               .init = true,
               .max_findings = 100000,
               .collect_records = 20,
               .describe = {}});
    Reference reference(8);
    const bool tidy =
        seed % 2 == 0;  // every access between an acquire and a release of one lock: few races
    size_t found = 0, known = 0;
    for (int step = 0; step < 120; ++step) {
      const uint32_t who = draw(8);
      const ActorId actor = h.warp(static_cast<int>(who / 4), who / 2 % 2, who % 2);
      const Address flag = History::memory(0, 65536 + (tidy ? 0 : draw(3) * 4));
      const uint32_t what = draw(tidy ? 6 : 10);
      if (what == 0) {
        const uint32_t first = who / 2 * 2;
        h.sync_block(static_cast<int>(who / 4), who / 2 % 2);
        reference.barrier({first, first + 1});
        continue;
      }
      if (what >= 8 || tidy) {
        h.load(actor, flag, 1000, Order::kAcquire);
        reference.acquire(who, flag);
      }
      if (what < 8) {
        static constexpr uint8_t kWidths[] = {1, 2, 4, 8, 16};
        const uint8_t width = kWidths[draw(5)];
        const uint32_t lanes = 1u << draw(6);
        const uint64_t begin = draw(64) * width;
        const bool write = draw(3) == 0;
        h.touch(actor, write ? Access::kStore : Access::kLoad, History::memory(0, begin),
                static_cast<uint32_t>(step), Order::kWeak, Scope::kSys, lanes, width);
        reference.access(who, History::memory(0, begin), uint64_t{lanes} * width, write);
      }
      if (what >= 8 || tidy) {
        h.store(actor, flag, 1001, Order::kRelease);
        reference.release(who, flag);
      }
      // After the first race the two forget differently; up to it they must agree step by step.
      found = h.races() + h.relaxed();
      known = reference.racy();
      ASSERT_EQ(found != 0, known != 0) << "seed " << seed << " step " << step;
      if (known != 0) break;
    }
    (known != 0 ? with_races : without) += 1;
  }
  EXPECT_GT(with_races, 150u);
  EXPECT_GT(without, 100u);
}

}  // namespace
}  // namespace sculler::emu
