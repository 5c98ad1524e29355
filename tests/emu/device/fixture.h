// A Machine of some ranks and the few steps that every test makes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emu/device/machine.h"
#include "recorder.h"

namespace sculler::emu::test {

class DeviceTest : public ::testing::Test {
 protected:
  void make(int n_ranks, ScheduleKind kind = ScheduleKind::kRoundRobin, uint64_t seed = 1) {
    machine.reset();
    completions.clear();
    recorder = std::make_unique<Recorder>();
    MachineConfig config;
    config.engine.n_ranks = n_ranks;
    config.engine.limits.memory_bytes = uint64_t{64} << 20;
    config.engine.schedule = Schedule{kind, seed, 0};
    config.engine.observer = recorder.get();
    machine = std::make_unique<Machine>(config);
  }

  // Runs until nothing goes on; host functions are recorded in `called` and done at once.
  Machine::Progress drain() {
    while (true) {
      const Machine::Progress progress = machine->run(1 << 20);
      for (const HostCall& call : machine->take_host_calls()) {
        called.push_back(call.argument);
        machine->host_call_done(call.id);
      }
      for (Completion& completion : machine->take_completions())
        completions.push_back(std::move(completion));
      if (progress == Machine::Progress::kIdle || progress == Machine::Progress::kWaiting)
        return progress;
    }
  }
  // The code with which a blocking call ends, after running until it does.
  int finish(Outcome outcome) {
    if (!outcome.pending()) return outcome.error;
    drain();
    for (const Completion& completion : completions) {
      if (completion.ticket == outcome.ticket) return completion.error;
    }
    return -1;
  }
  Address device(int rank, uint64_t bytes) {
    Address address = 0;
    EXPECT_EQ(machine->malloc({rank}, bytes, &address).error, 0);
    return address;
  }
  Address window_memory(int rank, uint64_t bytes) {
    Address address = 0;
    EXPECT_EQ(machine->nccl_mem_alloc({rank}, bytes, &address).error, 0);
    return address;
  }
  template <class T>
  void put(int rank, Address address, const std::vector<T>& values) {
    ASSERT_TRUE(machine->harness_write(rank, address, values.data(), values.size() * sizeof(T)));
  }
  template <class T>
  std::vector<T> get(int rank, Address address, size_t n) {
    std::vector<T> values(n);
    EXPECT_TRUE(machine->harness_read(rank, address, values.data(), n * sizeof(T)));
    return values;
  }
  StreamHandle stream(int rank, uint32_t flags = kStreamNonBlocking) {
    StreamHandle handle = 0;
    EXPECT_EQ(machine->stream_create({rank}, flags, 0, &handle).error, 0);
    return handle;
  }
  EventHandle event(int rank) {
    EventHandle handle = 0;
    EXPECT_EQ(machine->event_create({rank}, 0, &handle).error, 0);
    return handle;
  }
  int set32(int rank, Address address, uint32_t value, uint64_t n, StreamHandle s) {
    MemsetRequest request;
    request.destination = address;
    request.width = n * 4;
    request.value = value;
    request.value_bytes = 4;
    request.stream = s;
    return machine->set({rank}, request).error;
  }
  int copy(int rank, Address to, Address from, uint64_t bytes, StreamHandle s) {
    CopyRequest request;
    request.destination = to;
    request.source = from;
    request.width = bytes;
    request.stream = s;
    return machine->copy({rank}, request).error;
  }
  std::vector<CommHandle> communicator(int n) {
    const auto id = machine->nccl_unique_id({0});
    std::vector<CommHandle> comms(static_cast<size_t>(n));
    Outcome last;
    for (int r = 0; r < n; ++r)
      last = machine->nccl_comm_init({r}, n, id, r, &comms[static_cast<size_t>(r)]);
    EXPECT_EQ(last.error, 0);
    EXPECT_FALSE(last.pending());
    EXPECT_EQ(machine->take_completions().size(), static_cast<size_t>(n - 1));
    return comms;
  }
  [[nodiscard]] std::string fault() const {
    return machine->faults().empty() ? std::string() : machine->faults().front().message;
  }

  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Machine> machine;
  std::vector<uint64_t> called;
  std::vector<Completion> completions;
};

}  // namespace sculler::emu::test
