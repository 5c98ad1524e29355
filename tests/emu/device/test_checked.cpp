// Streams, events, values and collectives under the real checker: what is ordered is silent, what
// is not is a race.
#include "emu/check/checker.h"
#include "fixture.h"

namespace sculler::emu::test {
namespace {

class CheckedTest : public DeviceTest {
 protected:
  void start(int ranks, uint64_t seed) {
    machine.reset();
    completions.clear();
    checker = make_checker();
    MachineConfig config;
    config.engine.n_ranks = ranks;
    config.engine.limits.memory_bytes = uint64_t{64} << 20;
    config.engine.schedule = Schedule{ScheduleKind::kRandom, seed, 0};
    config.engine.observer = checker.get();
    machine = std::make_unique<Machine>(config);
    comms = communicator(ranks);
    for (int r = 0; r < ranks; ++r) {
      Address handle = 0;
      window[r] = window_memory(r, 8192);
      side[r] = stream(r);
      put<uint32_t>(r, window[r], std::vector<uint32_t>(2048, 0));
      ASSERT_EQ(machine
                    ->nccl_window_register({r}, comms[static_cast<size_t>(r)], window[r], 8192, 1,
                                           64, &handle)
                    .error,
                0);
    }
    machine->take_completions();
    machine->harness_join();
  }
  size_t races() const {
    return static_cast<size_t>(
        std::count_if(checker->findings().begin(), checker->findings().end(), [](const Finding& f) {
          return f.kind == Finding::Kind::kRace || f.kind == Finding::Kind::kRelaxedOrder;
        }));
  }
  void TearDown() override { machine.reset(); }

  std::unique_ptr<Observer> checker;
  std::vector<CommHandle> comms;
  Address window[2] = {};
  StreamHandle side[2] = {};
};

TEST_F(CheckedTest, AStreamValueOrdersTwoRanks) {
  for (const bool waits : {true, false}) {
    size_t racy = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      start(2, seed);
      const Address local = device(1, 64);
      StreamValue value;
      value.address = window[1] + 4096;
      value.value = 1;
      ASSERT_EQ(set32(0, window[1], 7, 16, side[0]), 0);
      value.stream = side[0];
      ASSERT_EQ(machine->stream_write_value({0}, value).error, 0);
      value.stream = side[1];
      if (waits) { ASSERT_EQ(machine->stream_wait_value({1}, value).error, 0); }
      ASSERT_EQ(copy(1, local, window[1], 64, side[1]), 0);
      EXPECT_EQ(drain(), Machine::Progress::kIdle);
      racy += races() > 0 ? 1 : 0;
    }
    EXPECT_EQ(racy, waits ? 0u : 10u);
  }
}

TEST_F(CheckedTest, ACollectiveOrdersTwoRanksAndItsAbsenceIsARace) {
  for (const bool meets : {true, false}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      start(2, seed);
      const Address local = device(1, 64);
      ASSERT_EQ(set32(0, window[1], 7, 16, side[0]), 0);
      for (int r = 0; meets && r < 2; ++r) {
        CollectiveRequest request;
        request.kind = Collective::kAllReduce;
        request.comm = comms[static_cast<size_t>(r)];
        request.send = request.recv = window[r] + 4096;
        request.count = 1;
        request.type = NcclType::kInt32;
        request.stream = side[r];
        ASSERT_EQ(machine->nccl_collective({r}, request).error, 0);
      }
      ASSERT_EQ(copy(1, local, window[1], 64, side[1]), 0);
      EXPECT_EQ(drain(), Machine::Progress::kIdle);
      EXPECT_EQ(races() > 0, !meets) << seed;
    }
  }
}

TEST_F(CheckedTest, EventsAndDefaultStreamsAreSilent) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    start(1, seed);
    const StreamHandle blocking = stream(0, 0);
    const EventHandle e = event(0);
    const Address a = device(0, 64);
    for (uint32_t round = 0; round < 3; ++round) {
      ASSERT_EQ(set32(0, a, round, 16, side[0]), 0);
      ASSERT_EQ(machine->event_record({0}, e, side[0]).error, 0);
      ASSERT_EQ(machine->stream_wait_event({0}, blocking, e).error, 0);
      ASSERT_EQ(set32(0, a, 10 + round, 16, blocking), 0);
      ASSERT_EQ(set32(0, a, 20 + round, 16, kStreamDefault), 0);
      ASSERT_EQ(machine->event_record({0}, e, kStreamDefault).error, 0);
      ASSERT_EQ(machine->stream_wait_event({0}, side[0], e).error, 0);
    }
    EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
    EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 22u);
    EXPECT_EQ(races(), 0u);
  }
}

// Padding and scratch travel with buffers; what counts is the kernel that reads them.
TEST_F(CheckedTest, ACopyMayCarryWhatNobodyWrote) {
  start(1, 1);
  const Address a = device(0, 64);
  const Address b = device(0, 64);
  ASSERT_EQ(copy(0, b, a, 64, side[0]), 0);
  drain();
  EXPECT_TRUE(checker->findings().empty());
}

}  // namespace
}  // namespace sculler::emu::test
