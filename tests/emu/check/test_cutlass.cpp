// The fused CUTLASS kernel of gemm_allgather, as compiled (data/cutlass.sh says how): right and
// silent under many schedules, and named where a wait, a fence or the ranks' barrier is left out.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "emu/vm/tensor_map.h"
#include "vm_job.h"

namespace sculler::emu {
namespace {

// Sanitizers make the VM slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#elif defined(__has_feature)
constexpr bool kSlow = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSlow = false;
#endif

constexpr uint32_t kRows = 256, kK = 256, kN = 512;  // rows of a rank

uint16_t bf16(int small) {  // exact
  const auto f = static_cast<float>(small);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, 4);
  return static_cast<uint16_t>(bits >> 16);
}
int a_at(int rank, uint32_t row, uint32_t k) {
  return static_cast<int>((row * 3 + k * 7 + row / 5) % 3) - rank % 2;
}
int b_at(uint32_t column, uint32_t k) { return static_cast<int>((column * 5 + k * k) % 3) - 1; }

std::vector<uint8_t> params_of(int rank, int ranks, Address a, Address b,
                               const std::vector<Address>& c) {
  const std::string hex = data_file("cutlass_store_params.hex");
  std::vector<uint8_t> out;
  const auto digit = [](char x) { return static_cast<uint8_t>(x <= '9' ? x - '0' : x - 'a' + 10); };
  for (size_t k = 0; k + 1 < hex.size();) {
    if (hex[k] == '\n') {
      ++k;
      continue;
    }
    out.push_back(static_cast<uint8_t>(digit(hex[k]) << 4 | digit(hex[k + 1])));
    k += 2;
  }
  // Tensor maps by place: A, B, the first destination, and one for each rank, the own one first.
  const auto put = [&](size_t at, Address address) {
    TensorMap map;
    std::memcpy(static_cast<void*>(&map), out.data() + at, sizeof map);
    EXPECT_EQ(map.magic, kTensorMapMagic);
    map.address = address;
    std::memcpy(out.data() + at, &map, sizeof map);
  };
  put(128, a);
  put(384, b);
  const auto offset = static_cast<uint64_t>(rank) * kRows * kN * 2;
  put(896, c[static_cast<size_t>(rank)] + offset);
  for (int d = 0; d < ranks; ++d)
    put(1280 + 256 * static_cast<size_t>(d), c[static_cast<size_t>((rank + d) % ranks)] + offset);
  std::memcpy(out.data() + 3328, &ranks, 4);
  return out;
}

struct Outcome {
  Engine::Stop stop = Engine::Stop::kIdle;
  std::vector<ReportedFinding> findings;
  std::string text;
  bool right = true;
  uint64_t peer_bytes = 0;  // stored to other ranks, of all ranks
};

Outcome run(int ranks, uint64_t seed, const std::string& ptx, bool barrier = true) {
  constexpr ScheduleKind kKinds[] = {ScheduleKind::kRandom, ScheduleKind::kPriority,
                                     ScheduleKind::kDelayRank, ScheduleKind::kRandom};
  Job job(ranks, seed, kKinds[seed % 4], nullptr);
  for (int r = 0; r < ranks; ++r) {
    auto module = job.engine->load(r, ptx);
    EXPECT_TRUE(module) << module.error().message;
    job.modules.push_back(*module);
  }
  std::vector<Address> a, b, c;
  for (int r = 0; r < ranks; ++r) {
    a.push_back(job.memory(r, kRows * kK * 2));
    b.push_back(job.memory(r, kN * kK * 2));
    c.push_back(job.memory(r, static_cast<uint64_t>(ranks) * kRows * kN * 2, false));
    std::vector<uint16_t> va(kRows * kK), vb(kN * kK);
    for (uint32_t i = 0; i < va.size(); ++i) va[i] = bf16(a_at(r, i / kK, i % kK));
    for (uint32_t i = 0; i < vb.size(); ++i) vb[i] = bf16(b_at(i / kK, i % kK));
    job.write(a.back(), va);
    job.write(b.back(), vb);
  }
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<size_t>(r);
    Params params;
    params.bytes(params_of(r, ranks, a[rank], b[rank], c));
    job.launch(r, "cutlass_store", {8, 1, 1}, 384, params, {2, 1, 1}, 213504);
  }
  Outcome out;
  out.stop = job.run();
  // What the closing barrier orders, and who then reads.
  if (barrier)
    for (const ActorId from : job.streams)
      for (const ActorId to : job.streams) job.checker->edge(from, to);
  for (size_t r = 0; out.stop == Engine::Stop::kIdle && r < c.size(); ++r) {
    RangeAccess read;
    read.actor = job.streams[r];
    read.begin = c[r];
    read.bytes = static_cast<uint64_t>(ranks) * kRows * kN * 2;
    read.what = "the check";
    job.checker->range(read);
  }
  out.findings = job.findings();
  out.text = texts(job);
  if (out.stop == Engine::Stop::kFault) out.text += job.engine->fault().message;
  for (const GridId grid : job.grids) out.peer_bytes += job.engine->counters(grid).peer_store_bytes;
  std::vector<int> want(kN);
  for (uint32_t m = 0; m < static_cast<uint32_t>(ranks) * kRows; m += 37) {
    for (uint32_t n = 0; n < kN; ++n) {
      want[n] = 0;
      for (uint32_t k = 0; k < kK; ++k)
        want[n] += a_at(static_cast<int>(m / kRows), m % kRows, k) * b_at(n, k);
    }
    for (const Address at : c)
      for (uint32_t n = 0; n < kN; ++n)
        out.right = out.right && reinterpret_cast<const uint16_t*>(at)[m * kN + n] == bf16(want[n]);
  }
  return out;
}

// The n-th instruction of a kind gives way to another.
std::string replaced(std::string ptx, const std::string& what, size_t n, const std::string& by) {
  size_t at = ptx.find(what);
  for (; n > 0 && at != std::string::npos; --n) at = ptx.find(what, at + 1);
  if (at == std::string::npos) return {};
  ptx.replace(at, ptx.find(';', at) + 1 - at, by);
  return ptx;
}

TEST(Cutlass, IsRightAndSilentUnderManySchedules) {
  const std::string ptx = data_file("cutlass_store.ptx");
  for (const int ranks : {2, 4})
    for (uint64_t seed = 1; seed <= (kSlow ? 2u : 20u); ++seed) {
      const Outcome out = run(ranks, seed, ptx);
      ASSERT_EQ(out.stop, Engine::Stop::kIdle) << out.text;
      ASSERT_EQ(out.text, "") << "seed " << seed << ", " << ranks << " ranks";
      ASSERT_TRUE(out.right);
      // The epilogue's stores are issued by whole warps; each box moves once all the same.
      ASSERT_EQ(out.peer_bytes, uint64_t(ranks) * uint64_t(ranks - 1) * kRows * kN * 2);
    }
}

TEST(Cutlass, WithoutTheRanksBarrierTheStoreIsNamed) {
  const Outcome out = run(2, 3, data_file("cutlass_store.ptx"), false);
  ASSERT_FALSE(out.findings.empty());
  EXPECT_EQ(out.findings[0].kind, "race");
  // The task's own line, in the midst of the library's.
  EXPECT_EQ(out.findings[0].before.file, "cutlass_gemm.h");
  EXPECT_THAT(out.findings[0].text, testing::HasSubstr("writes by a bulk copy at cutlass_gemm.h:"));
  EXPECT_THAT(out.findings[0].text, testing::HasSubstr("copy_sm90_tma.hpp:"));
}

TEST(Cutlass, EachMissingProxyFenceIsNamed) {
  const std::string ptx = data_file("cutlass_store.ptx"), fence = "fence.proxy.async.shared::cta";
  size_t sites = 0;
  for (;; ++sites) {
    const std::string without = replaced(ptx, fence, sites, "");
    if (without.empty()) break;
    if (kSlow && sites % 4 != 1) continue;
    const Outcome out = run(2, 1 + sites, without);
    const bool named =
        std::any_of(out.findings.begin(), out.findings.end(), [](const ReportedFinding& f) {
          return f.kind == "race" && f.now.file == "cutlass_gemm.h" && f.before.line != 0 &&
                 f.text.find("no fence.proxy.async") != std::string::npos &&
                 f.advice.find("fence.proxy.async") != std::string::npos;
        });
    EXPECT_TRUE(named) << "site " << sites << '\n' << out.text;
  }
  EXPECT_EQ(sites, 8u);
}

TEST(Cutlass, EachMissingMbarrierWaitIsNamed) {
  const std::string ptx = data_file("cutlass_store.ptx"), wait = "mbarrier.try_wait.parity";
  size_t sites = 0, named = 0;
  std::string silent;
  for (;; ++sites) {
    const std::string without = replaced(ptx, wait, sites, "setp.eq.u32 P1, 0, 0;");
    if (without.empty()) break;
    if (kSlow && sites % 3 != 0) continue;
    const Outcome out = run(2, 1 + sites, without);
    const bool race =
        std::any_of(out.findings.begin(), out.findings.end(),
                    [](const ReportedFinding& f) { return f.kind == "race" && f.now.line != 0; });
    named += race ? 1 : 0;
    if (!race) silent += " " + std::to_string(sites);
  }
  EXPECT_EQ(sites, 13u);
  EXPECT_GE(named, kSlow ? 1u : 3u) << "silent:" << silent;
}

}  // namespace
}  // namespace sculler::emu
