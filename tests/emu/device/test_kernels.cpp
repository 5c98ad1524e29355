// Kernels on the real engine: their order against everything else, faults, deadlocks that name both
// sides.
#include <map>

#include "fixture.h"

namespace sculler::emu::test {
namespace {

// fill(pointer, value): one thread stores. raise(flag): release store. await(flag, out): spins with
// acquire until the flag is not 0, then stores 1 to out. trap(): traps.
constexpr const char* kPtx = R"(.version 8.0
.target sm_90
.address_size 64

.visible .entry fill(.param .u64 p, .param .u32 v) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [v];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry raise(.param .u64 p) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, 1;
  st.release.sys.u32 [%rd1], %r1;
  ret;
}

.visible .entry await(.param .u64 p, .param .u64 q) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
  ld.param.u64 %rd2, [q];
again:
  ld.acquire.sys.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  st.u32 [%rd2], %r1;
  ret;
}

.visible .entry stop() {
  trap;
  ret;
}
)";

class KernelTest : public DeviceTest {
 protected:
  void load(int ranks, ScheduleKind kind = ScheduleKind::kRandom, uint64_t seed = 1) {
    make(ranks, kind, seed);
    kernels.clear();
    for (int r = 0; r < ranks; ++r) {
      ModuleId module = 0;
      ASSERT_EQ(machine->load_module({r}, kPtx, &module).error, 0) << machine->explain(r);
      for (const char* name : {"fill", "raise", "await", "stop"}) {
        KernelId kernel = 0;
        ASSERT_EQ(machine->get_kernel({r}, module, name, &kernel).error, 0) << machine->explain(r);
        kernels[{r, name}] = kernel;
      }
    }
  }
  int launch(int rank, const char* name, StreamHandle s, const std::vector<uint64_t>& arguments,
             KernelLaunch launch = {}) {
    launch.kernel = kernels.at({rank, name});
    launch.params.resize(machine->engine().info(launch.kernel).param_bytes);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& param = machine->engine().info(launch.kernel).params[i];
      std::memcpy(launch.params.data() + param.offset, &arguments[i], param.bytes);
    }
    launch.stream = s;
    return machine->launch({rank}, std::move(launch)).error;
  }
  // Two ranks' windows of one page, registered.
  std::vector<Address> windows() {
    const auto comms = communicator(2);
    std::vector<Address> out{window_memory(0, 4096), window_memory(1, 4096)};
    Address handle = 0;
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(machine
                    ->nccl_window_register({r}, comms[static_cast<size_t>(r)],
                                           out[static_cast<size_t>(r)], 4096, 1, 64, &handle)
                    .error,
                0);
    }
    machine->take_completions();
    for (int r = 0; r < 2; ++r)
      put<uint32_t>(r, out[static_cast<size_t>(r)], std::vector<uint32_t>(16, 0));
    machine->harness_join();
    return out;
  }
  std::map<std::pair<int, std::string>, KernelId> kernels;
};

TEST_F(KernelTest, AKernelKeepsItsPlaceInTheStream) {
  load(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 64);
  ASSERT_EQ(set32(0, a, 1, 16, s), 0);
  ASSERT_EQ(launch(0, "fill", s, {a, 7}), 0);
  const Address b = device(0, 64);
  ASSERT_EQ(copy(0, b, a, 64, s), 0);
  EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
  EXPECT_EQ(get<uint32_t>(0, b, 2), (std::vector<uint32_t>{7, 1}));
  const Trace& trace = machine->trace();
  const auto kernel = std::find_if(trace.ops.begin(), trace.ops.end(),
                                   [](const TraceOp& op) { return op.kind == OpKind::kKernel; });
  ASSERT_NE(kernel, trace.ops.end());
  EXPECT_TRUE(kernel->done);
  EXPECT_EQ(trace.names[kernel->name], "fill");
  EXPECT_EQ(trace.grids[kernel->grid].counters.global_store_bytes, 4u);
}

TEST_F(KernelTest, KernelsOfTwoRanksMeetThroughAWindow) {
  for (const auto kind : {ScheduleKind::kRoundRobin, ScheduleKind::kRandom, ScheduleKind::kPriority,
                          ScheduleKind::kDelayRank}) {
    load(2, kind, 11);
    const auto window = windows();
    const StreamHandle s0 = stream(0);
    const StreamHandle s1 = stream(1);
    const Address out = device(1, 4);
    ASSERT_EQ(launch(1, "await", s1, {window[1], out}), 0);
    ASSERT_EQ(launch(0, "raise", s0, {window[1]}), 0);
    EXPECT_EQ(finish(machine->stream_synchronize({1}, s1)), 0) << machine->deadlock().text;
    EXPECT_EQ(get<uint32_t>(1, out, 1)[0], 1u);
  }
}

TEST_F(KernelTest, AStreamWriteReleasesASpinningKernel) {
  load(1);
  const StreamHandle s = stream(0);
  const StreamHandle side = stream(0);
  const Address flag = device(0, 4);
  const Address out = device(0, 4);
  put<uint32_t>(0, flag, {0});
  ASSERT_EQ(launch(0, "await", s, {flag, out}), 0);
  EXPECT_EQ(drain(), Machine::Progress::kWaiting);
  StreamValue value;
  value.address = flag;
  value.value = 1;
  value.stream = side;
  ASSERT_EQ(machine->stream_write_value({0}, value).error, 0);
  EXPECT_EQ(drain(), Machine::Progress::kIdle) << machine->deadlock().text;
}

TEST_F(KernelTest, ADeadlockNamesTheSpinAndTheStreams) {
  load(2);
  const auto window = windows();
  const StreamHandle s1 = stream(1);
  const Address out = device(1, 4);
  ASSERT_EQ(launch(1, "await", s1, {window[1], out}), 0);
  EXPECT_TRUE(machine->stream_synchronize({1}, s1).pending());
  EXPECT_EQ(drain(), Machine::Progress::kWaiting);
  const DeadlockReport report = machine->deadlock();
  EXPECT_EQ(report.ranks[1].streams.at(0).head, "kernel await");
  ASSERT_EQ(report.warps.size(), 1u);
  EXPECT_EQ(report.warps[0].wait, WarpState::Wait::kSpin);
  EXPECT_EQ(report.warps[0].address, window[1]);
  EXPECT_NE(report.text.find("spinning"), std::string::npos) << report.text;
  EXPECT_NE(report.text.find("cudaStreamSynchronize on stream 1"), std::string::npos);
}

TEST_F(KernelTest, AFaultBreaksItsRankOnly) {
  load(2);
  const StreamHandle s0 = stream(0);
  const StreamHandle s1 = stream(1);
  const Address a = device(1, 4);
  ASSERT_EQ(launch(0, "stop", s0, {}), 0);
  ASSERT_EQ(launch(1, "fill", s1, {a, 3}), 0);
  EXPECT_EQ(finish(machine->stream_synchronize({0}, s0)), kCudaLaunchFailure);
  EXPECT_EQ(launch(0, "fill", s0, {a, 3}), kCudaLaunchFailure);
  EXPECT_EQ(finish(machine->stream_synchronize({1}, s1)), 0);
  EXPECT_EQ(get<uint32_t>(1, a, 1)[0], 3u);

  load(1);
  const Address b = device(0, 4);
  ASSERT_EQ(launch(0, "fill", kStreamDefault, {b + 4096, 1}), 0);
  EXPECT_EQ(finish(machine->device_synchronize({0})), kCudaIllegalAddress);
  EXPECT_EQ(machine->faults().at(0).kind, MachineFault::Kind::kKernel);
}

TEST_F(KernelTest, LaunchErrorsComeAtOnce) {
  load(1);
  const Address a = device(0, 4);
  KernelLaunch bad;
  bad.block = {1025, 1, 1};
  EXPECT_EQ(launch(0, "fill", kStreamDefault, {a, 1}, bad), kCudaInvalidConfiguration);
  bad.block = {32, 1, 1};
  bad.grid = {0, 1, 1};
  EXPECT_EQ(launch(0, "fill", kStreamDefault, {a, 1}, bad), kCudaInvalidConfiguration);
  bad.grid = {1, 1, 1};
  bad.dynamic_shared = 300000;
  EXPECT_EQ(launch(0, "fill", kStreamDefault, {a, 1}, bad), kCudaInvalidValue);
  bad.dynamic_shared = 0;
  bad.block = {1024, 1, 1};
  bad.grid = {132 * 2 + 1, 1, 1};
  bad.cooperative = true;
  EXPECT_EQ(launch(0, "fill", kStreamDefault, {a, 1}, bad), kCudaCooperativeLaunchTooLarge);
  EXPECT_NE(machine->explain(0).find("cooperative grid"), std::string::npos);
  KernelLaunch unknown;
  unknown.kernel = 12345;
  EXPECT_EQ(machine->launch({0}, unknown).error, kCudaInvalidDeviceFunction);
  EXPECT_EQ(machine->sticky_error(0), 0);
}

TEST_F(KernelTest, GraphsReplayKernels) {
  load(1);
  const StreamHandle s = stream(0);
  const Address a = device(0, 64);
  ASSERT_EQ(machine->capture_begin({0}, s, CaptureMode::kGlobal).error, 0);
  ASSERT_EQ(launch(0, "fill", s, {a, 5}), 0);
  GraphHandle graph = 0;
  GraphExecHandle exec = 0;
  ASSERT_EQ(machine->capture_end({0}, s, &graph).error, 0);
  ASSERT_EQ(machine->graph_instantiate({0}, graph, &exec).error, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(set32(0, a, 0, 1, s), 0);
    ASSERT_EQ(machine->graph_launch({0}, exec, s).error, 0);
    EXPECT_EQ(finish(machine->stream_synchronize({0}, s)), 0);
    EXPECT_EQ(get<uint32_t>(0, a, 1)[0], 5u);
  }
}

}  // namespace
}  // namespace sculler::emu::test
