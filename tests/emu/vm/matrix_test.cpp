#include <cmath>
#include <random>

#include "emu/vm/half.h"
#include "emu/vm/harness.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;

struct Gemm {
  int m = 128, n = 128, k = 96;
  Job job;
  uint16_t *a = nullptr, *b = nullptr;
  float* c = nullptr;
  int worst = 0;

  Stop run(const char* kernel) {
    job.load("gemm.ptx");
    a = job.allocate<uint16_t>(static_cast<size_t>(m * k));
    b = job.allocate<uint16_t>(static_cast<size_t>(n * k));
    c = job.allocate<float>(static_cast<size_t>(m * n));
    std::mt19937 rng(1);
    for (int i = 0; i < m * k; ++i)
      a[i] = vm::float_to_bf16(static_cast<float>(static_cast<int>(rng() % 9) - 4));
    for (int i = 0; i < n * k; ++i)
      b[i] = vm::float_to_bf16(static_cast<float>(static_cast<int>(rng() % 9) - 4));
    auto kernel_id = job.engine->kernel(job.modules[0], kernel);
    EXPECT_TRUE(kernel_id);
    LaunchRequest r;
    r.kernel = *kernel_id;
    r.grid = {static_cast<uint32_t>(n / 64), static_cast<uint32_t>(m / 64), 1};
    r.block = {128, 1, 1};
    struct {
      void *a, *b, *c;
      int m, n, k;
    } params{a, b, c, m, n, k};
    r.params.assign(job.engine->info(*kernel_id).param_bytes, 0);
    std::memcpy(r.params.data(), &params, r.params.size());
    EXPECT_TRUE(job.engine->launch(r));
    return job.finish();
  }
  int wrong() const {
    int bad = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float want = 0;
        for (int x = 0; x < k; ++x)
          want += vm::bf16_to_float(a[i * k + x]) * vm::bf16_to_float(b[j * k + x]);
        bad += c[i * n + j] != want;
      }
    return bad;
  }
};

TEST(Matrix, GemmWithAsyncCopies) {
  Gemm g;
  ASSERT_EQ(g.run("gemm_async"), Stop::kIdle) << g.job.engine->fault().message;
  EXPECT_EQ(g.wrong(), 0);
}

TEST(Matrix, AMissingWaitIsSeen) {
  Gemm g;
  ASSERT_EQ(g.run("gemm_no_wait"), Stop::kIdle) << g.job.engine->fault().message;
  EXPECT_GT(g.wrong(), 0);
}

// Fragments of mma.m16n8kK against a plain product.
template <class Get, class Put>
void check_mma(const char* kernel, int k, int per, Get get, Put put) {
  Job job;
  job.load("gemm.ptx");
  auto *a = job.allocate<uint32_t>(128), *b = job.allocate<uint32_t>(64);
  auto *c = job.allocate<float>(128), *d = job.allocate<float>(128);
  std::mt19937 rng(3);
  float ma[16][32] = {}, mb[32][8] = {};
  const int bits = 32 / per;
  for (int r = 0; r < 16 * k / (32 * per); ++r)
    for (int l = 0; l < 32; ++l)
      for (int e = 0; e < per; ++e) {
        const uint32_t v = put(static_cast<int>(rng() % 9) - 4);
        a[r * 32 + l] |= v << (bits * e % 32);
        ma[l / 4 + 8 * (r % 2)][r / 2 * 4 * per + l % 4 * per + e] = get(v);
      }
  for (int r = 0; r < 8 * k / (32 * per); ++r)
    for (int l = 0; l < 32; ++l)
      for (int e = 0; e < per; ++e) {
        const uint32_t v = put(static_cast<int>(rng() % 9) - 4);
        b[r * 32 + l] |= v << (bits * e % 32);
        mb[r * 4 * per + l % 4 * per + e][l / 4] = get(v);
      }
  for (int i = 0; i < 128; ++i) c[i] = static_cast<float>(i);
  job.launch(0, kernel, 1, 32, a, b, c, d);
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (int r = 0; r < 4; ++r)
    for (int l = 0; l < 32; ++l) {
      float want = c[r * 32 + l];
      for (int x = 0; x < k; ++x) want += ma[l / 4 + 8 * (r / 2)][x] * mb[x][l % 4 * 2 + r % 2];
      ASSERT_EQ(d[r * 32 + l], want) << kernel << ' ' << r << ' ' << l;
    }
}

TEST(Matrix, FloatFragments) {
  const auto bf_get = [](uint32_t v) { return vm::bf16_to_float(static_cast<uint16_t>(v)); };
  const auto bf_put = [](int v) { return uint32_t{vm::float_to_bf16(static_cast<float>(v))}; };
  const auto h_get = [](uint32_t v) { return vm::f16_to_float(static_cast<uint16_t>(v)); };
  const auto h_put = [](int v) { return uint32_t{vm::float_to_f16(static_cast<float>(v))}; };
  const auto f_get = [](uint32_t v) { return std::bit_cast<float>(v); };
  const auto f_put = [](int v) { return std::bit_cast<uint32_t>(static_cast<float>(v)); };
  check_mma("mma_bf16_k16", 16, 2, bf_get, bf_put);
  check_mma("mma_bf16_k8", 8, 2, bf_get, bf_put);
  check_mma("mma_f16_k16", 16, 2, h_get, h_put);
  check_mma("mma_tf32_k8", 8, 1, f_get, f_put);
  check_mma("mma_tf32_k4", 4, 1, f_get, f_put);
  // e4m3 of small integers: 1.0 is 0x38.
  const auto e4_put = [](int v) {
    const uint32_t sign = v < 0 ? 0x80u : 0u, m = static_cast<uint32_t>(v < 0 ? -v : v);
    return m == 0 ? 0u : sign | (m == 1 ? 0x38u : m == 2 ? 0x40u : m == 3 ? 0x44u : 0x48u);
  };
  const auto e4_get = [](uint32_t v) {
    const float m = (v & 0x7f) == 0      ? 0
                    : (v & 0x7f) == 0x38 ? 1
                    : (v & 0x7f) == 0x40 ? 2
                    : (v & 0x7f) == 0x44 ? 3
                                         : 4;
    return (v & 0x80) != 0 ? -m : m;
  };
  check_mma("mma_e4m3_k32", 32, 4, e4_get, e4_put);
}

}  // namespace
}  // namespace sculler::emu
