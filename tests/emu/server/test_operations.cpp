// What `sculler analyze` is told of an iteration: kernels, copies, collectives and events with
// their bytes, blocks and calls.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "emu/server/operations.h"
#include "emu/server/options.h"

namespace sculler::emu {
namespace {

using nlohmann::json;

// 64 threads a block: out[i] = in[i], floats.
constexpr const char* kPtx = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy_all(.param .u64 from, .param .u64 to)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 64, %r2;
  mul.wide.u32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r4, [%rd4];
  st.global.u32 [%rd5], %r4;
  ret;
}
)";

class OperationsTest : public ::testing::Test {
 protected:
  void start(int ranks) {
    VmOptions options;
    options.footprint = true;
    options.schedule = Schedule{ScheduleKind::kRoundRobin, 1, 0};
    options.memory_bytes = uint64_t{64} << 20;
    auto vm = make_vm(options, ranks, true);
    ASSERT_TRUE(vm) << vm.error().text();
    vm_ = std::move(*vm);
    const auto id = machine().nccl_unique_id({0});
    comms_.resize(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
      machine().nccl_comm_init({r}, ranks, id, r, &comms_[static_cast<size_t>(r)]);
    machine().take_completions();
  }
  Machine& machine() { return *vm_->machine; }
  Address zeros(int rank, uint64_t bytes) {
    Address at = 0;
    EXPECT_EQ(machine().malloc({rank}, bytes, &at).error, 0);
    const std::vector<uint8_t> nothing(bytes);
    EXPECT_TRUE(machine().harness_write(rank, at, nothing.data(), bytes));
    return at;
  }
  void copy_all(int rank, Address from, Address to, uint32_t blocks) {
    ModuleId module = 0;
    ASSERT_FALSE(machine().load_module({rank}, kPtx, &module).error);
    KernelLaunch launch;
    ASSERT_FALSE(machine().get_kernel({rank}, module, "copy_all", &launch.kernel).error);
    launch.grid = {blocks, 1, 1};
    launch.block = {64, 1, 1};
    launch.params.resize(16);
    std::memcpy(launch.params.data(), &from, 8);
    std::memcpy(launch.params.data() + 8, &to, 8);
    ASSERT_FALSE(machine().launch({rank}, std::move(launch)).error);
  }
  void collective(int rank, Collective kind, Address send, Address recv, uint64_t count,
                  int peer = 0) {
    CollectiveRequest request;
    request.kind = kind;
    request.comm = comms_[static_cast<size_t>(rank)];
    request.send = send;
    request.recv = recv;
    request.count = count;
    request.type = NcclType::kFloat32;
    request.peer = peer;
    EXPECT_EQ(machine().nccl_collective({rank}, request).error, 0);
  }
  void drain() {
    while (machine().run(1 << 20) != Machine::Progress::kIdle) machine().take_completions();
  }
  json operations() {
    auto out = parse_json(operations_json(machine(), *vm_->footprint, nullptr, "no profile"), "t");
    EXPECT_TRUE(out);
    return out ? *out : json();
  }

  std::unique_ptr<Vm> vm_;
  std::vector<CommHandle> comms_;
};

TEST_F(OperationsTest, AKernelThenACollective) {
  start(2);
  Address from[2], part[2], all[2];
  for (int r = 0; r < 2; ++r) {
    from[r] = zeros(r, 4096);
    part[r] = zeros(r, 4096);
    all[r] = zeros(r, 8192);
  }
  drain();
  machine().trace_clear();
  vm_->footprint->clear();
  for (int r = 0; r < 2; ++r) copy_all(r, from[r], part[r], 16);
  for (int r = 0; r < 2; ++r) collective(r, Collective::kAllGather, part[r], all[r], 1024);
  drain();
  const json out = operations();
  EXPECT_EQ(out["truncated"], false);
  EXPECT_EQ(out["untimed"], "no profile");
  ASSERT_EQ(out["operations"].size(), 4u);
  const json& kernel = out["operations"][0];
  EXPECT_EQ(kernel["kind"], "kernel");
  EXPECT_EQ(kernel["name"], "copy_all");
  EXPECT_EQ(kernel["blocks"], 16);
  EXPECT_EQ(kernel["steps"], 4);  // two warps, a load and a store each
  ASSERT_EQ(kernel["writes"].size(), 1u);
  EXPECT_EQ(kernel["writes"][0]["begin"], 0);
  EXPECT_EQ(kernel["writes"][0]["end"], 4096);
  ASSERT_EQ(kernel["writes"][0]["parts"].size(), 8u);
  for (int k = 0; k < 8; ++k) {
    EXPECT_EQ(kernel["writes"][0]["parts"][static_cast<size_t>(k)][0], 2 * k);
    EXPECT_EQ(kernel["writes"][0]["parts"][static_cast<size_t>(k)][1], 2 * k + 1);
  }
  const json& gather = out["operations"][3];
  EXPECT_EQ(gather["kind"], "collective");
  EXPECT_EQ(gather["rank"], 1);
  EXPECT_EQ(gather["meeting"], out["operations"][2]["meeting"]);
  EXPECT_EQ(gather["reads"][0]["end"], 4096);
  EXPECT_EQ(gather["writes"][0]["end"], 8192);
  ASSERT_EQ(gather["calls"].size(), 1u);
  EXPECT_EQ(gather["calls"][0]["name"], "ncclAllGather");
  EXPECT_EQ(gather["calls"][0]["bytes"], 4096);
  EXPECT_EQ(gather["calls"][0]["members"], json({0, 1}));
  EXPECT_EQ(gather["calls"][0]["send"]["end"], 4096);
  EXPECT_EQ(gather["calls"][0]["recv"]["end"], 8192);
  const json& space = out["spaces"][gather["reads"][0]["space"].get<size_t>()];
  EXPECT_EQ(space["rank"], 1);
  EXPECT_EQ(space["bytes"], 4096);
  EXPECT_EQ(gather["reads"][0]["space"], out["operations"][1]["writes"][0]["space"]);
}

TEST_F(OperationsTest, TheCallsOfAGroupWithTheirPeers) {
  start(2);
  Address from[2], to[2];
  for (int r = 0; r < 2; ++r) {
    from[r] = zeros(r, 1024);
    to[r] = zeros(r, 1024);
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(machine().nccl_group_start({r}).error, 0);
    collective(r, Collective::kSend, from[r], 0, 128, 1 - r);
    collective(r, Collective::kRecv, 0, to[r] + 512, 128, 1 - r);
    (void)machine().nccl_group_end({r});
  }
  drain();
  const json out = operations();
  const json& group = out["operations"].back();
  ASSERT_EQ(group["calls"].size(), 2u);
  EXPECT_EQ(group["calls"][0]["name"], "ncclSend");
  EXPECT_EQ(group["calls"][0]["peer"], 0);
  EXPECT_EQ(group["calls"][0]["send"]["end"], 512);
  EXPECT_FALSE(group["calls"][0].contains("recv"));
  EXPECT_EQ(group["calls"][1]["name"], "ncclRecv");
  EXPECT_EQ(group["calls"][1]["recv"]["begin"], 512);
  EXPECT_EQ(group["calls"][1]["recv"]["end"], 1024);
}

TEST_F(OperationsTest, TheOtherCollectivesAreAsLargeAsNcclSays) {
  start(2);
  const struct {
    Collective kind;
    uint64_t send, recv;
  } cases[] = {{Collective::kAllReduce, 256, 256},
               {Collective::kReduceScatter, 512, 256},
               {Collective::kBroadcast, 256, 256},
               {Collective::kReduce, 256, 256}};
  Address a[2], b[2];
  for (int r = 0; r < 2; ++r) {
    a[r] = zeros(r, 1024);
    b[r] = zeros(r, 1024);
  }
  for (const auto& one : cases) {
    machine().trace_clear();
    vm_->footprint->clear();
    for (int r = 0; r < 2; ++r) collective(r, one.kind, a[r], b[r], 64, 1);
    drain();
    const json out = operations();
    const json& call = out["operations"].back()["calls"][0];
    EXPECT_EQ(call["send"]["end"], one.send) << name(one.kind);
    EXPECT_EQ(call["recv"]["end"], one.recv) << name(one.kind);
    const bool rooted = one.kind == Collective::kBroadcast || one.kind == Collective::kReduce;
    EXPECT_EQ(call.value("peer", -1), rooted ? 1 : -1);
  }
}

TEST_F(OperationsTest, CopiesAndTheEventsBetweenStreams) {
  start(1);
  const Address a = zeros(0, 1024), b = zeros(0, 1024);
  StreamHandle one = 0, two = 0;
  EventHandle event = 0;
  machine().stream_create({0}, kStreamNonBlocking, 0, &one);
  machine().stream_create({0}, kStreamNonBlocking, 0, &two);
  machine().event_create({0}, 0, &event);
  machine().trace_clear();
  MemsetRequest fill;
  fill.destination = a + 128;
  fill.width = 256;
  fill.stream = one;
  EXPECT_EQ(machine().set({0}, fill).error, 0);
  EXPECT_EQ(machine().event_record({0}, event, one).error, 0);
  EXPECT_EQ(machine().stream_wait_event({0}, two, event).error, 0);
  CopyRequest copy;
  copy.source = a;
  copy.destination = b;
  copy.width = 512;
  copy.stream = two;
  EXPECT_EQ(machine().copy({0}, copy).error, 0);
  drain();
  const json out = operations();
  ASSERT_EQ(out["operations"].size(), 4u);
  const json &set = out["operations"][0], &wait = out["operations"][2],
             &moved = out["operations"][3];
  EXPECT_EQ(set["writes"][0]["begin"], 128);
  EXPECT_EQ(set["writes"][0]["end"], 384);
  EXPECT_FALSE(set["writes"][0].contains("parts"));  // no kernel did
  EXPECT_EQ(wait["kind"], "event_wait");
  ASSERT_EQ(wait["after"].size(), 1u);
  EXPECT_EQ(wait["after"][0], out["operations"][1]["id"]);
  EXPECT_EQ(moved["reads"][0]["end"], 512);
  EXPECT_EQ(moved["writes"][0]["end"], 512);
  EXPECT_NE(moved["reads"][0]["space"], moved["writes"][0]["space"]);
}

TEST_F(OperationsTest, ManyRangesAreJoinedOverTheirGaps) {
  start(1);
  const Address a = zeros(0, 1 << 16);
  machine().trace_clear();
  MemsetRequest fill;  // 128 rows of 64 bytes
  fill.destination = a;
  fill.pitch = 256;
  fill.width = 64;
  fill.height = 128;
  EXPECT_EQ(machine().set({0}, fill).error, 0);
  drain();
  const json out = operations();
  const json& writes = out["operations"][0]["writes"];
  EXPECT_LE(writes.size(), 48u);
  EXPECT_EQ(writes.front()["begin"], 0);
  EXPECT_EQ(writes.back()["end"], 127 * 256 + 64);
  EXPECT_EQ(writes.front()["sparse"], true);
}

}  // namespace
}  // namespace sculler::emu
