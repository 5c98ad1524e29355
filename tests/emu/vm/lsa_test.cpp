// NCCL's device header between emulated ranks; its host view gives the layout of ncclDevComm and of
// windows.
#include <nccl.h>
#include <nccl_device.h>

#include <array>

#include "emu/vm/harness.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;

// Windows at the same offset on each rank, as ncclCommWindowRegister makes them.
struct Team {
  int n;
  Job job;
  std::array<Address, 16> user{}, resource{};
  std::array<ncclWindow_vidmem*, 16> user_window{}, resource_window{};
  std::array<ncclDevComm, 16> comm{};

  Team(int ranks, Schedule schedule, uint32_t barriers, const char* module)
      : n(ranks), job(config(ranks, schedule)) {
    job.load(module);
    for (int r = 0; r < n; ++r) {
      const auto k = static_cast<size_t>(r);
      user[k] = reinterpret_cast<Address>(
          job.allocate<char>(1 << 20, r, Allocation::Kind::kNccl, "user window"));
      resource[k] = reinterpret_cast<Address>(
          job.allocate<char>(1 << 20, r, Allocation::Kind::kNccl, "resource window"));
      user_window[k] = job.allocate<ncclWindow_vidmem>(1, r);
      resource_window[k] = job.allocate<ncclWindow_vidmem>(1, r);
    }
    for (int r = 0; r < n; ++r) {
      const auto k = static_cast<size_t>(r);
      const auto window = [&](Address base) {
        ncclWindow_vidmem w{};
        w.lsaFlatBase = reinterpret_cast<char*>(base);
        w.lsaRank = w.worldRank = r;
        w.stride4G = static_cast<uint32_t>(kRankStride >> 32);
        return w;
      };
      *user_window[k] = window(user[0]);
      *resource_window[k] = window(resource[0]);
      ncclDevComm& d = comm[k];
      d.rank = d.lsaRank = r;
      d.nRanks = d.lsaSize = n;
      d.nRanks_rcp32 = d.lsaSize_rcp32 = nccl::utility::idivRcp32(static_cast<uint32_t>(n));
      d.resourceWindow = resource_window[k];
      d.resourceWindow_inlined = *resource_window[k];
      d.lsaBarrier = {0, static_cast<int>(barriers)};
    }
  }
  static EngineConfig config(int ranks, Schedule schedule) {
    EngineConfig c;
    c.n_ranks = ranks;
    c.schedule = schedule;
    c.limits.memory_bytes = uint64_t{64} << 20;
    return c;
  }
};

TEST(Lsa, BarriersAndPeerPointers) {
  for (const int n : {2, 4, 8}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const ScheduleKind kinds[] = {ScheduleKind::kRoundRobin, ScheduleKind::kRandom,
                                    ScheduleKind::kPriority, ScheduleKind::kDelayRank};
      Team team(n, {kinds[seed], seed, 1}, 4, "lsa.ptx");
      const int count = 1000;
      for (int r = 0; r < n; ++r)
        team.job.launch(r, "exchange", 4, 128, team.comm[static_cast<size_t>(r)],
                        team.user_window[static_cast<size_t>(r)], size_t{0}, count);
      ASSERT_EQ(team.job.finish(20'000'000), Stop::kIdle) << team.job.engine->fault().message;
      for (int r = 0; r < n; ++r) {
        const auto* me = reinterpret_cast<const float*>(team.user[static_cast<size_t>(r)]);
        for (int i = 0; i < count; ++i)
          ASSERT_EQ(me[count + i], static_cast<float>(i * n * (n + 1) / 2)) << r << ' ' << i;
      }
    }
  }
}

TEST(Lsa, ARankThatStaysAwayIsAStall) {
  Team team(4, {}, 4, "lsa.ptx");
  for (int r = 0; r < 3; ++r)
    team.job.launch(r, "barriers", 2, 64, team.comm[static_cast<size_t>(r)], 3);
  ASSERT_EQ(team.job.finish(10'000'000), Stop::kStalled);
  int spinning = 0;
  for (const auto& w : team.job.engine->warps()) {
    if (w.wait != WarpState::Wait::kSpin) continue;
    ++spinning;
    EXPECT_NE(team.job.engine->memory().describe(w.address).find("resource window"),
              std::string::npos);
  }
  EXPECT_GE(spinning, 6);
  team.job.launch(3, "barriers", 2, 64, team.comm[3], 3);
  EXPECT_EQ(team.job.finish(10'000'000), Stop::kIdle);
}

TEST(Lsa, LowLatencyAllToAll) {
  Team team(4, {ScheduleKind::kRandom, 5, 0}, 4, "lsa.ptx");
  ncclLLA2AHandle handle{static_cast<uint32_t>((64 << 10) / 128), 1024};
  float* out[4];
  for (int r = 0; r < 4; ++r) {
    out[r] = team.job.allocate<float>(4, r);
    team.job.launch(r, "all_to_all", 1, 64, team.comm[static_cast<size_t>(r)], handle, out[r], 4);
  }
  ASSERT_EQ(team.job.finish(10'000'000), Stop::kIdle) << team.job.engine->fault().message;
  for (int r = 0; r < 4; ++r)
    for (int p = 0; p < 4; ++p) EXPECT_EQ(out[r][p], static_cast<float>(10 * p + r));
}

}  // namespace
}  // namespace sculler::emu
