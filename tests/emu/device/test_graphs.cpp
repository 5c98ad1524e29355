#include "fixture.h"

namespace sculler::emu::test {
namespace {

class GraphTest : public DeviceTest {
 protected:
  GraphExecHandle instantiate(GraphHandle graph) {
    GraphExecHandle exec = 0;
    EXPECT_EQ(machine->graph_instantiate({0}, graph, &exec).error, 0);
    return exec;
  }
};

TEST_F(GraphTest, CaptureDoesNothingAndReplayDoesItEveryTime) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    make(1, ScheduleKind::kRandom, seed);
    const StreamHandle s = stream(0);
    const StreamHandle side = stream(0);
    const EventHandle fork = event(0);
    const EventHandle join = event(0);
    const Address a = device(0, 64);
    const Address b = device(0, 64);
    const Address c = device(0, 64);
    put<uint32_t>(0, a, std::vector<uint32_t>(16, 1));
    put<uint32_t>(0, c, std::vector<uint32_t>(16, 0));
    ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
    ASSERT_EQ(set32(0, a, 5, 16, s), 0);
    ASSERT_EQ(machine->event_record({0}, fork, s).error, 0);
    ASSERT_EQ(machine->stream_wait_event({0}, side, fork).error, 0);
    ASSERT_EQ(copy(0, b, a, 64, side), 0);
    ASSERT_EQ(machine->event_record({0}, join, side).error, 0);
    ASSERT_EQ(machine->stream_wait_event({0}, s, join).error, 0);
    ASSERT_EQ(copy(0, c, b, 64, s), 0);
    StreamInfo info;
    ASSERT_EQ(machine->stream_info({0}, side, &info).error, 0);
    EXPECT_EQ(info.capture, CaptureStatus::kActive);
    GraphHandle graph = 0;
    ASSERT_EQ(machine->capture_end({0}, s, &graph).error, 0);
    uint64_t nodes = 0;
    ASSERT_EQ(machine->graph_node_count({0}, graph, &nodes).error, 0);
    EXPECT_EQ(nodes, 3u);
    EXPECT_EQ(drain(), Machine::Progress::kIdle);
    EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 1u);
    const GraphExecHandle exec = instantiate(graph);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(set32(0, c, 9, 16, s), 0);
      ASSERT_EQ(machine->graph_launch({0}, exec, s).error, 0);
      EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
      EXPECT_EQ(get<uint32_t>(0, c, 16), std::vector<uint32_t>(16, 5));
    }
    EXPECT_EQ(recorder->races(), 0u);
  }
}

TEST_F(GraphTest, BranchesOfAGraphAreNotOrdered) {
  make(1);
  const StreamHandle s = stream(0);
  const StreamHandle side = stream(0);
  const EventHandle fork = event(0);
  const EventHandle join = event(0);
  const Address a = device(0, 64);
  ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
  ASSERT_EQ(machine->event_record({0}, fork, s).error, 0);
  ASSERT_EQ(machine->stream_wait_event({0}, side, fork).error, 0);
  ASSERT_EQ(set32(0, a, 1, 16, side), 0);
  ASSERT_EQ(set32(0, a, 2, 16, s), 0);
  ASSERT_EQ(machine->event_record({0}, join, side).error, 0);
  ASSERT_EQ(machine->stream_wait_event({0}, s, join).error, 0);
  GraphHandle graph = 0;
  // The last node of `side` is joined to the end of the origin stream by the wait alone.
  ASSERT_EQ(machine->capture_end({0}, s, &graph).error, 0);
  ASSERT_EQ(machine->graph_launch({0}, instantiate(graph), s).error, 0);
  EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
  EXPECT_EQ(recorder->races(), 1u);
}

TEST_F(GraphTest, UnjoinedWorkIsAnError) {
  make(1);
  const StreamHandle s = stream(0);
  const StreamHandle side = stream(0);
  const EventHandle fork = event(0);
  const Address a = device(0, 64);
  ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
  ASSERT_EQ(machine->event_record({0}, fork, s).error, 0);
  ASSERT_EQ(machine->stream_wait_event({0}, side, fork).error, 0);
  ASSERT_EQ(set32(0, a, 1, 16, side), 0);
  GraphHandle graph = 0;
  EXPECT_EQ(machine->capture_end({0}, s, &graph).error, kCudaStreamCaptureUnjoined);
  EXPECT_EQ(graph, 0u);
  ASSERT_EQ(set32(0, a, 1, 16, side), 0);  // the stream works again
  EXPECT_EQ(finish(machine->stream_synchronize({0}, side)), 0);
}

TEST_F(GraphTest, BlockingCallsSpoilTheCapture) {
  make(1);
  const StreamHandle s = stream(0);
  ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
  EXPECT_EQ(machine->stream_synchronize({0}, s).error, kCudaStreamCaptureUnsupported);
  const Address a = device(0, 64);
  EXPECT_EQ(set32(0, a, 1, 16, s), kCudaStreamCaptureInvalidated);
  GraphHandle graph = 0;
  EXPECT_EQ(machine->capture_end({0}, s, &graph).error, kCudaStreamCaptureInvalidated);
  EXPECT_EQ(machine->capture_begin({0}, kStreamLegacy, CaptureMode::kGlobal).error,
            kCudaStreamCaptureUnsupported);
  EXPECT_EQ(machine->capture_end({0}, s, &graph).error, kCudaInvalidValue);
}

TEST_F(GraphTest, LegacyWorkWouldJoinTheCaptureOfABlockingStream) {
  make(1);
  const StreamHandle s = stream(0, 0);
  const Address a = device(0, 64);
  ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
  EXPECT_EQ(set32(0, a, 1, 16, kStreamDefault), kCudaStreamCaptureImplicit);
}

TEST_F(GraphTest, CollectivesReplayOnAllRanks) {
  make(2);
  const auto comms = communicator(2);
  Address buffer[2];
  GraphExecHandle exec[2];
  StreamHandle s[2];
  for (int r = 0; r < 2; ++r) {
    buffer[r] = device(r, 64);
    s[r] = stream(r);
    ASSERT_EQ(machine->capture_begin({r}, s[r], CaptureMode::kGlobal).error, 0);
    CollectiveRequest request;
    request.kind = Collective::kAllReduce;
    request.comm = comms[static_cast<size_t>(r)];
    request.send = request.recv = buffer[r];
    request.count = 4;
    request.type = NcclType::kInt32;
    request.stream = s[r];
    ASSERT_EQ(machine->nccl_collective({r}, request).error, 0);
    GraphHandle graph = 0;
    ASSERT_EQ(machine->capture_end({r}, s[r], &graph).error, 0);
    ASSERT_EQ(machine->graph_instantiate({r}, graph, &exec[r]).error, 0);
    put<int32_t>(r, buffer[r], {1, 2, 3, 4});
  }
  for (int round = 1; round <= 2; ++round) {
    for (int r = 0; r < 2; ++r) ASSERT_EQ(machine->graph_launch({r}, exec[r], s[r]).error, 0);
    EXPECT_EQ(drain(), Machine::Progress::kIdle);
    for (int r = 0; r < 2; ++r) {
      const int f = 1 << round;
      EXPECT_EQ(get<int32_t>(r, buffer[r], 4), (std::vector<int32_t>{f, 2 * f, 3 * f, 4 * f}));
    }
  }
}

}  // namespace
}  // namespace sculler::emu::test
