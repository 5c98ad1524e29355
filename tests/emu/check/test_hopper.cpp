// The asynchronous proxy: a hand-written Hopper GEMM that is silent, and the same with one step
// left out, which is named with both lines.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "emu/check/deadlock.h"
#include "emu/vm/tensor_map.h"
#include "vm_job.h"

namespace sculler::emu {
namespace {

enum Step {
  kNothing,
  kFullWait,
  kEmptyWait,
  kStoreFence,
  kStoreWait,
  kRankBarrier,
  kMatrixWait,
  kInitFence,
  kBytes,
  kRelease,
  kReadWait
};

uint32_t line_of(const std::string& mark) {
  std::istringstream text(data_file("hopper_gemm.cu"));
  uint32_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.ends_with("// LINE " + mark)) return number;
  }
  ADD_FAILURE() << "no line " << mark;
  return 0;
}

struct Map {
  TensorMap m;
  uint8_t rest[128 - sizeof(TensorMap)] = {};
};
Map map_of(Address at, uint32_t columns, uint32_t rows, uint32_t box_columns, uint32_t box_rows,
           uint8_t swizzle) {
  Map map;
  map.m.data_type = 9;
  map.m.element_bytes = 2;
  map.m.dims = 2;
  map.m.swizzle = swizzle;
  map.m.address = at;
  map.m.size[0] = columns;
  map.m.size[1] = rows;
  map.m.stride[0] = uint64_t{columns} * 2;
  map.m.box[0] = static_cast<uint16_t>(box_columns);
  map.m.box[1] = static_cast<uint16_t>(box_rows);
  map.m.element_stride[0] = map.m.element_stride[1] = 1;
  return map;
}
uint16_t bf16(int small) {  // exact
  const auto f = static_cast<float>(small);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, 4);
  return static_cast<uint16_t>(bits >> 16);
}

struct Outcome {
  Engine::Stop stop;
  std::vector<ReportedFinding> findings;
  std::string text;
  DeadlockText deadlock;
  bool right = true;
  uint64_t order = 0;
};

// `ranks` ranks, each with 2 x 2 blocks.
Outcome run(int ranks, int step, bool cluster, uint64_t seed,
            ScheduleKind kind = ScheduleKind::kRandom) {
  constexpr uint32_t kTiles = 5, kK = 64 * kTiles, kM = 128, kN = 64;
  Job job(ranks, seed, kind, "hopper_gemm.ptx");
  const auto n_ranks = static_cast<uint32_t>(ranks);
  std::vector<Address> a, b, c, flags, sums;
  for (int r = 0; r < ranks; ++r) {
    a.push_back(job.memory(r, kM * kK * 2));
    b.push_back(job.memory(r, kN * kK * 2));
    c.push_back(job.memory(r, uint64_t{n_ranks} * kM * kN * 2, false));
    flags.push_back(job.memory(r, 64));
    sums.push_back(job.memory(r, 64));
    std::vector<uint16_t> va(kM * kK), vb(kN * kK);
    for (uint32_t i = 0; i < va.size(); ++i)
      va[i] = bf16(static_cast<int>(i * 7 + i / kK) % 3 - r % 2);
    for (uint32_t i = 0; i < vb.size(); ++i) vb[i] = bf16(static_cast<int>(i * 5 + i / kK) % 3 - 1);
    job.write(a.back(), va);
    job.write(b.back(), vb);
  }
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<size_t>(r);
    const Address table = job.memory(r, 64);
    job.write(table, flags);
    Params params;
    params.add(map_of(a[rank], kK, kM, 64, cluster ? 32 : 64, 3));
    params.add(map_of(b[rank], kK, kN, 64, 32, 3));
    for (size_t to = 0; to < 4; ++to)
      params.add(map_of(c[to % n_ranks], kN, n_ranks * kM, 32, 64, 0));
    params.add(ranks).add(r).add(static_cast<int>(kTiles)).add(table).add(c[rank]);
    params.add(sums[rank]).add(step);
    job.launch(r, cluster ? "gemm_cluster" : "gemm", {2, 2, 1}, 160, params,
               {cluster ? 2u : 1u, 1, 1}, 40960);
  }
  Outcome out;
  out.stop = job.run();
  out.findings = job.findings();
  out.text = texts(job);
  out.order = job.checker->sync_hash();
  if (out.stop == Engine::Stop::kStalled) {
    out.deadlock =
        explain_deadlock(job.engine->warps(), job.locate(), [](Address) { return "memory"; });
  }
  if (out.stop == Engine::Stop::kFault) out.text += job.engine->fault().message;
  for (int r = 0; step == kNothing && r < ranks; ++r)
    for (uint32_t m = 0; m < n_ranks * kM; m += 11)
      for (uint32_t n = 0; n < kN; ++n) {
        const auto from = static_cast<int>(m / kM);
        const uint32_t row = m % kM;
        int want = 0;
        for (uint32_t k = 0; k < kK; ++k) {
          const uint32_t i = row * kK + k, j = n * kK + k;
          want += (static_cast<int>(i * 7 + i / kK) % 3 - from % 2) *
                  (static_cast<int>(j * 5 + j / kK) % 3 - 1);
        }
        const auto* got = reinterpret_cast<const uint16_t*>(c[static_cast<size_t>(r)]);
        out.right = out.right && got[m * kN + n] == bf16(want);
      }
  return out;
}

bool names(const Outcome& out, const std::string& now, const std::string& before) {
  return std::any_of(out.findings.begin(), out.findings.end(), [&](const ReportedFinding& f) {
    return f.kind == "race" && f.now.file == "hopper_gemm.cu" && f.now.line == line_of(now) &&
           f.before.file == "hopper_gemm.cu" && f.before.line == line_of(before);
  });
}

constexpr ScheduleKind kKinds[] = {ScheduleKind::kRandom, ScheduleKind::kPriority,
                                   ScheduleKind::kDelayRank, ScheduleKind::kRoundRobin};

TEST(HopperGemm, IsRightAndSilent) {
  std::set<uint64_t> orders;
  for (const bool cluster : {false, true})
    for (const int ranks : {2, 4})
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const Outcome out = run(ranks, kNothing, cluster, seed, kKinds[seed % 4]);
        ASSERT_EQ(out.stop, Engine::Stop::kIdle) << out.text << out.deadlock.text;
        EXPECT_EQ(out.text, "") << seed << ' ' << ranks << ' ' << cluster;
        EXPECT_TRUE(out.right);
        orders.insert(out.order);
      }
  EXPECT_GT(orders.size(), 10u);
}

// What is left out, where the race comes to light, and with what.
struct Case {
  Step step;
  const char *now, *before, *advice;
};
class LeftOut : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(LeftOut, IsNamedWithBothLines) {
  const auto& [c, cluster] = GetParam();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Outcome out = run(2, c.step, cluster, seed, kKinds[seed % 4]);
    const std::string load = cluster ? "multicast" : "load";
    const std::string now = std::string_view(c.now) == "load" ? load : c.now,
                      before = std::string_view(c.before) == "load" ? load : c.before;
    // Which of the two comes first may be the schedule's choice.
    const bool either = c.step == kFullWait;
    EXPECT_TRUE(names(out, now, before) || (either && names(out, before, now)))
        << "seed " << seed << '\n'
        << out.text << out.deadlock.text;
    const bool advised = std::any_of(
        out.findings.begin(), out.findings.end(),
        [&](const ReportedFinding& f) { return f.advice.find(c.advice) != std::string::npos; });
    EXPECT_TRUE(advised || either) << out.text;
  }
}
std::string case_name(const testing::TestParamInfo<std::tuple<Case, bool>>& of) {
  static constexpr const char* kNames[] = {"",          "FullWait",    "EmptyWait",  "StoreFence",
                                           "StoreWait", "RankBarrier", "MatrixWait", "InitFence",
                                           "Bytes",     "Release",     "ReadWait"};
  return std::string(kNames[std::get<0>(of.param).step]) +
         (std::get<1>(of.param) ? "InClusters" : "");
}
INSTANTIATE_TEST_SUITE_P(
    HopperGemm, LeftOut,
    testing::Combine(
        testing::Values(Case{kFullWait, "wgmma", "load", "mbarrier"},
                        Case{kStoreFence, "store", "stage", "fence.proxy.async"},
                        Case{kStoreWait, "gathered", "store", "cp.async.bulk.wait_group"},
                        Case{kRankBarrier, "gathered", "store", "barrier of the ranks"},
                        Case{kMatrixWait, "load", "wgmma", "wgmma.wait_group"},
                        Case{kInitFence, "load", "init", "fence.proxy.async"},
                        Case{kReadWait, "reuse", "store", "wait_group.read"}),
        testing::Bool()),
    case_name);

TEST(HopperGemm, WithoutTheWaitForAnEmptyStageCopiesMeet) {
  const Outcome out = run(2, kEmptyWait, false, 2);
  EXPECT_TRUE(names(out, "load", "load") || names(out, "load", "wgmma")) << out.text;
  // In a cluster the mbarrier itself is overrun.
  const Outcome overrun = run(2, kEmptyWait, true, 2);
  EXPECT_TRUE(overrun.stop == Engine::Stop::kFault || !overrun.findings.empty()) << overrun.text;
}

TEST(HopperGemm, BytesThatNeverComeAreADeadlock) {
  const Outcome out = run(2, kBytes, false, 3);
  ASSERT_EQ(out.stop, Engine::Stop::kStalled) << out.text;
  EXPECT_EQ(out.deadlock.at.line, line_of("full_wait")) << out.deadlock.text;
  EXPECT_THAT(out.deadlock.message, testing::HasSubstr("its phase of parity 0"));
  EXPECT_THAT(out.deadlock.message, testing::HasSubstr("1 of 1 arrived and 64 bytes of copies"));
  EXPECT_THAT(out.deadlock.advice, testing::HasSubstr("expect_tx"));
}

TEST(HopperGemm, AWarpThatDoesNotGiveAStageBackIsADeadlock) {
  for (const bool cluster : {false, true}) {
    const Outcome out = run(2, kRelease, cluster, 3);
    ASSERT_EQ(out.stop, Engine::Stop::kStalled) << out.text;
    EXPECT_THAT(out.deadlock.text,
                testing::HasSubstr("hopper_gemm.cu:" + std::to_string(line_of("empty_wait"))));
    EXPECT_THAT(out.deadlock.text,
                testing::HasSubstr(cluster ? "6 of 8 arrived" : "3 of 4 arrived"));
  }
}

}  // namespace
}  // namespace sculler::emu
