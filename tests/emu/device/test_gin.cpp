// NCCL's device code for GIN (ptx/gin.cu) on emulated nodes: right uses are silent whatever the
// schedule, each wrong one is named. NCCL's own header gives the layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <nccl_device.h>
#include <nccl_device/gin/proxy/gin_proxy_device_host_common.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "emu/check/checker.h"
#include "emu/check/report.h"
#include "emu/device/machine.h"

namespace sculler::emu {
namespace {

using testing::HasSubstr;

std::string ptx() {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tests/emu/device/ptx/gin.ptx");
  return {std::istreambuf_iterator<char>(in), {}};
}
// Line of ptx/gin.cu that holds `text` within `kernel`.
uint32_t line_of(const std::string& kernel, const std::string& text) {
  std::ifstream in(std::string(SCULLER_SOURCE_DIR) + "/tests/emu/device/ptx/gin.cu");
  std::string line;
  bool inside = false;
  for (uint32_t number = 1; std::getline(in, line); ++number) {
    inside = inside || line.find("void " + kernel + "(") != std::string::npos;
    if (inside && line.find(text) != std::string::npos) return number;
  }
  return 0;
}

struct Way {
  ScheduleKind kind = ScheduleKind::kRoundRobin;
  uint64_t seed = 1;
};
std::vector<Way> ways() {
  std::vector<Way> out{{ScheduleKind::kRoundRobin, 1}, {ScheduleKind::kDelayRank, 1}};
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    out.push_back({ScheduleKind::kRandom, seed});
    out.push_back({ScheduleKind::kPriority, seed});
  }
  return out;
}

// A job of ranks on nodes with one device communicator and a window of 64 KiB a rank.
class Job {
 public:
  static constexpr uint64_t kWindow = 65536;

  Job(int n_ranks, int nodes, Way way, GinNeeds needs = {true, 2, 2, 2}) : n(n_ranks) {
    CheckerConfig checks;
    checks.describe = [this](Address address) { return machine->memory().describe(address); };
    checker = make_checker(std::move(checks));
    MachineConfig config;
    config.engine.n_ranks = n;
    config.engine.ranks_per_node = n / nodes;
    config.engine.limits.memory_bytes = uint64_t{256} << 20;
    config.engine.schedule = Schedule{way.kind, way.seed, 0};
    config.engine.observer = checker.get();
    config.engine.quiet_limit = 200'000;
    machine = std::make_unique<Machine>(config);
    const auto id = machine->nccl_unique_id({0});
    const auto at = [](int r) { return static_cast<size_t>(r); };
    comms.resize(at(n));
    window.resize(at(n));
    memory.resize(at(n));
    resources.resize(at(n));
    comm.resize(at(n));
    kernels.resize(at(n));
    for (int r = 0; r < n; ++r) ok(machine->nccl_comm_init({r}, n, id, r, &comms[at(r)]).error);
    for (int r = 0; r < n; ++r) {
      ok(machine->nccl_mem_alloc({r}, kWindow, &memory[at(r)]).error);
      ok(machine
             ->nccl_window_register({r}, comms[at(r)], memory[at(r)], kWindow, 1,
                                    sizeof(ncclWindow_vidmem), &window[at(r)])
             .error);
    }
    for (int r = 0; r < n; ++r) {
      ok(machine
             ->nccl_dev_comm_create({r}, comms[at(r)], kResources, sizeof(ncclWindow_vidmem), needs,
                                    &resources[at(r)])
             .error);
    }
    machine->take_completions();
    for (int r = 0; r < n; ++r) fill(r, needs);
    machine->harness_join();
  }
  ~Job() { machine.reset(); }

  template <class... A>
  void launch(int rank, const std::string& kernel, unsigned threads, A... args) {
    auto& module = kernels[static_cast<size_t>(rank)];
    if (module == 0) ok(machine->load_module({rank}, ptx(), &module).error);
    KernelLaunch request;
    ok(machine->get_kernel({rank}, module, kernel, &request.kernel).error);
    request.block = {threads, 1, 1};
    const KernelInfo& info = machine->engine().info(request.kernel);
    ASSERT_EQ(info.params.size(), sizeof...(A)) << kernel;
    request.params.assign(info.param_bytes, 0);
    size_t k = 0;
    const auto set = [&](const auto& value) {
      ASSERT_EQ(info.params[k].bytes, sizeof value) << kernel << " " << k;
      std::memcpy(request.params.data() + info.params[k].offset, &value, sizeof value);
      ++k;
    };
    (set(args), ...);
    ok(machine->launch({rank}, request).error);
  }
  // Every rank the same; `args` behind the communicator and the window.
  template <class... A>
  void all(const std::string& kernel, A... args) {
    for (int r = 0; r < n; ++r) {
      const auto at = static_cast<size_t>(r);
      launch(r, kernel, 64, comm[at], handle(r), args...);
    }
  }
  [[nodiscard]] ncclWindow_t handle(int rank) const {
    return reinterpret_cast<ncclWindow_t>(window[static_cast<size_t>(rank)]);
  }
  unsigned* out(int rank, uint64_t n_words) {
    Address address = 0;
    ok(machine->malloc({rank}, n_words * 4, &address).error);
    outs.push_back(address);
    return reinterpret_cast<unsigned*>(address);
  }
  Machine::Progress run() {
    for (int k = 0; k < 20000; ++k) {
      const auto progress = machine->run(1 << 20);
      machine->take_completions();
      if (progress == Machine::Progress::kIdle || progress == Machine::Progress::kWaiting)
        return progress;
    }
    return Machine::Progress::kBudget;
  }
  std::string wrong() {
    std::string text;
    for (const MachineFault& fault : machine->faults()) text += fault.message + "\n";
    for (const ReportedFinding& finding : found())
      text += finding.kind + ": " + finding.text + "\n";
    return text;
  }
  std::vector<ReportedFinding> found() {
    return report(checker->findings(), [this](CodeRef code) { return machine->locate(code); });
  }

  int n;
  std::unique_ptr<Observer> checker;
  std::unique_ptr<Machine> machine;
  std::vector<CommHandle> comms;
  std::vector<Address> window, memory, resources, outs;
  std::vector<ncclDevComm> comm;

 private:
  static constexpr uint64_t kResources = 8192;
  static void ok(int error) { ASSERT_EQ(error, 0); }

  // What the drop-in does.
  ncclWindow_vidmem filled(int rank, Address handle) {
    const WindowInfo* info = machine->nccl_window_info({rank}, handle);
    ncclWindow_vidmem w{};
    if (info == nullptr) {
      ADD_FAILURE() << "no window";
      return w;
    }
    w.lsaFlatBase = reinterpret_cast<char*>(info->flat_base);
    w.lsaRank = info->lsa_rank;
    w.worldRank = info->rank;
    w.stride4G = static_cast<uint32_t>(info->stride >> 32);
    for (auto& gin : w.ginWins) gin = reinterpret_cast<void*>(static_cast<uintptr_t>(info->id));
    EXPECT_TRUE(machine->write_internal(rank, handle, &w, sizeof w));
    return w;
  }
  void fill(int rank, const GinNeeds& needs) {
    const auto at = static_cast<size_t>(rank);
    filled(rank, window[at]);
    ncclDevComm& d = comm[at];
    d = {};
    d.resourceWindow_inlined = filled(rank, resources[at]);
    d.resourceWindow = reinterpret_cast<ncclWindow_t>(resources[at]);
    const int lsa = machine->nccl_comm_info({rank}, comms[at])->lsa_size;
    d.rank = rank;
    d.nRanks = n;
    d.lsaSize = lsa;
    d.lsaRank = rank % lsa;
    d.nRanks_rcp32 = nccl::utility::idivRcp32(static_cast<uint32_t>(n));
    d.lsaSize_rcp32 = nccl::utility::idivRcp32(static_cast<uint32_t>(lsa));
    d.lsaBarrier = {0, 2};
    const GinInfo* info = machine->nccl_gin_info({rank}, resources[at]);
    ASSERT_NE(info, nullptr);
    d.railGinBarrier = {info->barrier_signal, 4096 / 128};
    auto contexts =
        machine->allocate_internal(rank, info->contexts * sizeof(ncclGinProxyGpuCtx_t), "contexts");
    ASSERT_TRUE(contexts);
    for (uint32_t c = 0; c < info->contexts; ++c) {
      const auto& from = info->context[c];
      ncclGinProxyGpuCtx_t context{};
      context.nranks = n;
      context.queueSize = info->queue_size;
      context.queues = reinterpret_cast<ncclGinProxyGfd_t*>(from.queues);
      context.pis = reinterpret_cast<uint32_t*>(from.produced);
      context.cis = reinterpret_cast<uint32_t*>(from.consumed);
      context.counters = reinterpret_cast<uint64_t*>(from.counters);
      context.signals = reinterpret_cast<uint64_t*>(from.signals);
      d.ginTypes[c] = NCCL_NET_DEVICE_GIN_PROXY;
      d.ginHandles[c] = reinterpret_cast<void*>(*contexts + c * sizeof context);
      ASSERT_TRUE(
          machine->write_internal(rank, *contexts + c * sizeof context, &context, sizeof context));
    }
    d.ginContextCount = static_cast<uint8_t>(info->contexts);
    d.ginSignalCount = static_cast<int>(info->signals);
    d.ginCounterCount = static_cast<int>(needs.counters);
    d.ginSignalShadows = reinterpret_cast<uint64_t*>(info->shadows);
  }

  std::vector<ModuleId> kernels;
};

constexpr int kN = 100;

struct Nodes {
  int ranks, nodes;
};
const Nodes kNodes[] = {{2, 2}, {4, 2}};

TEST(Gin, PutSignalWaitFlush) {
  for (const Nodes& nodes : kNodes) {
    for (const Way& way : ways()) {
      Job job(nodes.ranks, nodes.nodes, way);
      std::vector<unsigned*> out;
      for (int r = 0; r < job.n; ++r) {
        out.push_back(job.out(r, kN));
        job.launch(r, "exchange", 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
                   static_cast<unsigned>(1000 * r), out.back());
      }
      ASSERT_EQ(job.run(), Machine::Progress::kIdle) << job.wrong();
      EXPECT_EQ(job.wrong(), "");
      for (int r = 0; r < job.n; ++r) {
        const int from = (r + job.n - 1) % job.n;
        for (int i = 0; i < kN; ++i)
          ASSERT_EQ(out[static_cast<size_t>(r)][i], static_cast<unsigned>(1000 * from + i));
      }
    }
  }
}

TEST(Gin, CountersAndAddedSignals) {
  for (const Way& way : ways()) {
    Job job(2, 2, way);
    std::vector<unsigned*> out;
    for (int r = 0; r < 2; ++r) {
      out.push_back(job.out(r, 2 * kN + 1));
      job.launch(r, "counted", 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
                 static_cast<unsigned>(1000 * r), out.back());
    }
    ASSERT_EQ(job.run(), Machine::Progress::kIdle) << job.wrong();
    EXPECT_EQ(job.wrong(), "");
    for (unsigned r = 0; r < 2; ++r) {
      for (unsigned i = 0; i < kN; ++i) {
        ASSERT_EQ(out[r][i], 1000 * (1 - r) + i);
        ASSERT_EQ(out[r][kN + i], 1000 * (1 - r) + 1 + i);
      }
      EXPECT_EQ(out[r][2 * kN], 210u);
    }
  }
}

TEST(Gin, ValuesOfEachSize) {
  for (const Way& way : ways()) {
    Job job(2, 2, way);
    const unsigned* out = nullptr;
    for (int r = 0; r < 2; ++r) {
      unsigned* here = job.out(r, 4);
      if (r == 1) out = here;
      job.launch(r, "values", 64, job.comm[static_cast<size_t>(r)], job.handle(r), here);
    }
    ASSERT_EQ(job.run(), Machine::Progress::kIdle) << job.wrong();
    EXPECT_EQ(job.wrong(), "");
    EXPECT_EQ(out[0], 0x12u);
    EXPECT_EQ(out[1], 0x3456789au);
    EXPECT_EQ(out[2], 0x89abcdefu);
    EXPECT_EQ(out[3], 0x01234567u);
  }
}

TEST(Gin, ResetsBehindBarriersOfTheWorldAndShadowsThatCountAlong) {
  for (const Nodes& nodes : {Nodes{2, 2}, Nodes{2, 1}}) {
    for (const Way& way : ways()) {
      Job job(nodes.ranks, nodes.nodes, way);
      std::vector<unsigned*> out;
      for (int r = 0; r < job.n; ++r) {
        out.push_back(job.out(r, 3 * kN));
        job.launch(r, "resets", 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
                   static_cast<unsigned>(1000 * r), out.back(), 3);
      }
      ASSERT_EQ(job.run(), Machine::Progress::kIdle) << job.wrong();
      EXPECT_EQ(job.wrong(), "");
      for (unsigned r = 0; r < 2; ++r) EXPECT_EQ(out[r][2 * kN + 5], 1000 * (1 - r) + 7);
    }
  }
}

TEST(Gin, ABarrierOfTheRailCarriesThePutsBeforeIt) {
  for (const Way& way : ways()) {
    Job job(4, 2, way);
    std::vector<unsigned*> out;
    for (int r = 0; r < 4; ++r) {
      out.push_back(job.out(r, kN));
      job.launch(r, "rails", 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
                 static_cast<unsigned>(1000 * r), out.back());
    }
    ASSERT_EQ(job.run(), Machine::Progress::kIdle) << job.wrong();
    EXPECT_EQ(job.wrong(), "");
    for (unsigned r = 0; r < 4; ++r) EXPECT_EQ(out[r][5], 1000 * ((r + 2) % 4) + 5);
  }
}

// One kind of wrong program: the same finding under each schedule.
struct Wrong {
  std::string kernel, at, says, advises;
};

void each_way(const Wrong& wrong, const std::function<void(Job&)>& start) {
  for (const Way& way : ways()) {
    Job job(2, 2, way);
    start(job);
    job.run();
    const std::string all = job.wrong();
    bool named = false;
    for (const ReportedFinding& finding : job.found()) {
      const bool place = wrong.at.empty() || finding.now.line == line_of(wrong.kernel, wrong.at) ||
                         finding.before.line == line_of(wrong.kernel, wrong.at);
      named = named || (finding.text.find(wrong.says) != std::string::npos &&
                        finding.advice.find(wrong.advises) != std::string::npos && place &&
                        finding.rank >= 0);
    }
    EXPECT_TRUE(named) << wrong.kernel << " under " << static_cast<int>(way.kind) << ":" << way.seed
                       << "\n"
                       << all;
  }
}
void reads(Job& job, const std::string& kernel) {
  for (int r = 0; r < job.n; ++r)
    job.launch(r, kernel, 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
               static_cast<unsigned>(1000 * r), job.out(r, kN));
}

TEST(GinMisuse, FlushIsTakenForArrival) {
  each_way({"flushed", "gin.put", "the put carries no signal; flush and counters say",
            "Give the put a signal"},
           [](Job& job) { reads(job, "flushed"); });
}

TEST(GinMisuse, TheVoidWaitOnAShadow) {
  each_way({"void_wait", "",
            "all of earlier puts, at gin.cu:" +
                std::to_string(line_of("void_wait", "waitSignalMeetShadow")),
            "a shadow starts at 0"},
           [](Job& job) {
             for (int r = 0; r < 2; ++r)
               job.launch(r, "void_wait", 64, job.comm[static_cast<size_t>(r)], job.handle(r), kN,
                          static_cast<unsigned>(1000 * r), job.out(r, kN), 3);
           });
}

TEST(GinMisuse, TheSourceIsOverwritten) {
  each_way({"overwritten", "gin.put", "by a GIN put", "before its source is overwritten"},
           [](Job& job) { reads(job, "overwritten"); });
}

TEST(GinMisuse, OtherThreadsHaveNotWrittenTheSource) {
  each_way({"early", "gin.put", "the put does not begin behind that access", "__syncthreads()"},
           [](Job& job) { reads(job, "early"); });
}

TEST(GinMisuse, MixedActions) {
  each_way({"mixed", "", "on one signal, without a reset between them", "take another signal"},
           [](Job& job) { job.all("mixed"); });
}

TEST(GinMisuse, ResetWhileWaitedFor) {
  each_way({"reset_in_use", "gin.resetSignal", "GIN signal 1 of context 0 of rank",
            "Reset a signal or counter only where nobody waits"},
           [](Job& job) { job.all("reset_in_use"); });
}

void faults(const std::string& kernel, const std::string& at, const std::string& says,
            const std::function<void(Job&)>& start) {
  for (const Way& way : ways()) {
    Job job(2, 2, way);
    start(job);
    job.run();
    ASSERT_FALSE(job.machine->faults().empty()) << kernel;
    const MachineFault& fault = job.machine->faults().front();
    EXPECT_THAT(fault.message, HasSubstr(says));
    EXPECT_EQ(fault.fault.kind, Fault::Kind::kIllegalAddress);
    EXPECT_EQ(job.machine->locate(fault.fault.code).line, line_of(kernel, at)) << kernel;
  }
}

TEST(GinMisuse, NumbersThatWereNotAskedFor) {
  faults("signal_index", "gin.signal", "signal 2 where there are 2, numbered from 0 to 1",
         [](Job& job) { job.all("signal_index", 2u); });
  faults("wait_index", "gin.waitSignal", "GIN signal 9 of context 0 of rank 0 (there are 2)",
         [](Job& job) { job.launch(0, "wait_index", 64, job.comm[0], 9u); });
  faults("counter_index", "gin.put", "counter 7 where there are 2",
         [](Job& job) { job.all("counter_index", 7u); });
}

TEST(GinMisuse, BeyondTheWindow) {
  faults("beyond", "gin.put", "reaches beyond the window's 65536 bytes",
         [](Job& job) { job.all("beyond", size_t{65000}, size_t{1024}); });
}

TEST(GinMisuse, APeerOfAnotherNodeHasNoAddress) {
  faults("across_nodes", "ncclGetPeerPointer", "on another node, which GIN reaches",
         [](Job& job) { job.launch(0, "across_nodes", 64, job.comm[0], job.handle(0), 1); });
}

TEST(Gin, ASignalThatNobodySendsIsADeadlockThatNamesIt) {
  Job job(2, 2, {});
  job.launch(0, "wait_index", 64, job.comm[0], 1u);
  ASSERT_EQ(job.run(), Machine::Progress::kWaiting);
  const DeadlockReport report = job.machine->deadlock();
  ASSERT_FALSE(report.warps.empty());
  bool named = false;
  for (const WarpState& warp : report.warps)
    named = named ||
            (warp.wait == WarpState::Wait::kSpin &&
             job.machine->memory().describe(warp.address) == "GIN signal 1 of context 0 of rank 0");
  EXPECT_TRUE(named);
}

TEST(Gin, RanksThatAskForDifferentNumbersDoNotMeet) {
  Job job(2, 2, {});
  Address first = 0, second = 0;
  const Outcome one =
      job.machine->nccl_dev_comm_create({0}, job.comms[0], 128, 64, {true, 1, 0, 0}, &first);
  EXPECT_TRUE(one.pending());
  EXPECT_NE(
      job.machine->nccl_dev_comm_create({1}, job.comms[1], 128, 64, {true, 2, 0, 0}, &second).error,
      0);
  EXPECT_THAT(job.machine->explain(1), HasSubstr("all ranks must agree"));
}

TEST(Gin, ADestroyedCommunicatorGivesItsMemoryBack) {
  Job job(2, 2, {});
  const size_t before = job.machine->memory().live(0).size();
  EXPECT_EQ(job.machine->nccl_dev_comm_destroy({0}, job.comms[0], job.resources[0]).error, 0);
  EXPECT_LT(job.machine->memory().live(0).size() + 20, before);
  EXPECT_EQ(job.machine->nccl_gin_info({0}, job.resources[0]), nullptr);
  EXPECT_NE(job.machine->nccl_gin_info({1}, job.resources[1]), nullptr);
}

}  // namespace
}  // namespace sculler::emu
