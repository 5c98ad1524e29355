#include <cmath>

#include "emu/device/numeric.h"
#include "fixture.h"

namespace sculler::emu::test {
namespace {

// Column-major reference in double.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, int64_t m,
                            int64_t n, int64_t k, bool ta, bool tb, int64_t lda, int64_t ldb) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        sum += a[static_cast<size_t>(ta ? x + i * lda : i + x * lda)] *
               b[static_cast<size_t>(tb ? j + x * ldb : x + j * ldb)];
      }
      c[static_cast<size_t>(i + j * m)] = sum;
    }
  }
  return c;
}

TEST_F(DeviceTest, GemmInEveryTransposition) {
  make(1);
  constexpr int64_t kM = 70, kN = 7, kK = 33;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const int64_t lda = (ta ? kK : kM) + 3;
      const int64_t ldb = (tb ? kN : kK) + 1;
      std::vector<double> a(static_cast<size_t>(lda * (ta ? kM : kK)));
      std::vector<double> b(static_cast<size_t>(ldb * (tb ? kK : kN)));
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * 7 % 11) - 5;
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i * 5 % 13) - 6;
      std::vector<uint16_t> a16, b16;
      for (const double v : a) a16.push_back(numeric::float_to_bf16(static_cast<float>(v)));
      for (const double v : b) b16.push_back(numeric::float_to_bf16(static_cast<float>(v)));
      GemmRequest g;
      g.a = device(0, a16.size() * 2);
      g.b = device(0, b16.size() * 2);
      g.c = device(0, static_cast<uint64_t>((kM + 5) * kN) * 4);
      put(0, g.a, a16);
      put(0, g.b, b16);
      put(0, g.c, std::vector<float>(static_cast<size_t>((kM + 5) * kN), 2.0f));
      g.transpose_a = ta ? 1 : 0;
      g.transpose_b = tb ? 1 : 0;
      g.m = kM;
      g.n = kN;
      g.k = kK;
      g.lda = lda;
      g.ldb = ldb;
      g.ldc = kM + 5;
      g.a_type = g.b_type = CudaType::kR16BF;
      g.alpha = 0.5;
      g.beta = 3;
      ASSERT_EQ(machine->gemm({0}, g).error, 0);
      drain();
      ASSERT_TRUE(machine->faults().empty()) << fault();
      const auto c = get<float>(0, g.c, static_cast<size_t>((kM + 5) * kN));
      const auto want = product(a, b, kM, kN, kK, ta, tb, lda, ldb);
      for (int64_t j = 0; j < kN; ++j) {
        for (int64_t i = 0; i < kM + 5; ++i) {
          const float expect =
              i < kM ? static_cast<float>(0.5 * want[static_cast<size_t>(i + j * kM)] + 6) : 2.0f;
          ASSERT_EQ(c[static_cast<size_t>(i + j * (kM + 5))], expect) << i << " " << j;
        }
      }
    }
  }
}

TEST_F(DeviceTest, BatchedGemmReportsWhatItTouches) {
  make(1);
  GemmRequest g;
  g.m = g.n = g.k = 2;
  g.lda = g.ldb = 2;
  g.ldc = 4;
  g.batch = 3;
  g.stride_a = 4;
  g.stride_b = 0;
  g.stride_c = 8;
  g.a = device(0, 12 * 4);
  g.b = device(0, 4 * 4);
  g.c = device(0, 24 * 4);
  put<float>(0, g.a, {1, 0, 0, 1, 2, 0, 0, 2, 3, 0, 0, 3});
  put<float>(0, g.b, {1, 2, 3, 4});
  recorder->touches.clear();
  ASSERT_EQ(machine->gemm({0}, g).error, 0);
  drain();
  uint64_t stored = 0;
  for (const auto& touch : recorder->touches)
    stored += touch.access == Access::kStore ? touch.bytes : 0;
  EXPECT_EQ(stored, 3u * 2 * 2 * 4);
  EXPECT_EQ(get<float>(0, g.c + 2 * 8 * 4, 2), (std::vector<float>{3, 6}));
  EXPECT_EQ(get<float>(0, g.c + 2 * 8 * 4 + 16, 2), (std::vector<float>{9, 12}));
  g.ldc = 1;
  EXPECT_EQ(machine->gemm({0}, g).error, kCublasInvalidValue);
  g.ldc = 4;
  g.m = -1;
  EXPECT_EQ(machine->gemm({0}, g).error, kCublasInvalidValue);
}

TEST_F(DeviceTest, GemmOutsideOfItsBuffersIsNamed) {
  make(1);
  GemmRequest g;
  g.m = g.n = g.k = 4;
  g.lda = g.ldb = g.ldc = 4;
  g.a = device(0, 60);  // one float short
  g.b = device(0, 64);
  g.c = device(0, 64);
  ASSERT_EQ(machine->gemm({0}, g).error, 0);
  EXPECT_EQ(finish(machine->device_synchronize({0})), kCudaIllegalAddress);
  EXPECT_NE(fault().find("cublasGemmEx of rank 0 reads"), std::string::npos) << fault();
}

TEST(Numeric, SmallFloatsRoundToNearestEven) {
  using namespace numeric;
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.00390625f), 0x3f80);  // half a unit: to even
  EXPECT_EQ(float_to_bf16(1.01171875f), 0x3f82);
  EXPECT_EQ(float_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);       // overflows to infinity
  EXPECT_EQ(float_to_f16(5.9604645e-8f), 0x0001);  // the smallest denormal
  EXPECT_EQ(float_to_f16(2.9802322e-8f), 0x0000);
  EXPECT_EQ(float_to_e4m3(448.0f), 0x7e);
  EXPECT_EQ(float_to_e4m3(1e6f), 0x7e);  // saturates
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7f)));
  EXPECT_EQ(float_to_e5m2(57344.0f), 0x7b);
  EXPECT_TRUE(std::isinf(e5m2_to_float(0x7c)));
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_float(half);
    if (!std::isnan(value)) { ASSERT_EQ(float_to_f16(value), half); }
  }
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    if (!std::isnan(e4m3_to_float(byte))) { ASSERT_EQ(float_to_e4m3(e4m3_to_float(byte)), byte); }
  }
}

}  // namespace
}  // namespace sculler::emu::test
