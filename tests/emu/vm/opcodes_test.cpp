// Families of instructions against what the host computes.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "emu/vm/half.h"
#include "emu/vm/harness.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;
using u32 = uint32_t;
using u64 = uint64_t;
using s32 = int32_t;
using s64 = int64_t;

constexpr size_t kRows = 64;

class Opcodes : public ::testing::Test {
 protected:
  Opcodes() { job.load("opcodes.ptx"); }
  template <class T, class F>
  T* fill(F f, size_t n = 32) {
    T* p = job.allocate<T>(n);
    for (size_t i = 0; i < n; ++i) p[i] = f(static_cast<int>(i));
    return p;
  }
  template <class... A>
  void run(const char* kernel, unsigned threads, A... args) {
    job.launch(0, kernel, 1, threads, args...);
    ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  }
  std::mt19937_64 rng{5};
  Job job;
};

#define ROW(K, ...)                                                      \
  for (int t = 0; t < 32; ++t) {                                         \
    const auto want = (__VA_ARGS__);                                     \
    ASSERT_EQ(out[(K) * 32 + t], want) << #__VA_ARGS__ << " lane " << t; \
  }

u32 bfe(u64 a, u32 pos, u32 len, u32 bits, bool sign) {
  u64 r = pos >= bits ? 0 : a >> pos;
  const u32 have = pos >= bits ? 0 : std::min(len, bits - pos);
  const u64 mask = have >= 64 ? ~u64{0} : (u64{1} << have) - 1;
  const u32 top = std::min(pos + len - 1, bits - 1);
  r &= mask;
  if (sign && len > 0 && (a >> top & 1)) r |= ~mask;
  return static_cast<u32>(r);
}

TEST_F(Opcodes, Integer32) {
  auto* a = fill<u32>([&](int i) {
    return i < 4 ? u32{0} - static_cast<u32>(i) : static_cast<u32>(rng()) >> (i % 5 * 4);
  });
  auto* b = fill<u32>([&](int i) { return i == 5 ? 0u : static_cast<u32>(rng()) >> (i % 7 * 3); });
  auto* out = job.allocate<u32>(kRows * 32);
  run("integer32", 32, a, b, out);
#define X a[t]
#define Y b[t]
#define SX static_cast<s32>(a[t])
#define SY static_cast<s32>(b[t])
  ROW(0, static_cast<u32>(u64{X} * Y >> 32))
  ROW(1, static_cast<u32>(s64{SX} * SY >> 32))
  ROW(2, X / (Y | 1))
  ROW(3, static_cast<u32>(s64{SX} / (SY | 1)))
  ROW(4, X % (Y | 1))
  ROW(5, static_cast<u32>(s64{SX} % (SY | 1)))
  ROW(6, static_cast<u32>(std::popcount(X)))
  ROW(7, static_cast<u32>(std::countl_zero(X)))
  ROW(8, [&] {
    u32 r = 0;
    for (int k = 0; k < 32; ++k) r |= (X >> k & 1) << (31 - k);
    return r;
  }())
  ROW(9, X == 0 ? 0u : static_cast<u32>(std::countr_zero(X)) + 1)
  ROW(10, (X & 0xff) | (Y & 0xff) << 8 | (X >> 8 & 0xff) << 16 | (Y >> 8 & 0xff) << 24)
  ROW(11, Y << 7 | X >> 25)
  ROW(12, t == 0 ? X : static_cast<u32>((u64{Y} << 32 | X) >> t))
  ROW(13, [&] {
    const u64 v = u64{Y} << 32 | X;
    const int n = std::min(t + 10, 32);
    return static_cast<u32>((v << n) >> 32);
  }())
  ROW(14, static_cast<u32>(std::abs(s64{SX} - SY) + 5))
  ROW(15, (X > Y ? X - Y : Y - X) + 5)
  ROW(16, [&] {
    s32 r = 3;
    for (int k = 0; k < 32; k += 8) r += static_cast<int8_t>(X >> k) * static_cast<int8_t>(Y >> k);
    return static_cast<u32>(r);
  }())
  ROW(17, [&] {
    u32 r = 3;
    for (int k = 0; k < 32; k += 8) r += (X >> k & 0xff) * (Y >> k & 0xff);
    return r;
  }())
  ROW(18, static_cast<u32>(s64{static_cast<s32>(X << 8) >> 8} * (static_cast<s32>(Y << 8) >> 8)))
  ROW(19, (X & 0xffffff) * (Y & 0xffffff))
  ROW(20, static_cast<u32>(std::min(SX, SY)))
  ROW(21, std::max(X, Y))
  ROW(22, SX < 0 ? 0 - X : X)
  ROW(23, bfe(X, static_cast<u32>(t), 9, 32, false))
  ROW(24, bfe(X, static_cast<u32>(t), 9, 32, true))
  ROW(25, [&] {
    const u32 m = 0x7ffu << t;
    return (Y & ~m) | (X << t & m);
  }())
  ROW(26, X == 0 ? ~0u : 31 - static_cast<u32>(std::countl_zero(X)))
  ROW(27, [&] {
    const u32 v = SX < 0 ? ~X : X;
    return v == 0 ? ~0u : static_cast<u32>(std::countl_zero(v));
  }())
  ROW(28, (X & Y) | (~X & X >> 3))
  ROW(29, static_cast<u32>(std::clamp<s64>(s64{SX} + SY, INT32_MIN, INT32_MAX)))
  ROW(30, static_cast<s32>(X ^ Y) >= 0 ? X : Y)
  ROW(31, static_cast<u32>(u64{X} * Y >> 32) + 7)
  ROW(32, (X & 0xffff) * (X >> 16))
  ROW(33, static_cast<u32>((u64{Y} << 32 | X) >> (8 * (t & 3))))
  ROW(34, SX < SY ? ~0u : 0u)
  ROW(35, (SX > SY && X < 99 ? 1u : 0u) + (!(SX > SY) && X < 99 ? 2u : 0u))
  ROW(36, static_cast<u32>((u64{Y} << 32 | X) >> ((t + 5) & 31)))
  ROW(37, [&] {
    const auto lo = std::min(static_cast<int16_t>(X), static_cast<int16_t>(Y)),
               hi = std::min(static_cast<int16_t>(X >> 16), static_cast<int16_t>(Y >> 16));
    return u32{static_cast<uint16_t>(lo)} | u32{static_cast<uint16_t>(hi)} << 16;
  }())
}

__extension__ using Wide = __int128;
__extension__ using UWide = unsigned __int128;

TEST_F(Opcodes, Integer64) {
  auto* a =
      fill<u64>([&](int i) { return i < 3 ? u64{0} - static_cast<u64>(i) : rng() >> (i % 6 * 9); });
  auto* b = fill<u64>([&](int i) { return rng() >> (i % 5 * 11); });
  auto* out = job.allocate<u64>(kRows * 32);
  run("integer64", 32, a, b, out);
#undef SX
#undef SY
#define SX static_cast<s64>(a[t])
#define SY static_cast<s64>(b[t])
  ROW(0, static_cast<u64>(UWide{X} * Y >> 64))
  ROW(1, static_cast<u64>(Wide{SX} * SY >> 64))
  ROW(2, X / (Y | 1))
  ROW(3, static_cast<u64>((SY | 1) == -1 ? 0 : SX % (SY | 1)))
  ROW(4, static_cast<u64>(std::popcount(X)))
  ROW(5, static_cast<u64>(std::countl_zero(X)))
  ROW(6, [&] {
    u64 r = 0;
    for (int k = 0; k < 64; ++k) r |= (X >> k & 1) << (63 - k);
    return r;
  }())
  ROW(7, t * 3 > 63 ? u64{0} : X << (t * 3))
  ROW(8, t * 3 > 63 ? u64{0} : X >> (t * 3))
  ROW(9, static_cast<u64>(SX >> t))
  ROW(10, static_cast<u64>(UWide{X} * Y + (UWide{Y} << 64) + X))
  ROW(11, static_cast<u64>((UWide{X} * Y + (UWide{Y} << 64) + X) >> 64))
  ROW(12, static_cast<u64>(Wide{SX} - Wide{SY} * (Wide{1} << 31)))
  ROW(13, static_cast<u64>((Wide{SX} - Wide{SY} * (Wide{1} << 31)) >> 64))
  ROW(14, [&] {
    const int p = t * 2;
    u64 v = X >> p;
    const int have = std::min(17, 64 - p);
    const u64 m = (u64{1} << have) - 1;
    v &= m;
    if (X >> std::min(p + 16, 63) & 1) v |= ~m;
    return v;
  }())
  ROW(15, [&] {
    const u64 m = u64{0xfffff} << t;
    return (Y & ~m) | (X << t & m);
  }())
  ROW(16, static_cast<u64>(s64{static_cast<int8_t>(X)}))
  ROW(17, static_cast<u64>(s64{static_cast<int16_t>(X)}))
  ROW(18, static_cast<u64>(std::max(SX, SY)))
}

template <class T, class F>
T with_mode(int mode, F f) {
  const int saved = std::fegetround();
  std::fesetround(mode);
  volatile T r = f();
  std::fesetround(saved);
  return r;
}

float special_float(int i) {
  const float all[] = {0.0f, -0.0f,  1.0f,    -1.5f, INFINITY, -INFINITY,
                       NAN,  1e-40f, 3.4e38f, 0.1f,  1e10f,    -2.5f};
  return i < 12
             ? all[i]
             : std::sin(static_cast<float>(i) * 3.7f) * std::exp2(static_cast<float>(i % 13 - 6));
}
#define SAME_FLOAT(K, WANT)                                                       \
  for (int t = 0; t < 32; ++t) {                                                  \
    volatile float x = a[t], y = b[t];                                            \
    (void)y;                                                                      \
    const float want = (WANT), got = out[(K) * 32 + t];                           \
    if (std::isnan(want)) ASSERT_TRUE(std::isnan(got)) << #WANT << " lane " << t; \
    else                                                                          \
      ASSERT_EQ(std::bit_cast<u32>(got), std::bit_cast<u32>(want))                \
          << #WANT << " lane " << t << ' ' << got << ' ' << want;                 \
  }
float flush(float v) {
  return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v;
}

TEST_F(Opcodes, Float32) {
  auto* a = fill<float>([](int i) { return special_float(i); });
  auto* b = fill<float>([](int i) { return special_float((i * 5 + 3) % 32); });
  auto* out = job.allocate<float>(kRows * 32);
  run("float32", 32, a, b, out);
  SAME_FLOAT(0, x + y)
  SAME_FLOAT(1, with_mode<float>(FE_TOWARDZERO, [&] { return x * y; }))
  SAME_FLOAT(2, with_mode<float>(FE_UPWARD, [&] { return x + y; }))
  SAME_FLOAT(3, with_mode<float>(FE_DOWNWARD, [&] { return x + y; }))
  SAME_FLOAT(4, std::fma(x, y, 0.3f))
  SAME_FLOAT(5, with_mode<float>(FE_TOWARDZERO, [&] { return std::fma(x, y, 0.3f); }))
  SAME_FLOAT(6, x / y)
  SAME_FLOAT(7, std::sqrt(std::fabs(x)))
  SAME_FLOAT(8, 1.0f / x)
  SAME_FLOAT(9, (x != x             ? y
                 : y != y           ? x
                 : x == 0 && y == 0 ? (std::signbit(x) ? x : y)
                                    : std::fmin(x, y)))
  SAME_FLOAT(10, (x != x             ? y
                  : y != y           ? x
                  : x == 0 && y == 0 ? (std::signbit(x) ? y : x)
                                     : std::fmax(x, y)))
  SAME_FLOAT(11, std::copysign(x, y))
  SAME_FLOAT(12, (x != x ? 0.0f : x > 0 ? (x < 1 ? x : 1.0f) : 0.0f))
  SAME_FLOAT(13, std::nearbyint(x))
  SAME_FLOAT(14, std::trunc(x))
  SAME_FLOAT(15, std::floor(x))
  SAME_FLOAT(16, std::ceil(x))
  SAME_FLOAT(17, std::fabs(x))
  SAME_FLOAT(18, -x)
  SAME_FLOAT(19, flush(flush(x * 1e-38f) + flush(y * 1e-39f)))
  SAME_FLOAT(20, std::isnormal(x * 1e-38f) ? 1.0f : 0.0f)
  SAME_FLOAT(21, !(x >= y) ? 1.0f : 0.0f)
  SAME_FLOAT(22, (x != x || y != y   ? NAN
                  : x == 0 && y == 0 ? (std::signbit(x) ? y : x)
                                     : std::fmax(x, y)))
}

#define NEAR(K, WANT)                                                                      \
  for (int t = 0; t < 32; ++t) {                                                           \
    const double x = static_cast<double>(a[t]);                                            \
    const double want = (WANT), got = static_cast<double>(out[(K) * 32 + t]);              \
    ASSERT_NEAR(got, want, 4e-6 * std::max(1.0, std::fabs(want))) << #WANT << " of " << x; \
  }
TEST_F(Opcodes, Approximate) {
  auto* a = fill<float>([](int i) { return (static_cast<float>(i) - 15.5f) * 0.37f; });
  auto* out = job.allocate<float>(kRows * 32);
  run("approximate", 32, a, out);
  NEAR(0, std::exp(x))
  NEAR(1, std::log(std::fabs(x)))
  NEAR(2, std::sin(x))
  NEAR(3, std::cos(x))
  NEAR(4, 1 / std::sqrt(std::fabs(x)))
  NEAR(5, 1 / x)
  NEAR(6, std::tanh(x))
  NEAR(7, std::exp(x))
  NEAR(8, std::log(std::fabs(x)))
  NEAR(9, std::sin(x))
  NEAR(10, std::pow(std::fabs(x), 1.7))
  NEAR(11, std::tanh(x))
  NEAR(12, std::erf(x))
  NEAR(13, 1 / x)
}
#undef NEAR
#define NEAR(K, WANT)                                                                       \
  for (int t = 0; t < 32; ++t) {                                                            \
    const double x = a[t], y = b[t];                                                        \
    (void)y;                                                                                \
    const double want = (WANT), got = out[(K) * 32 + t];                                    \
    ASSERT_NEAR(got, want, 1e-14 * std::max(1.0, std::fabs(want))) << #WANT << " of " << x; \
  }
TEST_F(Opcodes, Float64) {
  auto* a = fill<double>([](int i) { return (i - 15.5) * 0.37; });
  auto* b = fill<double>([](int i) { return std::sin(i * 1.7) + 2; });
  auto* out = job.allocate<double>(kRows * 32);
  run("float64", 32, a, b, out);
  NEAR(0, x + y)
  NEAR(1, x * y)
  NEAR(2, x / y)
  NEAR(3, std::sqrt(std::fabs(x)))
  NEAR(4, std::fma(x, y, 1.5))
  NEAR(5, std::exp(x))
  NEAR(6, std::log(std::fabs(x)))
  NEAR(7, std::fmin(x, y))
  NEAR(8, x + y)
  NEAR(9, std::nearbyint(x))
  NEAR(10, std::pow(std::fabs(x), 0.3))
}

template <class T>
u64 clamped(double v, double rounded) {
  if (std::isnan(v)) return sizeof(T) == 8 ? u64{1} << 63 : 0;
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max()))
    return static_cast<u64>(static_cast<s64>(std::numeric_limits<T>::max()));
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min()))
    return static_cast<u64>(static_cast<s64>(std::numeric_limits<T>::min()));
  return static_cast<u64>(static_cast<s64>(static_cast<T>(rounded)));
}

TEST_F(Opcodes, Conversions) {
  auto* f = fill<float>([](int i) { return special_float(i); });
  auto* d = fill<double>([](int i) {
    return i < 12 ? static_cast<double>(special_float(i))
                  : std::sin(i * 2.1) * std::exp2(i * 2 - 20);
  });
  auto* i =
      fill<s64>([&](int k) { return k < 4 ? s64{k} - 2 : static_cast<s64>(rng()) >> (k % 8 * 8); });
  auto* out = job.allocate<u64>(kRows * 32);
  run("conversions", 32, f, d, i, out);
#define F static_cast<double>(f[t])
  ROW(0, clamped<s32>(F, std::nearbyint(F)))
  ROW(1, clamped<s32>(F, std::trunc(F)))
  ROW(2, clamped<s32>(F, std::ceil(F)))
  ROW(3, clamped<s32>(F, std::floor(F)))
  ROW(4, clamped<u32>(F, std::trunc(F)))
  ROW(5, clamped<s64>(F, std::nearbyint(F)))
  ROW(7, clamped<s32>(d[t], std::nearbyint(d[t])))
  ROW(8, clamped<s64>(d[t], std::trunc(d[t])))
#define BITS(V) (std::isnan(V) ? u64{0x7fffffff} : u64{std::bit_cast<u32>(V)})
  for (int t = 0; t < 32; ++t) {
    if (std::isnan(d[t])) continue;
    volatile double v = d[t];
    ASSERT_EQ(out[9 * 32 + t], u64{std::bit_cast<u32>(with_mode<float>(
                                   FE_TOWARDZERO, [&] { return static_cast<float>(v); }))})
        << t;
    ASSERT_EQ(
        out[10 * 32 + t],
        u64{std::bit_cast<u32>(with_mode<float>(FE_UPWARD, [&] { return static_cast<float>(v); }))})
        << t;
    volatile s64 n = i[t];
    ASSERT_EQ(out[12 * 32 + t], u64{std::bit_cast<u32>(with_mode<float>(
                                    FE_TOWARDZERO, [&] { return static_cast<float>(n); }))})
        << t;
  }
  ROW(11, u64{std::bit_cast<u32>(static_cast<float>(i[t]))})
  ROW(13, std::bit_cast<u64>(static_cast<double>(i[t])))
  ROW(14, u64{std::bit_cast<u32>(static_cast<float>(static_cast<s32>(i[t])))})
  ROW(15, u64{std::bit_cast<u32>(static_cast<float>(static_cast<u32>(i[t])))})
  ROW(16, u64{static_cast<uint8_t>(i[t])})
  ROW(17, u64{static_cast<u32>(s32{static_cast<int8_t>(i[t])})})
  ROW(18, u64{static_cast<uint16_t>(i[t])})
  ROW(19, u64{static_cast<u32>(std::clamp(static_cast<s32>(i[t]), -128, 127))})
  ROW(20, u64{static_cast<u32>(std::clamp(static_cast<s32>(i[t]), 0, 65535))})
  ROW(21, [&] {
    const auto c = [](s32 v) { return u64{static_cast<uint16_t>(std::clamp(v, -32768, 32767))}; };
    return c(static_cast<s32>(i[t])) << 16 | c(static_cast<s32>(i[t] >> 20));
  }())
}

TEST_F(Opcodes, Halves) {
  auto* a = fill<float>([](int i) {
    return i < 4
               ? static_cast<float>(i) * 0.37e-7f
               : std::sin(static_cast<float>(i) * 1.7f) * std::exp2(static_cast<float>(i % 17 - 8));
  });
  auto* b = fill<float>([](int i) { return std::cos(static_cast<float>(i) * 2.3f) * 3.0f; });
  auto* out = job.allocate<u32>(kRows * 32);
  run("halves", 32, a, b, out);
  const auto h = [](float v) { return u32{vm::float_to_f16(v)}; };
  const auto p = [](float v) { return u32{vm::float_to_bf16(v)}; };
  const auto hf = [](u32 v) { return vm::f16_to_float(static_cast<uint16_t>(v)); };
  const auto pf = [](u32 v) { return vm::bf16_to_float(static_cast<uint16_t>(v)); };
  // The reference conversions themselves, against _Float16 of the compiler's own library.
  for (int t = 0; t < 32; ++t)
    ASSERT_EQ(h(a[t]), (vm::double_to_small<5, 10>(static_cast<double>(a[t])))) << a[t];
  for (int t = 0; t < 32; ++t)
    ASSERT_EQ(p(a[t]), (vm::double_to_small<8, 7>(static_cast<double>(a[t])))) << a[t];
#define HX hf(h(a[t]))
#define HY hf(h(b[t]))
#define PX pf(p(a[t]))
#define PY pf(p(b[t]))
#define D(V) static_cast<double>(V)
  ROW(0, h(a[t]))
  ROW(1, p(a[t]))
  ROW(2, h(HX + HY))
  ROW(3, h(HX * HY))
  ROW(4, (vm::double_to_small<5, 10>(std::fma(D(HX), D(HY), D(HX)))))
  ROW(5, p(PX + PY))
  ROW(6, p(PX * PY))
  ROW(7, (vm::double_to_small<8, 7>(std::fma(D(PX), D(PY), D(PX)))))
  ROW(8, (vm::double_to_small<5, 10>(D(a[t]), 1)))
  ROW(9, std::bit_cast<u32>(a[t]) >> 16)
  ROW(10, h(a[t]) | h(b[t]) << 16)
  ROW(11, p(a[t]) | p(b[t]) << 16)
  ROW(12, h(HX + HX) | h(HY + HY) << 16)
  ROW(13, (vm::double_to_small<8, 7>(std::fma(D(PX), D(PX), D(PX)))) |
              (vm::double_to_small<8, 7>(std::fma(D(PY), D(PY), D(PY)))) << 16)
  ROW(14, std::bit_cast<u32>(HX))
  ROW(15, std::bit_cast<u32>(PX))
  ROW(16, u32{HX < HY} | u32{PX >= PY} << 1)
  ROW(17, h(std::fmax(HX, HY)))
  ROW(18, p(std::fmin(PX, PY)))
  ROW(19, (h(a[t]) ^ 0x8000u) | (p(a[t]) & 0x7fffu) << 16)
  // Round trip through e4m3: three bits of mantissa.
  for (int t = 0; t < 32; ++t) {
    const float back = hf(out[22 * 32 + t] & 0xffffu);
    ASSERT_NEAR(back, a[t], std::max(std::fabs(a[t]) / 16.0f, 0.001f)) << t;
  }
  ROW(23, static_cast<u32>(static_cast<s32>(std::nearbyint(HX))))
}

TEST_F(Opcodes, Memory) {
  struct Quad {
    u32 x, y, z, w;
  };
  auto* in = fill<Quad>([&](int i) {
    return Quad{static_cast<u32>(rng()), static_cast<u32>(rng()), static_cast<u32>(i),
                static_cast<u32>(i)};
  });
  auto* out4 = job.allocate<Quad>(128);
  auto* out = job.allocate<u64>(kRows * 32);
  auto* bytes = job.allocate<unsigned char>(32);
  auto* shorts = job.allocate<short>(32);
  run("memory", 32, in, out4, out, bytes, shorts);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(std::memcmp(&out4[t], &in[t * 7 % 32], 16), 0);
    EXPECT_EQ(std::memcmp(&out4[32 + t], &in[t], 16), 0);
    EXPECT_EQ(std::memcmp(&out4[64 + t].x, &in[t].z, 8), 0);
    EXPECT_EQ(std::memcmp(&out4[64 + t].z, &in[t].x, 8), 0);
    EXPECT_EQ(std::memcmp(&out[64 + t], &in[t].z, 8), 0);
  }
  ROW(0, static_cast<u64>(s64{static_cast<int16_t>(in[(t + 1) % 32].y)} +
                          s64{static_cast<uint8_t>(in[(t + 3) % 32].x)}))
  ROW(1, [&] {
    u64 s = 0;
    for (u32 k = 0; k < 8; ++k) s += u64{in[t].z * (((in[t].w + k * k) & 7) + 1)} << k;
    return s;
  }())
  ROW(3, u64{in[t].x})
  ROW(4, u64{in[t].x})
}

TEST_F(Opcodes, Atomics) {
  auto* w = fill<u32>([](int i) {
    return i == 1   ? static_cast<u32>(-100)
           : i == 2 ? 1000u
           : i == 3 ? ~0u
           : i == 6 ? 7u
           : i == 7 ? 3u
                    : 0u;
  });
  auto* l = fill<u64>([](int i) { return i == 1 ? static_cast<u64>(s64{-1000}) : u64{0}; });
  auto* f = job.allocate<float>(8);
  auto* d = job.allocate<double>(8);
  auto* bf = job.allocate<u32>(1);
  auto* h = job.allocate<u32>(1);
  auto* out = job.allocate<u32>(kRows * 32);
  run("atomics", 32, w, l, f, d, bf, h, out);
  EXPECT_EQ(w[0], 496u);
  EXPECT_EQ(static_cast<s32>(w[1]), 5);
  EXPECT_EQ(w[2], 69u);
  EXPECT_EQ(w[3], 0u);
  EXPECT_EQ(w[4], ~0u);
  EXPECT_EQ(w[5], 0u);
  EXPECT_EQ(w[6], (7u + 32) % 10);
  u32 dec = 3;
  for (int i = 0; i < 32; ++i) dec = dec == 0 || dec > 9 ? 9 : dec - 1;
  EXPECT_EQ(w[7], dec);
  EXPECT_EQ(w[8], 77u);
  EXPECT_EQ(w[9], 32u);
  EXPECT_EQ(w[10], 64u);
  EXPECT_EQ(l[0], u64{496} << 33);
  EXPECT_EQ(static_cast<s64>(l[1]), -19);
  EXPECT_EQ(l[2], 96u);
  EXPECT_EQ(f[0], 16.0f);
  EXPECT_EQ(f[4], 32.0f);
  EXPECT_EQ(f[7], 64.0f);
  EXPECT_EQ(d[0], 8.0);
  EXPECT_EQ(vm::bf16_to_float(static_cast<uint16_t>(*bf)), 32.0f);
  EXPECT_EQ(vm::bf16_to_float(static_cast<uint16_t>(*bf >> 16)), 64.0f);
  EXPECT_EQ(vm::f16_to_float(static_cast<uint16_t>(*h)), 16.0f);
  EXPECT_EQ(l[4], 1u);  // the first lane wins
  EXPECT_EQ(l[5], 0u);
  ROW(1, 16u + 496)
  ROW(2, 16u)
}

TEST_F(Opcodes, Warp) {
  auto* out = job.allocate<u32>(kRows * 32);
  run("warp", 32, out);
#define T static_cast<u32>(t)
  ROW(0, t >= 3 ? T - 3 : T)
  ROW(1, t % 16 + 5 < 16 ? T + 5 : T)
  ROW(2, T / 8 * 8 + T * 3 % 8)
  ROW(3, 0x49249249u)
  ROW(4, 1u)
  ROW(5, [&] {
    u32 r = 0;
    for (int k = 0; k < 32; ++k)
      if (k / 5 == t / 5) r |= 1u << k;
    return r;
  }())
  ROW(6, ~0u + 1)
  ROW(7, 496u)
  ROW(8, 31u)
  ROW(9, [&] {
    u32 r = 0;
    for (u32 k = 0; k < 32; ++k) r ^= k * 77;
    return r;
  }())
  ROW(10, ~0u)
  ROW(11, t == 0 ? 1u : 0u)
  ROW(12, (1u << t) - 1)
  ROW(13, 0u)
  ROW(14, t % 2 == 1 ? 256u : 0u)
  ROW(15, 1u)
}

TEST_F(Opcodes, MatrixMoves) {
  auto* in = fill<u32>([&](int) { return static_cast<u32>(rng()); }, 128);
  auto* out = job.allocate<u32>(kRows * 32);
  run("matrix_moves", 32, in, out);
  const auto* half = reinterpret_cast<const uint16_t*>(in);
  for (int m = 0; m < 4; ++m) {
    ROW(m, u32{half[m * 64 + t % 4 * 2 * 8 + t / 4]} |
               u32{half[m * 64 + (t % 4 * 2 + 1) * 8 + t / 4]} << 16)
    ROW(4 + m, in[m * 32 + t])
  }
  ROW(8, in[t])
  ROW(9, in[t])
}

TEST_F(Opcodes, AsyncCopies) {
  auto* in = fill<unsigned char>([](int i) { return static_cast<unsigned char>(i * 7 + 1); }, 512);
  auto* out = job.allocate<unsigned char>(4 * 512);
  run("async_copies", 32, in, out, 0);
  for (int t = 0; t < 32; ++t)
    for (int k = 0; k < 16; ++k) {
      const int at = t * 16 + k;
      EXPECT_EQ(out[at], k < t % 17 ? in[at] : 0) << t << ' ' << k;
      EXPECT_EQ(out[512 + at], 0xff) << "not waited for";
      EXPECT_EQ(out[1024 + at], k < 8 ? in[at] : 0xff);
      EXPECT_EQ(out[1536 + at], k >= 8 && k < 12 ? in[at] : 0xff);
    }
}

TEST_F(Opcodes, BarriersInMemory) {
  auto* in = fill<u32>([&](int) { return static_cast<u32>(rng()); }, 256);
  auto* out = job.allocate<u32>(256);
  run("barriers_in_memory", 128, in, out);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], in[i / 128 * 128 + 127 - i % 128]) << i;
}

TEST_F(Opcodes, Control) {
  auto* in = fill<s32>([](int i) { return i % 9; });
  auto* out = job.allocate<s32>(kRows * 32);
  run("control", 32, in, out);
  const s32 picks[] = {11, 7, 5, 88, -1, 42, 3, 0, 0};
  ROW(0, picks[t % 9])
  ROW(1, (t % 3 + 1) * 100)
  ROW(2, 16)
}

TEST_F(Opcodes, Spaces) {
  auto* g = fill<s32>([](int i) { return i; });
  auto* out = job.allocate<u32>(kRows * 32);
  run("spaces", 32, g, out);
  ROW(0, 1u << (t % 3))
  ROW(1, t < 16 ? T : 31 - T)
}

TEST_F(Opcodes, TrapIsAFault) {
  auto* v = fill<s32>([](int i) { return i; });
  job.launch(0, "checked", 1, 32, v);
  ASSERT_EQ(job.finish(), Stop::kFault);
  EXPECT_EQ(job.engine->fault().kind, Fault::Kind::kTrap);
}

}  // namespace
}  // namespace sculler::emu
