#include "fixture.h"

namespace sculler::emu::test {
namespace {

TEST_F(DeviceTest, AStreamRunsInOrder) {
  for (const auto kind :
       {ScheduleKind::kRoundRobin, ScheduleKind::kRandom, ScheduleKind::kPriority}) {
    make(1, kind, 7);
    const StreamHandle s = stream(0);
    const Address a = device(0, 64);
    for (uint32_t value = 1; value <= 5; ++value) ASSERT_EQ(set32(0, a, value, 16, s), 0);
    EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
    EXPECT_EQ(get<uint32_t>(0, a, 16), std::vector<uint32_t>(16, 5));
    EXPECT_EQ(recorder->races(), 0u);
  }
}

TEST_F(DeviceTest, NothingHappensInsideACall) {
  make(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 4);
  put<uint32_t>(0, a, {9});
  ASSERT_EQ(set32(0, a, 1, 1, s), 0);
  EXPECT_EQ(machine->stream_query({0}, s).error, kCudaNotReady);
  drain();
  EXPECT_EQ(machine->stream_query({0}, s).error, kCudaSuccess);
  EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 1u);
}

TEST_F(DeviceTest, EventsOrderStreams) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    make(1, ScheduleKind::kRandom, seed);
    const StreamHandle first = stream(0);
    const StreamHandle second = stream(0);
    const EventHandle e = event(0);
    const Address a = device(0, 64);
    const Address b = device(0, 64);
    ASSERT_EQ(set32(0, a, 3, 16, first), 0);
    ASSERT_EQ(machine->event_record({0}, e, first).error, 0);
    ASSERT_EQ(machine->stream_wait_event({0}, second, e).error, 0);
    ASSERT_EQ(copy(0, b, a, 64, second), 0);
    EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
    EXPECT_EQ(get<uint32_t>(0, b, 16), std::vector<uint32_t>(16, 3));
    EXPECT_EQ(recorder->races(), 0u);
  }
}

TEST_F(DeviceTest, AWaitCoversTheRecordOnlyNotWhatCameAfter) {
  // The second memset comes after the record: the copy races with it, whatever the order in which
  // they ran.
  size_t racy = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    make(1, ScheduleKind::kRandom, seed);
    const StreamHandle first = stream(0);
    const StreamHandle second = stream(0);
    const EventHandle e = event(0);
    const Address a = device(0, 64);
    const Address b = device(0, 64);
    ASSERT_EQ(set32(0, a, 3, 16, first), 0);
    ASSERT_EQ(machine->event_record({0}, e, first).error, 0);
    ASSERT_EQ(set32(0, a, 4, 16, first), 0);
    ASSERT_EQ(machine->stream_wait_event({0}, second, e).error, 0);
    ASSERT_EQ(copy(0, b, a, 64, second), 0);
    EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
    racy += recorder->races() == 1 ? 1 : 0;
  }
  EXPECT_EQ(racy, 20u);
}

TEST_F(DeviceTest, UnorderedStreamsRace) {
  make(1);
  const Address a = device(0, 64);
  ASSERT_EQ(set32(0, a, 3, 16, stream(0)), 0);
  ASSERT_EQ(set32(0, a, 4, 16, stream(0)), 0);
  EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
  EXPECT_EQ(recorder->races(), 1u);
}

TEST_F(DeviceTest, TheHostOrdersStreamsBySynchronising) {
  make(1);
  const StreamHandle first = stream(0);
  const StreamHandle second = stream(0);
  const Address a = device(0, 64);
  ASSERT_EQ(set32(0, a, 3, 16, first), 0);
  EXPECT_EQ(finish(machine->stream_synchronize({0}, first)), 0);
  ASSERT_EQ(set32(0, a, 4, 16, second), 0);
  EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
  EXPECT_EQ(recorder->races(), 0u);
}

TEST_F(DeviceTest, WorkEnqueuedBeforeASynchronisationIsNotAfterIt) {
  // `second` gets its work before the host has seen the end of `first`, and starts only later.
  make(1);
  const StreamHandle first = stream(0);
  const StreamHandle second = stream(0);
  const Address a = device(0, 64);
  const Address flag = device(0, 4);
  put<uint32_t>(0, flag, {0});
  StreamValue wait;
  wait.address = flag;
  wait.value = 1;
  wait.stream = second;
  ASSERT_EQ(machine->stream_wait_value({0}, wait).error, 0);
  ASSERT_EQ(set32(0, a, 4, 16, second), 0);
  ASSERT_EQ(set32(0, a, 3, 16, first), 0);
  EXPECT_EQ(finish(machine->stream_synchronize({0}, first)), 0);
  // The harness raises the flag, outside of every order.
  const uint32_t one = 1;
  std::memcpy(reinterpret_cast<void*>(flag), &one, 4);
  EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
  EXPECT_EQ(recorder->races(), 1u);
}

TEST_F(DeviceTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    make(1, ScheduleKind::kRandom, seed);
    const StreamHandle blocking = stream(0, 0);
    const Address a = device(0, 64);
    ASSERT_EQ(set32(0, a, 1, 16, blocking), 0);
    ASSERT_EQ(set32(0, a, 2, 16, kStreamDefault), 0);
    ASSERT_EQ(set32(0, a, 3, 16, blocking), 0);
    ASSERT_EQ(set32(0, a, 4, 16, kStreamPerThread), 0);
    ASSERT_EQ(set32(0, a, 5, 16, kStreamLegacy), 0);
    EXPECT_EQ(finish(machine->stream_synchronize({0}, kStreamDefault)), 0);
    EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 5u);
    EXPECT_EQ(recorder->races(),
              1u);  // blocking and per-thread stream are not ordered against each other
  }
}

TEST_F(DeviceTest, NonBlockingStreamsDoNotWaitForLegacy) {
  make(1);
  const Address a = device(0, 64);
  ASSERT_EQ(set32(0, a, 1, 16, stream(0)), 0);
  ASSERT_EQ(set32(0, a, 2, 16, kStreamLegacy), 0);
  EXPECT_EQ(finish(machine->device_synchronize({0})), 0);
  EXPECT_EQ(recorder->races(), 1u);
}

TEST_F(DeviceTest, HostFunctionsHoldTheirStream) {
  make(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 4);
  ASSERT_EQ(set32(0, a, 1, 1, s), 0);
  ASSERT_EQ(machine->launch_host_function({0}, s, 0x1000, 42).error, 0);
  ASSERT_EQ(set32(0, a, 2, 1, s), 0);
  EXPECT_EQ(machine->run(1 << 20), Machine::Progress::kCompleted);
  const auto calls = machine->take_host_calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].function, 0x1000u);
  EXPECT_EQ(calls[0].argument, 42u);
  EXPECT_EQ(machine->run(1 << 20), Machine::Progress::kWaiting);
  EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 1u);
  machine->host_call_done(calls[0].id);
  EXPECT_EQ(drain(), Machine::Progress::kIdle);
  EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 2u);
}

TEST_F(DeviceTest, StreamValuesOrderTheRanks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    make(2, ScheduleKind::kRandom, seed);
    const auto comms = communicator(2);
    Address data[2], flag[2], handle = 0;
    for (int r = 0; r < 2; ++r) {
      data[r] = window_memory(r, 4096);
      flag[r] = window_memory(r, 4096);
      put<uint32_t>(r, flag[r], {0});
    }
    for (const Address* p : {data, flag}) {
      for (int r = 0; r < 2; ++r) {
        ASSERT_EQ(machine
                      ->nccl_window_register({r}, comms[static_cast<size_t>(r)], p[r], 4096, 1, 64,
                                             &handle)
                      .error,
                  0);
      }
    }
    machine->take_completions();
    const StreamHandle sender = stream(0);
    const StreamHandle receiver = stream(1);
    StreamValue value;
    value.value = 1;
    value.address = flag[1];
    value.stream = receiver;
    const Address local = device(1, 64);
    ASSERT_EQ(machine->stream_wait_value({1}, value).error, 0);
    ASSERT_EQ(copy(1, local, data[1], 64, receiver), 0);
    ASSERT_EQ(set32(0, data[1], 77, 16, sender), 0);
    value.stream = sender;
    ASSERT_EQ(machine->stream_write_value({0}, value).error, 0);
    EXPECT_EQ(finish(machine->stream_synchronize({1}, receiver)), 0);
    EXPECT_EQ(get<uint32_t>(1, local, 16), std::vector<uint32_t>(16, 77)) << fault();
    // Two hosts' own writes of the flags race with nothing; the flag itself is synchronisation.
    const Trace& trace = machine->trace();
    for (const TraceOp& op : trace.ops) {
      if (op.kind != OpKind::kWaitValue) continue;
      ASSERT_GE(op.n_dependencies, 1u);
      EXPECT_EQ(trace.ops[trace.dependencies[op.first_dependency + op.n_dependencies - 1]].kind,
                OpKind::kWriteValue);
    }
    size_t on_data = 0;
    for (const auto& touch : recorder->touches) on_data += touch.begin == data[1] ? 1 : 0;
    EXPECT_EQ(on_data, 2u);
  }
}

TEST_F(DeviceTest, WaitConditions) {
  make(1);
  const Address flag = device(0, 8);
  put<uint32_t>(0, flag, {0xfffffff0u, 0});
  const auto passes = [&](WaitCondition condition, uint64_t value) {
    StreamValue wait;
    wait.address = flag;
    wait.value = value;
    wait.condition = condition;
    wait.stream = stream(0);
    EXPECT_EQ(machine->stream_wait_value({0}, wait).error, 0);
    drain();
    return machine->stream_query({0}, wait.stream).error == 0;
  };
  EXPECT_TRUE(passes(WaitCondition::kGeq, 0xffffffe0u));
  EXPECT_FALSE(passes(WaitCondition::kGeq, 5));  // cyclic: -16 is before 5
  EXPECT_TRUE(passes(WaitCondition::kEq, 0xfffffff0u));
  EXPECT_FALSE(passes(WaitCondition::kEq, 0));
  EXPECT_TRUE(passes(WaitCondition::kAnd, 0x10));
  EXPECT_FALSE(passes(WaitCondition::kAnd, 0x0f));
  EXPECT_TRUE(passes(WaitCondition::kNor, 0x03));
  EXPECT_FALSE(passes(WaitCondition::kNor, 0x0f));
}

TEST_F(DeviceTest, HandlesOfOtherRanksAndNonsenseAreRefused) {
  make(2);
  const StreamHandle s = stream(0);
  const EventHandle e = event(0);
  EXPECT_EQ(machine->stream_synchronize({1}, s).error, kCudaInvalidResourceHandle);
  EXPECT_EQ(machine->event_record({1}, e, kStreamDefault).error, kCudaInvalidResourceHandle);
  EXPECT_EQ(machine->stream_query({0}, 0xdeadbeef).error, kCudaInvalidResourceHandle);
  EXPECT_FALSE(machine->explain(0).empty());
  EXPECT_EQ(machine->stream_destroy({0}, s).error, 0);
  EXPECT_EQ(machine->stream_query({0}, s).error, kCudaInvalidResourceHandle);
  EXPECT_EQ(machine->stream_destroy({0}, kStreamLegacy).error, kCudaInvalidResourceHandle);
}

TEST_F(DeviceTest, ElapsedTimeIsVirtualAndGrowsWithTheWork) {
  make(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 24 << 20);
  const auto measure = [&](uint64_t bytes) {
    const EventHandle begin = event(0);
    const EventHandle end = event(0);
    EXPECT_EQ(machine->event_record({0}, begin, s).error, 0);
    EXPECT_EQ(copy(0, a + (16 << 20), a, bytes, s), 0);
    EXPECT_EQ(machine->event_record({0}, end, s).error, 0);
    float ms = 0;
    EXPECT_EQ(machine->event_elapsed_ms({0}, begin, end, &ms).error, kCudaNotReady);
    drain();
    EXPECT_EQ(machine->event_elapsed_ms({0}, begin, end, &ms).error, 0);
    return ms;
  };
  EXPECT_GT(measure(8 << 20), 2 * measure(1 << 18));
}

TEST_F(DeviceTest, OneSeedOneOrder) {
  const auto order = [&](uint64_t seed) {
    make(1, ScheduleKind::kRandom, seed);
    called.clear();
    for (uint64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(machine->launch_host_function({0}, stream(0), 0, i).error, 0);
    }
    drain();
    return called;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_EQ(order(5).size(), 12u);
  EXPECT_NE(order(5), order(6));
}

TEST_F(DeviceTest, ADelayedRankGoesLast) {
  make(2, ScheduleKind::kDelayRank);
  ASSERT_EQ(machine->launch_host_function({0}, stream(0), 0, 0).error, 0);
  for (uint64_t i = 1; i <= 3; ++i)
    ASSERT_EQ(machine->launch_host_function({1}, stream(1), 0, i).error, 0);
  drain();
  ASSERT_EQ(called.size(), 4u);
  EXPECT_EQ(called.back(), 0u);
}

}  // namespace
}  // namespace sculler::emu::test
