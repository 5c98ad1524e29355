#include "fixture.h"

namespace sculler::emu::test {
namespace {

TEST_F(DeviceTest, PageableCopiesCarryTheirBytes) {
  make(1);
  const Address a = device(0, 64);
  CopyRequest to;
  to.destination = a;
  to.width = 4;
  to.host_source = std::vector<uint8_t>{1, 2, 3, 4};
  to.blocking = true;
  EXPECT_EQ(finish(machine->copy({0}, to)), 0);
  CopyRequest back;
  back.source = a + 1;
  back.width = 2;
  back.host_destination = true;
  const Outcome outcome = machine->copy({0}, back);
  ASSERT_TRUE(outcome.pending());
  EXPECT_TRUE(machine->blocked(0));
  EXPECT_EQ(finish(outcome), 0);
  EXPECT_EQ(completions.back().data, (std::vector<uint8_t>{2, 3}));
  EXPECT_FALSE(machine->blocked(0));
}

TEST_F(DeviceTest, TwoDimensionalCopies) {
  make(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 64);
  const Address b = device(0, 64);
  std::vector<uint8_t> pattern(64);
  for (size_t i = 0; i < 64; ++i) pattern[i] = static_cast<uint8_t>(i);
  put<uint8_t>(0, a, pattern);
  put<uint8_t>(0, b, std::vector<uint8_t>(64, 255));
  CopyRequest request;
  request.source = a + 8;
  request.source_pitch = 16;
  request.destination = b;
  request.destination_pitch = 4;
  request.width = 3;
  request.height = 3;
  request.stream = s;
  ASSERT_EQ(machine->copy({0}, request).error, 0);
  drain();
  EXPECT_EQ(get<uint8_t>(0, b, 12),
            (std::vector<uint8_t>{8, 9, 10, 255, 24, 25, 26, 255, 40, 41, 42, 255}));
  request.height = 5;  // the last row ends behind the allocation
  EXPECT_EQ(machine->copy({0}, request).error, kCudaInvalidValue);
  request.height = 2;
  request.destination_pitch = 2;
  EXPECT_EQ(machine->copy({0}, request).error, kCudaInvalidPitchValue);
}

TEST_F(DeviceTest, PinnedMemoryIsShared) {
  make(1);
  Address pinned = 0;
  ASSERT_EQ(machine->malloc_host({0}, 4096, false, &pinned).error, 0);
  EXPECT_GE(pinned, kHostBase);
  const Address a = device(0, 16);
  const uint32_t value = 1234;
  std::memcpy(reinterpret_cast<void*>(pinned), &value, 4);
  ASSERT_EQ(copy(0, a, pinned, 4, kStreamDefault), 0);
  drain();
  EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 1234u);
  const Allocation* info = machine->pointer_info(pinned + 100);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->kind, Allocation::Kind::kPinned);
  EXPECT_EQ(machine->free({0}, pinned).error, kCudaInvalidValue);
  EXPECT_EQ(finish(machine->free_host({0}, pinned)), 0);
  EXPECT_EQ(machine->pointer_info(pinned), nullptr);
}

TEST_F(DeviceTest, FreeWaitsForTheDevice) {
  make(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 64);
  ASSERT_EQ(set32(0, a, 1, 16, s), 0);
  const Outcome outcome = machine->free({0}, a);
  ASSERT_TRUE(outcome.pending());
  EXPECT_NE(machine->pointer_info(a), nullptr);
  EXPECT_EQ(finish(outcome), 0);
  EXPECT_EQ(machine->pointer_info(a), nullptr);
  EXPECT_EQ(machine->free({0}, a).error, kCudaInvalidValue);
  EXPECT_EQ(machine->free({0}, 0).error, 0);
  EXPECT_TRUE(machine->faults().empty());
}

TEST_F(DeviceTest, OutOfMemoryAndBadSizes) {
  make(1);
  Address a = 0;
  EXPECT_EQ(machine->malloc({0}, uint64_t{1} << 40, &a).error, kCudaMemoryAllocation);
  EXPECT_EQ(machine->malloc({0}, ~uint64_t{0}, &a).error, kCudaMemoryAllocation);
  const Address b = device(0, 64);
  EXPECT_EQ(copy(0, b, b + 32, ~uint64_t{0} - 8, kStreamDefault), kCudaInvalidValue);
  EXPECT_EQ(copy(0, b, b + 32, 33, kStreamDefault), kCudaInvalidValue);
  EXPECT_EQ(set32(0, b, 1, 17, kStreamDefault), kCudaInvalidValue);
  EXPECT_EQ(set32(0, b + 2, 1, 1, kStreamDefault), kCudaInvalidValue);
  EXPECT_FALSE(machine->harness_touch(0, Access::kLoad, b, 65));
  EXPECT_FALSE(machine->harness_touch(0, Access::kLoad, 0, 1));
}

TEST_F(DeviceTest, ResultsOfAPeerAreReadByTheHarnessAsThatRank) {
  // Rank 0 writes into rank 1's window and nobody tells rank 1: reading it there is a race.
  for (const bool joined : {false, true}) {
    make(2);
    const auto comms = communicator(2);
    Address window[2], handle = 0;
    for (int r = 0; r < 2; ++r) window[r] = window_memory(r, 4096);
    for (int r = 0; r < 2; ++r) {
      ASSERT_EQ(machine
                    ->nccl_window_register({r}, comms[static_cast<size_t>(r)], window[r], 4096, 1,
                                           64, &handle)
                    .error,
                0);
    }
    machine->take_completions();
    const StreamHandle s = stream(0);
    ASSERT_EQ(set32(0, window[1], 6, 4, s), 0);
    EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
    if (joined) machine->harness_join();
    get<uint32_t>(1, window[1], 4);
    EXPECT_EQ(recorder->races(), joined ? 0u : 1u);
  }
}

}  // namespace
}  // namespace sculler::emu::test
