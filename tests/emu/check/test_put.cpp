// Puts of a network: what a signal, a counter and the consumer index say, and what they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emu/check/report.h"
#include "history.h"

namespace sculler::emu {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 64;

// Rank 0 puts from its memory to rank 1's; signals, counters and indices lie where they would.
struct Puts : History {
  explicit Puts(CheckerConfig config = {}) : History(2, 2, 4, std::move(config)) {}
  static constexpr uint32_t kQueue = 1;
  static Address source(uint64_t k = 0) { return memory(0, k * kBytes); }
  static Address arrives(uint64_t k = 0) { return memory(1, 4096 + k * kBytes); }
  static Address signal() { return memory(1, 65536); }
  static Address counter() { return memory(0, 65536); }
  static Address consumed() { return memory(0, 69632); }

  PutId post(uint32_t line, const PutTarget& target = {}, uint32_t queue = kQueue, ActorId by = 0,
             bool fence = true) {
    if (by == 0) by = warp(0);
    if (fence) checker->fence(by, Order::kRelease, Scope::kSys);
    const PutId put = checker->put_post(by, queue, {kFunction, line});
    checker->put_begin(put, target);
    return put;
  }
  void arrive(PutId put, uint64_t k = 0) {
    checker->put_access(put, Access::kLoad, source(k), kBytes);
    checker->put_access(put, Access::kStore, arrives(k), kBytes);
  }
  void wait(Address word, uint32_t line, ActorId by) {
    touch(by, Access::kLoad, word, line, Order::kAcquire, Scope::kSys, 1, 8);
  }
  [[nodiscard]] ReportedFinding first() const {
    return report(checker->findings().at(0), [](CodeRef code) {
      return Location{"/src/ring.cu", code.instruction, 0, "ring", "", {}};
    });
  }
};

TEST(Put, ASignalCarriesThePayloadsBeforeIt) {
  Puts h;
  h.store(h.warp(0), Puts::source(), 1);
  const PutId silent = h.post(2), told = h.post(3, {.signal = Puts::signal()});
  h.arrive(told, 1);
  h.arrive(silent);
  h.checker->put_tell(told, PutWord::kSignal, Puts::signal());
  h.wait(Puts::signal(), 4, h.warp(1));
  h.load(h.warp(1), Puts::arrives(0), 5);
  h.load(h.warp(1), Puts::arrives(1), 6);
  EXPECT_TRUE(h.checker->findings().empty()) << h.first().text;
}

TEST(Put, ASignalOfAnotherQueueCarriesNothingOfThisOne) {
  Puts h;
  const PutId put = h.post(2), other = h.post(3, {.signal = Puts::signal()}, 2);
  h.arrive(put);
  h.checker->put_tell(other, PutWord::kSignal, Puts::signal());
  h.wait(Puts::signal(), 4, h.warp(1));
  h.load(h.warp(1), Puts::arrives(), 5);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_EQ(h.first().rank, 1);
  EXPECT_EQ(h.first().now.line, 5u);
  EXPECT_EQ(h.first().before.line, 2u);
  EXPECT_THAT(h.first().text, HasSubstr("the put carries no signal"));
}

TEST(Put, ASignalBeforeItsPayloadWouldBeOne) {
  Puts h;
  const PutId first = h.post(2, {.signal = Puts::signal()});
  h.arrive(first);
  h.checker->put_tell(first, PutWord::kSignal, Puts::signal());
  h.wait(Puts::signal(), 4, h.warp(1));
  const PutId second = h.post(3, {.signal = Puts::signal()});
  h.load(h.warp(1), Puts::arrives(1), 5);  // what the second will bring
  h.arrive(second, 1);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_EQ(h.first().rank, 0);
  EXPECT_THAT(h.first().text,
              HasSubstr("the last look at the put's signal saw 1 additions, all of earlier puts, "
                        "at ring.cu:4"));
  EXPECT_THAT(h.first().advice, HasSubstr("a shadow starts at 0"));
}

TEST(Put, NobodyWaits) {
  Puts h;
  const PutId put = h.post(2, {.signal = Puts::signal()});
  h.arrive(put);
  h.load(h.warp(1), Puts::arrives(), 5);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_THAT(h.first().text, HasSubstr("nobody waits for the put's signal"));
  EXPECT_THAT(h.first().text, HasSubstr("no wait for a signal of the put lies between them"));
}

TEST(Put, TheConsumerIndexFreesTheSourceAndSaysNothingOfTheArrival) {
  Puts h;
  const PutId put = h.post(2);
  h.arrive(put);
  h.checker->put_tell(put, PutWord::kConsumed, Puts::consumed());
  h.touch(h.warp(0), Access::kLoad, Puts::consumed(), 3, Order::kAcquire);
  h.store(h.warp(0), Puts::source(), 4);
  EXPECT_EQ(h.races(), 0u);
  h.checker->fence(h.warp(0), Order::kRelease, Scope::kSys);
  h.store(h.warp(0), History::memory(1, 0), 5, Order::kRelease);  // "it is there"
  h.load(h.warp(1), History::memory(1, 0), 6, Order::kAcquire);
  h.load(h.warp(1), Puts::arrives(), 7);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_THAT(h.first().text, HasSubstr("not that its data have arrived"));
}

TEST(Put, ACounterIsOfItsOwnPuts) {
  Puts h;
  const PutId plain = h.post(2), counted = h.post(3, {.counter = Puts::counter()});
  h.arrive(plain, 0);
  h.arrive(counted, 1);
  h.checker->put_tell(counted, PutWord::kCounter, Puts::counter());
  h.wait(Puts::counter(), 4, h.warp(0));
  h.store(h.warp(0), Puts::source(1), 5);
  EXPECT_EQ(h.races(), 0u);
  h.store(h.warp(0), Puts::source(0), 6);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_THAT(h.first().text, HasSubstr("no flush and no counter says that the put has read"));
  EXPECT_THAT(h.first().advice, HasSubstr("ncclGin_CounterInc"));
}

TEST(Put, FlushCoversCountedPutsToo) {
  Puts h;
  const PutId counted = h.post(2, {.counter = Puts::counter()}), plain = h.post(3);
  h.arrive(counted, 0);
  h.arrive(plain, 1);
  h.checker->put_tell(plain, PutWord::kConsumed, Puts::consumed());
  h.touch(h.warp(0), Access::kLoad, Puts::consumed(), 4, Order::kAcquire);
  h.store(h.warp(0), Puts::source(0), 5);
  h.store(h.warp(0), Puts::source(1), 6);
  EXPECT_EQ(h.races(), 0u);
}

TEST(Put, BeginsBehindWhatItsWarpReleased) {
  for (const bool meets : {true, false}) {
    Puts h;
    h.store(h.warp(0, 0, 1), Puts::source(), 1);
    if (meets) h.sync_block(0, 0);
    const PutId put = h.post(2, {.signal = Puts::signal()});
    h.arrive(put);
    EXPECT_EQ(h.races(), meets ? 0u : 1u);
  }
  Puts h;
  h.store(h.warp(0), Puts::source(), 1);
  h.arrive(h.post(2, {}, Puts::kQueue, 0, false));
  EXPECT_EQ(h.races() + h.relaxed(), 1u) << "no fence: nothing was released";
}

TEST(Put, PayloadsAreNotOrderedWithEachOther) {
  Puts h;
  const PutId first = h.post(2), second = h.post(3, {.signal = Puts::signal()});
  h.checker->put_access(first, Access::kStore, Puts::arrives(), kBytes);
  h.checker->put_access(second, Access::kStore, Puts::arrives(), kBytes);
  ASSERT_EQ(h.races(), 1u);
  EXPECT_THAT(h.first().text, HasSubstr("puts are not ordered with each other"));
}

TEST(Put, AReplyOrdersTheNextPut) {
  for (const bool waits : {true, false}) {
    Puts h;
    const PutId there = h.post(2, {.signal = Puts::signal()});
    h.arrive(there);
    h.checker->put_tell(there, PutWord::kSignal, Puts::signal());
    h.wait(Puts::signal(), 3, h.warp(1));
    h.load(h.warp(1), Puts::arrives(), 4);
    const PutId back = h.post(5, {.signal = Puts::counter()}, 2, h.warp(1));
    h.checker->put_tell(back, PutWord::kSignal, Puts::counter());
    if (waits) h.wait(Puts::counter(), 6, h.warp(0));
    h.arrive(h.post(7, {.signal = Puts::signal()}));
    EXPECT_EQ(h.races(), waits ? 0u : 2u) << "the read, and the payload before";
  }
}

TEST(Put, AResetBesideAnAdditionIsNamed) {
  CheckerConfig config;
  config.describe = [](Address address) {
    return address >= Puts::signal() && address < Puts::signal() + 8
               ? std::string("GIN signal 0 of context 0 of rank 1")
               : std::string("memory");
  };
  Puts h(config);
  const PutId put = h.post(2, {.signal = Puts::signal()});
  h.store(h.warp(1), Puts::signal(), 3);
  h.checker->put_tell(put, PutWord::kSignal, Puts::signal());
  ASSERT_EQ(h.races(), 1u);
  EXPECT_THAT(h.first().text, HasSubstr("by a put's signal or counter"));
  EXPECT_THAT(h.first().text, HasSubstr("GIN signal 0 of context 0 of rank 1"));
  EXPECT_THAT(h.first().advice, HasSubstr("Reset a signal or counter only where nobody waits"));
}

}  // namespace
}  // namespace sculler::emu
