#include <gtest/gtest.h>

#include <cstdlib>

#include "emu/predict/job.h"
#include "emu/predict/predict.h"
#include "traces.h"

namespace sculler::emu::test {
namespace {

constexpr const char* kGolden =
    "cublasGemmEx 7-200\n"
    "cudaMemcpyAsync 204-387\n"
    "cublasGemmEx 201-412\n"
    "cudaMemcpyAsync 416-599\n"
    "closing_barrier 604-610\n";

class PredictTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loaded =
        load_hardware(real_files(), std::string(SCULLER_SOURCE_DIR) + "/profiles/h200x2.toml");
    ASSERT_TRUE(loaded) << loaded.error().text();
    hardware = std::move(*loaded);
  }
  Prediction of(const Trace& trace, Size real, int ranks = 2) {
    PredictRequest request;
    request.n_ranks = ranks;
    request.emulated = work_of(kEmulated, ranks);
    request.real = work_of(real, ranks);
    auto out = predict(trace, request, hardware.rates);
    EXPECT_TRUE(out) << (out ? "" : out.error().text());
    return out ? *out : Prediction{};
  }
  double us(const Trace& trace, Size real) { return of(trace, real).latency_us; }

  static constexpr Size kEmulated{512, 256, 512};
  Hardware hardware;
};

// Medians measured on two H200, µs: bench/results/gemm_allgather/h200x2-1-ladder.jsonl. 0: not
// measured.
struct Measured {
  Size size;
  double nccl, nccl_sym, overlap, copy2, copy4, copy8, tile, tile256, fused, split;
};
constexpr Measured kMeasured[] = {
    {{16384, 2048, 8192}, 951.3, 823.3, 813.4, 607.4, 527.2, 497.9, 950.0, 917.6, 936.7, 793.3},
    {{8192, 4096, 8192}, 676.6, 598.7, 677.2, 0, 460.3, 0, 0, 0, 0, 0},
    {{8192, 8192, 8192}, 1016.1, 936.4, 1047.0, 0, 796.7, 0, 0, 0, 0, 0},
};

TEST_F(PredictTest, BaselinesAndSeedsComeWithinTheirMeasurements) {
  for (const Measured& m : kMeasured) {
    const auto near = [&](const char* what, const Trace& trace, double measured) {
      if (measured == 0) return;
      const double ratio = us(trace, m.size) / measured;
      EXPECT_GT(ratio, 0.85) << what << " K " << m.size.k << ": " << ratio * measured << " against "
                             << measured;
      EXPECT_LT(ratio, 1.15) << what << " K " << m.size.k << ": " << ratio * measured << " against "
                             << measured;
    };
    near("nccl", sequential(2, kEmulated, false), m.nccl);
    near("nccl_sym", sequential(2, kEmulated, true), m.nccl_sym);
    near("nccl_overlap", overlapped(2, kEmulated, 4), m.overlap);
    near("copy_engine, 2 chunks", copy_engine(2, kEmulated, 2), m.copy2);
    near("copy_engine, 4 chunks", copy_engine(2, kEmulated, 4), m.copy4);
    near("copy_engine, 8 chunks", copy_engine(2, kEmulated, 8), m.copy8);
    near("tile_store", seed(2, kEmulated, kTileStore), m.tile);
    near("tile_store, 256 columns", seed(2, kEmulated, kTileStore256), m.tile256);
    near("kernel_fused", seed(2, kEmulated, kKernelFused), m.fused);
    near("split_phase", seed(2, kEmulated, kPush, true), m.split);
  }
}

TEST_F(PredictTest, TheOrderAtTheFirstSizeIsTheMeasuredOne) {
  const Size size = kMeasured[0].size;
  const std::vector<double> rising{
      us(copy_engine(2, kEmulated, 8), size),   us(copy_engine(2, kEmulated, 4), size),
      us(copy_engine(2, kEmulated, 2), size),   us(seed(2, kEmulated, kPush, true), size),
      us(overlapped(2, kEmulated, 4), size),    us(sequential(2, kEmulated, true), size),
      us(seed(2, kEmulated, kTileStore), size), us(sequential(2, kEmulated, false), size)};
  for (size_t i = 1; i < rising.size(); ++i) EXPECT_GT(rising[i], rising[i - 1]) << i;
}

// Golden: the time line of the copy engine's baseline, in whole microseconds.
TEST_F(PredictTest, TheTimeLineOfTheCopyEngine) {
  std::string text;
  for (const PredictedOp& op : of(copy_engine(2, kEmulated, 2), kMeasured[0].size).ops) {
    if (op.rank != 0 || op.end_us - op.start_us < 0.5) continue;
    text += op.name + " " + std::to_string(static_cast<int>(op.start_us + 0.5)) + "-" +
            std::to_string(static_cast<int>(op.end_us + 0.5)) + "\n";
  }
  EXPECT_EQ(text, kGolden);
}

TEST_F(PredictTest, MoreWorkNeverTakesLess) {
  const std::vector<Trace> traces{sequential(2, kEmulated, false), sequential(2, kEmulated, true),
                                  overlapped(2, kEmulated, 4), copy_engine(2, kEmulated, 4),
                                  seed(2, kEmulated, kTileStore)};
  for (const Trace& trace : traces) {
    double before = 0;
    for (const int64_t s : {512, 1024, 4096, 8192, 16384, 32768}) {
      const double now = us(trace, {s, 2048, 8192});
      EXPECT_GE(now, before * 0.999);
      before = now;
    }
    EXPECT_GT(us(trace, {16384, 4096, 8192}), us(trace, {16384, 2048, 8192}));
  }
}

TEST_F(PredictTest, NothingIsBelowTheSpeedOfLight) {
  const std::vector<Trace> traces{sequential(2, kEmulated, false), sequential(2, kEmulated, true),
                                  overlapped(2, kEmulated, 4), copy_engine(2, kEmulated, 4),
                                  seed(2, kEmulated, kTileStore)};
  for (const Measured& m : kMeasured) {
    const auto light = task::speed_of_light(hardware.profile, work_of(m.size, 2), "bf16");
    ASSERT_TRUE(light) << light.error().text();
    for (const Trace& trace : traces) EXPECT_GT(us(trace, m.size), light->us);
  }
}

// A warp a row that loads every key and value anew: its work grows with the task's arithmetic, T *
// T, not with its memory, T.
TEST_F(PredictTest, AttentionGrowsWithItsArithmetic) {
  const auto work = [](double t, double d) {
    return task::Work{8 * t * t * d, 40 * t * d, 8 * t * d};
  };
  GridCounters c;
  c.warp_instructions = 160'000;
  c.fp_flops = 2 * 32 * 32 * 64 * 2;
  c.global_load_bytes = 32 * 32 * 64 * 8;
  c.global_store_bytes = 8448;
  c.global_transactions = c.global_load_bytes / 32;
  c.blocks = 8;
  c.resident_limit = 2112;
  c.threads_per_block = 128;
  TraceBuilder b(2, kEmulated);
  for (int r = 0; r < 2; ++r) {
    for (int step = 0; step < 2; ++step) b.kernel(r, 1, "attend", c);
    b.mark(r, "done");
  }
  PredictRequest request;
  request.n_ranks = 2;
  request.emulated = work(32, 64);
  const auto us = [&](double t) {
    request.real = work(t, 128);
    const auto out = predict(b.trace, request, hardware.rates);
    EXPECT_TRUE(out) << out.error().text();
    const auto light = task::speed_of_light(hardware.profile, request.real, "f32");
    EXPECT_TRUE(light);
    EXPECT_GT(out->latency_us, light->us);
    return out->latency_us;
  };
  const double half = us(8192), full = us(16384);
  EXPECT_NEAR(full / half, 4, 0.2);
}

// Blocks that exchange letters and meet in barriers do so at any size: only the payload grows.
TEST_F(PredictTest, BarriersAndTablesDoNotGrowWithTheData) {
  const auto work = [](double bytes) { return task::Work{0, 4 * bytes, bytes}; };
  GridCounters c;
  c.warp_instructions = 60'000;
  c.global_load_bytes = 400'000;  // tables, by every thread
  c.global_store_bytes = 4096 + 800;
  c.peer_store_bytes = 4096 + 64;
  c.peer_control_bytes = 12'288;
  c.global_transactions = 3000;
  c.blocks = 16;
  c.resident_limit = 264;
  c.threads_per_block = 512;
  TraceBuilder b(2, kEmulated);
  for (int r = 0; r < 2; ++r) {
    b.kernel(r, 1, "exchange_kernel", c);
    b.mark(r, "done");
  }
  PredictRequest request;
  request.n_ranks = 2;
  request.emulated = work(4096);
  request.real = work(33'554'432);
  const auto out = predict(b.trace, request, hardware.rates);
  ASSERT_TRUE(out) << out.error().text();
  const double link_us = 33'554'432 / hardware.rates.store * 1e6;
  EXPECT_GT(out->latency_us, link_us);
  EXPECT_LT(out->latency_us, 2 * link_us);
}

TEST_F(PredictTest, FasterPartsGiveAFasterWhole) {
  const Size size = kMeasured[0].size;
  const Trace trace = copy_engine(2, kEmulated, 4);
  const double before = us(trace, size);
  hardware.rates.copy *= 1.05;
  EXPECT_LT(us(trace, size), before);
  hardware.rates.gemm *= 1.2;
  EXPECT_LT(us(trace, size), 0.95 * before);
}

TEST_F(PredictTest, CopiesSlowTheGemmAndSharedLinksSlowCopies) {
  const Size size = kMeasured[0].size;
  const double with = us(copy_engine(2, kEmulated, 4), size);
  hardware.rates.copy_interference = 0;
  EXPECT_LT(us(copy_engine(2, kEmulated, 4), size), with);
  // Two copies to one peer at once take twice as long as one.
  TraceBuilder one(2, kEmulated);
  TraceBuilder two(2, kEmulated);
  for (int r = 0; r < 2; ++r) {
    one.copy(r, 1, 1, 1 - r);
    two.copy(r, 1, 1, 1 - r);
    two.copy(r, 2, 1, 1 - r);
  }
  EXPECT_NEAR(us(two.trace, size) / us(one.trace, size),
              2 * hardware.rates.copy / hardware.rates.link, 0.08);
}

TEST_F(PredictTest, TheLastIterationCounts) {
  Trace trace = sequential(2, kEmulated, false);
  const double alone = us(trace, kMeasured[0].size);
  // An earlier iteration and work after "done" change nothing.
  TraceBuilder b(2, kEmulated);
  for (int round = 0; round < 2; ++round) {
    for (int r = 0; r < 2; ++r) {
      if (round == 1) b.mark(r, "opened");
      b.gemm(r, 1, 1);
      b.gather(r, 1, 1, static_cast<uint32_t>(round), false);
      b.mark(r, "done");
      b.gemm(r, 1, 1);
    }
  }
  EXPECT_NEAR(us(b.trace, kMeasured[0].size), alone, 1e-6);
}

TEST_F(PredictTest, TheHostWaitsWhereItSynchronises) {
  const Size size = kMeasured[0].size;
  TraceBuilder b(2, kEmulated);
  for (int r = 0; r < 2; ++r) {
    const uint32_t first = b.gemm(r, 1, 1);
    b.add(r, UINT32_MAX, OpKind::kHostWait, "cudaStreamSynchronize", {first});
    b.copy(r, 2, 1, 1 - r);
  }
  TraceBuilder free(2, kEmulated);
  for (int r = 0; r < 2; ++r) {
    free.gemm(r, 1, 1);
    free.copy(r, 2, 1, 1 - r);
  }
  EXPECT_GT(us(b.trace, size), us(free.trace, size) + 300);
}

TEST_F(PredictTest, AKernelThatMeetsWaitsForTheSlowerRank) {
  const Size size = kMeasured[0].size;
  Trace trace = copy_engine(2, kEmulated, 4);
  for (TraceOp& op : trace.ops) {
    if (op.kind == OpKind::kGemm && op.rank == 1) op.flops *= 2;
  }
  const Prediction both = of(trace, size);
  EXPECT_NEAR(both.per_rank_us[0], both.per_rank_us[1], 1.0);
}

TEST_F(PredictTest, ProductsOfFloat32RunAtTheirOwnRate) {
  const Size size = kMeasured[0].size;
  TraceBuilder b(2, kEmulated);
  for (int r = 0; r < 2; ++r) b.gemm(r, 1, 1);
  const double half = us(b.trace, size);
  for (TraceOp& op : b.trace.ops) op.float32 = true;
  EXPECT_GT(us(b.trace, size), 10 * half);
}

TEST_F(PredictTest, TheHarnessBarrierIsLeftOut) {
  // What the job mode leaves: the mark, the barrier, the host's wait, the iteration, the closing
  // wait.
  const Size size = kMeasured[0].size;
  const auto build = [&](bool barrier) {
    TraceBuilder b(2, kEmulated);
    for (int r = 0; r < 2; ++r) {
      if (barrier) {
        const uint32_t before = b.gemm(r, 1, 1);  // stands for all that the harness does
        b.add(r, UINT32_MAX, OpKind::kHostWait, "cudaDeviceSynchronize", {before});
      }
      const uint32_t last = b.gemm(r, 1, 1);
      b.add(r, UINT32_MAX, OpKind::kHostWait, "cudaDeviceSynchronize", {last});
    }
    return b.trace;
  };
  PredictRequest request;
  request.n_ranks = 2;
  request.emulated = work_of(kEmulated, 2);
  request.real = work_of(size, 2);
  const auto plain = predict(build(false), request, hardware.rates);
  request.after_first_wait = true;
  const auto harness = predict(build(true), request, hardware.rates);
  ASSERT_TRUE(plain && harness);
  EXPECT_NEAR(plain->latency_us, harness->latency_us, 1e-6);
}

TEST_F(PredictTest, AJobsPrediction) {
  Trace trace = copy_engine(2, kEmulated, 4);
  const std::string profile = std::string(SCULLER_SOURCE_DIR) + "/profiles/h200x2.toml";
  const auto json = [&](const std::string& predict_object) {
    return "{\"profile\":\"" + profile + "\"" + predict_object + "}";
  };
  const auto none = predict_job(json(""), trace, 2, real_files());
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  const std::string work =
      R"(,"predict":{"size":"default","dims":[16384,2048,8192],"work":{"flops":274877906944,"hbm_bytes":335544320,"link_bytes":134217728},"work_emulated":{"flops":67108864,"hbm_bytes":917504,"link_bytes":262144}})";
  const auto some = predict_job(json(work), trace, 2, real_files());
  ASSERT_TRUE(some) << some.error().text();
  ASSERT_TRUE(some->has_value());
  EXPECT_NE((*some)->json.find("\"latency_us\":"), std::string::npos);
  EXPECT_NE((*some)->json.find("\"size\":\"default\""), std::string::npos);
  EXPECT_NE((*some)->json.find("cublasGemmEx"), std::string::npos);
  EXPECT_FALSE((*some)->prediction.ops.empty());
  EXPECT_FALSE(predict_job(json(",\"predict\":{}"), trace, 2, real_files()));
  EXPECT_FALSE(predict_job("{\"predict\":{}}", trace, 2, real_files()));
}

TEST_F(PredictTest, BadTracesAreRefused) {
  PredictRequest request;
  request.n_ranks = 2;
  request.emulated = work_of(kEmulated, 2);
  request.real = work_of(kMeasured[0].size, 2);
  EXPECT_FALSE(predict(Trace{}, request, hardware.rates));
  Trace trace = sequential(2, kEmulated, false);
  request.n_ranks = 1;
  EXPECT_FALSE(predict(trace, request, hardware.rates));
  request.n_ranks = 0;
  EXPECT_FALSE(predict(trace, request, hardware.rates));
}

TEST_F(PredictTest, AProfileWithoutARateIsNamed) {
  task::Profile profile = hardware.profile;
  profile.numbers.erase("measured.copy_gbs");
  const auto out = hardware_of(profile);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().key, "measured.copy_gbs");
  profile.numbers["measured.copy_gbs"] = -1;
  EXPECT_FALSE(hardware_of(profile));
  EXPECT_EQ(hardware.device.limits.sms, 132u);
  EXPECT_EQ(hardware.device.major, 9);
  EXPECT_FALSE(hardware.device.multicast);
}

}  // namespace
}  // namespace sculler::emu::test
