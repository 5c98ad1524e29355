// Hopper's asynchronous path against what the host computes.
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "emu/vm/half.h"
#include "emu/vm/harness.h"
#include "emu/vm/tensor_map.h"

namespace sculler::emu {
namespace {

using Stop = Engine::Stop;

class Hopper : public ::testing::Test {
 protected:
  Hopper() { job.load("hopper.ptx"); }
  template <class... A>
  void run(const char* kernel, unsigned threads, unsigned shared, A... args) {
    auto g = job.try_launch(0, kernel, 1, threads, shared, false, args...);
    ASSERT_TRUE(g) << g.error().message;
    ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  }
  // Runs and expects a fault that says so.
  template <class... A>
  void fails(const char* kernel, unsigned threads, unsigned shared, const char* why, A... args) {
    auto g = job.try_launch(0, kernel, 1, threads, shared, false, args...);
    ASSERT_TRUE(g) << g.error().message;
    ASSERT_EQ(job.finish(), Stop::kFault);
    EXPECT_NE(job.engine->fault().message.find(why), std::string::npos)
        << job.engine->fault().message;
  }
  std::mt19937 rng{7};
  Job job;
};

TEST_F(Hopper, MbarriersCountArrivalsAndBytes) {
  auto* out = job.allocate<uint32_t>(16);
  run("barriers", 32, 0, out);
  const uint32_t want[] = {1, 0, 2, 0, 0, 1, 1, 0, 1, 1};
  for (size_t k = 0; k < std::size(want); ++k) EXPECT_EQ(out[k], want[k]) << k;
}

TEST_F(Hopper, BulkCopiesAndSums) {
  constexpr uint32_t kBytes = 4096, kN = kBytes / 4;
  auto *in = job.allocate<float>(kN), *out = job.allocate<float>(kN),
       *sum = job.allocate<float>(kN);
  for (uint32_t i = 0; i < kN; ++i) {
    in[i] = static_cast<float>(i);
    sum[i] = 0.5f;
  }
  run("bulk", 128, kBytes, in, out, sum, kBytes);
  for (uint32_t i = 0; i < kN; ++i) {
    ASSERT_EQ(out[i], 2.f * static_cast<float>(i) + 1.f);
    ASSERT_EQ(sum[i], out[i] + 0.5f);
  }
  fails("bulk", 128, kBytes, "a multiple of 16", in, out, sum, 1000u);
}

TEST_F(Hopper, BulkCopiesStayInTheirMemory) {
  auto *in = job.allocate<float>(16), *out = job.allocate<float>(16);
  fails("bulk", 32, 4096, "out of bounds", in, out, out, 4096u);
}

// A tensor map as the drop-in driver makes it, as a kernel parameter.
struct Map {
  TensorMap m;
  uint8_t rest[128 - sizeof(TensorMap)] = {};
};
static_assert(sizeof(Map) == 128);
struct Tensor {
  std::vector<uint64_t> size;  // elements, innermost first
  std::vector<uint32_t> box;
  uint32_t swizzle = 0, element = 2, type = 9;
};
Map map_of(const Tensor& t, const void* address) {
  Map map;
  map.m.data_type = static_cast<uint8_t>(t.type);
  map.m.element_bytes = static_cast<uint8_t>(t.element);
  map.m.dims = static_cast<uint8_t>(t.size.size());
  map.m.swizzle = static_cast<uint8_t>(t.swizzle);
  map.m.address = reinterpret_cast<uint64_t>(address);
  uint64_t stride = t.element;
  for (size_t d = 0; d < t.size.size(); ++d) {
    map.m.size[d] = t.size[d];
    map.m.box[d] = static_cast<uint16_t>(t.box[d]);
    map.m.element_stride[d] = 1;
    stride = d == 0 ? (t.size[0] * t.element + 15) / 16 * 16 : stride * t.size[d];
    if (d + 1 < t.size.size()) map.m.stride[d] = stride;
  }
  return map;
}

// Where byte `at` of a box lies: rows of the box follow each other; 16-byte pieces are moved within
// 32, 64 or 128 bytes by the number of the 128-byte line.
uint32_t swizzled(uint32_t at, uint32_t mode) {
  const uint32_t line = at / 128, piece = at / 16;
  const uint32_t pieces = mode == 0 ? 1 : 1u << mode;
  return (piece ^ (line & (pieces - 1))) * 16 + at % 16;
}

TEST_F(Hopper, TensorBoxesOfTwoDimensions) {
  for (uint32_t mode = 0; mode < 4; ++mode) {
    // 100 x 40 elements; boxes of 16 rows whose width is the swizzle's.
    const uint32_t width = mode == 0 ? 24 : 8u << mode;
    Tensor t{{100, 40}, {width, 16}, mode};
    const uint32_t pitch = 104, bytes = width * 16 * 2;
    auto *from = job.allocate<uint16_t>(pitch * 40), *to = job.allocate<uint16_t>(pitch * 40);
    auto* image = job.allocate<uint32_t>(bytes / 4);
    for (uint32_t i = 0; i < pitch * 40; ++i) from[i] = static_cast<uint16_t>(i + 1);
    for (const auto& [x, y] : {std::pair{8, 3}, {-5, 30}, {90, -7}, {200, 200}}) {
      std::memset(to, 0, pitch * 80);
      run("tensor2", 64, bytes, map_of(t, from), map_of(t, to), x, y, x, y, bytes, image);
      const auto* got = reinterpret_cast<const uint16_t*>(image);
      for (uint32_t row = 0; row < 16; ++row)
        for (uint32_t column = 0; column < width; ++column) {
          const int gx = x + static_cast<int>(column), gy = y + static_cast<int>(row);
          const bool in = gx >= 0 && gx < 100 && gy >= 0 && gy < 40;
          const auto at = static_cast<size_t>(gy * static_cast<int>(pitch) + gx);
          // The window of a block begins 1024 bytes in, a multiple of every pattern.
          const uint32_t place = swizzled((row * width + column) * 2, mode) / 2;
          ASSERT_EQ(got[place], in ? from[at] : 0) << mode << ' ' << row << ' ' << column;
          if (in) { ASSERT_EQ(to[at], from[at]); }
        }
      uint32_t written = 0;
      for (uint32_t i = 0; i < pitch * 40; ++i) written += to[i] != 0 ? 1 : 0;
      uint32_t inside = 0;
      for (int row = 0; row < 16; ++row)
        for (int column = 0; column < static_cast<int>(width); ++column)
          inside += x + column >= 0 && x + column < 100 && y + row >= 0 && y + row < 40 ? 1 : 0;
      EXPECT_EQ(written, inside);
    }
  }
}

TEST_F(Hopper, TensorBoxesOfThreeDimensionsAreAdded) {
  const Tensor t{{32, 10, 6}, {32, 4, 3}, 3, 4, 7};
  constexpr uint32_t kBytes = 32 * 4 * 3 * 4;
  auto *from = job.allocate<float>(32 * 10 * 6), *to = job.allocate<float>(32 * 10 * 6);
  auto* image = job.allocate<uint32_t>(kBytes / 4);
  for (uint32_t i = 0; i < 32 * 60; ++i) {
    from[i] = static_cast<float>(i);
    to[i] = 1.f;
  }
  run("tensor3", 128, kBytes, map_of(t, from), map_of(t, to), 0, 5, 2, 0, 8, 4, kBytes, image);
  for (uint32_t z = 0; z < 3; ++z)
    for (uint32_t y = 0; y < 4; ++y)
      for (uint32_t x = 0; x < 32; ++x) {
        const uint32_t place = swizzled(((z * 4 + y) * 32 + x) * 4, 3) / 4;
        const float want = from[((2 + z) * 10 + 5 + y) * 32 + x];
        ASSERT_EQ(std::bit_cast<float>(image[place]), want);
        if (8 + y < 10 && 4 + z < 6) { ASSERT_EQ(to[((4 + z) * 10 + 8 + y) * 32 + x], want + 1.f); }
      }
}

TEST_F(Hopper, TensorMapsAreNotBelieved) {
  const Tensor t{{64, 16}, {64, 16}, 3};
  auto* from = job.allocate<uint16_t>(64 * 16);
  auto* image = job.allocate<uint32_t>(512);
  const auto with = [&](const std::function<void(TensorMap&)>& change, const char* why) {
    Map map = map_of(t, from);
    change(map.m);
    fails("tensor2", 64, 2048, why, map, map_of(t, from), 0, 0, 0, 0, 2048u, image);
  };
  with([](TensorMap& m) { m.magic = 1; }, "not made by cuTensorMapEncodeTiled");
  with([](TensorMap& m) { m.dims = 9; }, "damaged");
  with([](TensorMap& m) { m.box[1] = 0; }, "damaged");
  with([](TensorMap& m) { m.element_bytes = 1; }, "damaged");
  with([](TensorMap& m) { m.dims = 1; }, "dimensions");
  with([](TensorMap& m) { m.element_stride[0] = 2; }, "element strides");
  with([](TensorMap& m) { m.box[1] = 256; }, "out of bounds");      // of shared memory
  with([](TensorMap& m) { m.stride[0] = 4096; }, "out of bounds");  // of the allocation
  with([](TensorMap& m) { m.address -= 4096; }, "out of bounds");
  with([](TensorMap& m) { m.stride[0] = (uint64_t{1} << 40) - 16; }, "out of bounds");
}

// ---- wgmma.
struct Format {
  uint32_t bytes;
  std::function<uint32_t(float)> encode;
  std::function<float(uint32_t)> decode;
};
uint32_t e4m3(float v) {  // small integers
  if (v == 0) return 0;
  int e = 0;
  const float m = std::frexp(std::fabs(v), &e);
  return (v < 0 ? 0x80u : 0u) | static_cast<uint32_t>(e - 1 + 7) << 3 |
         (static_cast<uint32_t>(m * 16) & 7u);
}

// Canonical layouts of matrix descriptors (PTX ISA; cute/atom/mma_traits_sm90_gmma.hpp): where
// element (mn, k) lies, before the swizzle.
struct Layout {
  uint32_t mode = 0;  // 0 none, 1 128, 2 64, 3 32 bytes: as in a descriptor
  bool mn_major = false;
  uint32_t bytes = 2, rows = 64;
  [[nodiscard]] uint32_t width() const { return mode == 0 ? 16 : 256u >> mode; }
  [[nodiscard]] uint32_t leading() const {
    if (!mn_major) return mode == 0 ? 128 : 16;
    return mode == 0 ? 128 * (rows * bytes / 16) : 2 * 8 * width();
  }
  [[nodiscard]] uint32_t stride() const {
    if (!mn_major) return mode == 0 ? 256 : 8 * width();
    return mode == 0 ? 128 : 8 * width();
  }
  [[nodiscard]] uint32_t offset(uint32_t mn, uint32_t k) const {
    const uint32_t per = 16 / bytes;
    uint32_t at = 0;
    if (!mn_major) {
      at = mn / 8 * stride() + mn % 8 * width() + k / per * (mode == 0 ? leading() : 16) +
           k % per * bytes;
    } else if (mode == 0) {
      at = mn / per * stride() + k % 8 * 16 + k / 8 * leading() + mn % per * bytes;
    } else {
      const uint32_t wide = width() / 16, unit = mn / per;
      at = unit % wide * 16 + unit / wide * leading() + k % 8 * width() + k / 8 * stride() +
           mn % per * bytes;
    }
    const uint32_t line = at / 128, pieces = width() / 16;
    return ((at / 16) ^ (line & (pieces - 1))) * 16 + at % 16;
  }
  [[nodiscard]] uint64_t descriptor() const {
    return uint64_t{leading() >> 4} << 16 | uint64_t{stride() >> 4} << 32 | uint64_t{mode} << 62;
  }
};

class Wgmma : public Hopper {
 protected:
  void check(const char* kernel, const Format& f, bool ta, bool tb, float sign) {
    const uint32_t k_size = 32 / f.bytes;
    for (uint32_t mode = 0; mode < 4; ++mode) {
      const Layout la{mode, ta, f.bytes, 64}, lb{(mode + 1) % 4, tb, f.bytes, 16};
      auto *a = job.allocate<uint8_t>(8192), *b = job.allocate<uint8_t>(8192);
      auto* out = job.allocate<float>(128 * 8);
      std::vector<float> va(64 * k_size), vb(16 * k_size);
      const auto place = [&](std::vector<float>& v, uint32_t rows, const Layout& l, uint8_t* to) {
        for (uint32_t mn = 0; mn < rows; ++mn)
          for (uint32_t k = 0; k < k_size; ++k) {
            v[mn * k_size + k] = static_cast<float>(static_cast<int>(rng() % 17) - 8);
            const uint32_t bits = f.encode(v[mn * k_size + k]);
            ASSERT_LE(l.offset(mn, k) + f.bytes, 8192u);
            std::memcpy(to + l.offset(mn, k), &bits, f.bytes);
          }
      };
      place(va, 64, la, a);
      place(vb, 16, lb, b);
      for (int keep = 0; keep < 2; ++keep) {
        run(kernel, 128, 16384, a, b, out, la.descriptor(), lb.descriptor(), keep);
        for (uint32_t thread = 0; thread < 128; ++thread)
          for (uint32_t i = 0; i < 8; ++i) {
            const uint32_t lane = thread % 32;
            const uint32_t m = thread / 32 * 16 + lane / 4 + 8 * (i % 4 / 2),
                           n = i / 4 * 8 + lane % 4 * 2 + i % 2;
            float want = 0;
            for (uint32_t k = 0; k < k_size; ++k) want += va[m * k_size + k] * vb[n * k_size + k];
            want *= sign;
            if (keep != 0) want += static_cast<float>(i) + static_cast<float>(thread) * 0.25f;
            ASSERT_EQ(out[thread * 8 + i], want)
                << kernel << " mode " << mode << " m " << m << " n " << n;
          }
      }
    }
  }
  const Format bf16_{2, [](float v) { return uint32_t{vm::float_to_bf16(v)}; }, {}};
  const Format f16_{2, [](float v) { return uint32_t{vm::float_to_f16(v)}; }, {}};
};

TEST_F(Wgmma, Bf16InAllLayouts) {
  check("wgmma_bf16", bf16_, false, false, 1);
  check("wgmma_bf16_ta", bf16_, true, false, 1);
  check("wgmma_bf16_tb", bf16_, false, true, 1);
  check("wgmma_bf16_tt", bf16_, true, true, -1);
}
TEST_F(Wgmma, OtherTypes) {
  check("wgmma_f16", f16_, false, false, -1);
  check("wgmma_tf32", {4, [](float v) { return std::bit_cast<uint32_t>(v); }, {}}, false, false, 1);
  check("wgmma_e4m3", {1, e4m3, {}}, false, false, 1);
}

TEST_F(Wgmma, AFromRegistersAndHalfAccumulators) {
  const Layout lb{1, false, 2, 24};
  auto* a = job.allocate<uint32_t>(128 * 4);
  auto* b = job.allocate<uint8_t>(8192);
  auto* out = job.allocate<float>(128 * 12);
  auto* half_out = job.allocate<uint32_t>(128 * 4);
  std::vector<float> va(64 * 16), vb(24 * 16);
  for (uint32_t n = 0; n < 24; ++n)
    for (uint32_t k = 0; k < 16; ++k) {
      vb[n * 16 + k] = static_cast<float>(static_cast<int>(rng() % 9) - 4);
      const uint16_t bits = vm::float_to_f16(vb[n * 16 + k]);
      std::memcpy(b + lb.offset(n, k), &bits, 2);
    }
  for (uint32_t thread = 0; thread < 128; ++thread)
    for (uint32_t r = 0; r < 4; ++r)
      for (uint32_t e = 0; e < 2; ++e) {
        const uint32_t m = thread / 32 * 16 + thread % 32 / 4 + 8 * (r % 2),
                       k = r / 2 * 8 + thread % 4 * 2 + e;
        va[m * 16 + k] = static_cast<float>(static_cast<int>(rng() % 9) - 4);
        a[thread * 4 + r] |= uint32_t{vm::float_to_f16(va[m * 16 + k])} << (16 * e);
      }
  run("wgmma_registers", 128, 16384, a, b, out, half_out, lb.descriptor());
  for (uint32_t thread = 0; thread < 128; ++thread)
    for (uint32_t i = 0; i < 12; ++i) {
      const uint32_t m = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 4 / 2),
                     n = i / 4 * 8 + thread % 4 * 2 + i % 2;
      float want = 0;
      for (uint32_t k = 0; k < 16; ++k) want += va[m * 16 + k] * vb[n * 16 + k];
      ASSERT_EQ(out[thread * 12 + i], want + 1.f);
      if (i < 8) {
        const uint32_t packed = half_out[thread * 4 + i / 4 * 2 + i % 4 / 2];
        ASSERT_EQ(vm::f16_to_float(static_cast<uint16_t>(packed >> (i % 2 * 16))), want);
      }
    }
}

TEST_F(Wgmma, DescriptorsStayInTheBlocksMemory) {
  auto *a = job.allocate<uint8_t>(8192), *b = job.allocate<uint8_t>(8192);
  auto* out = job.allocate<float>(128 * 8);
  const Layout l{1, false, 2, 64};
  fails("wgmma_bf16", 128, 16384, "reaches outside", a, b, out,
        l.descriptor() | uint64_t{0x3fff} << 32, l.descriptor(), 0);
  fails("wgmma_bf16", 128, 16384, "base offset", a, b, out, l.descriptor() | uint64_t{3} << 49,
        l.descriptor(), 0);
}

// ---- Clusters.
class Clusters : public Hopper {
 protected:
  Result<GridId> launch(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> cluster,
                        const uint32_t* out, const uint32_t* in) {
    auto k = job.engine->kernel(job.modules.at(0), "cluster");
    if (!k) return tl::unexpected(k.error());
    LaunchRequest r;
    r.kernel = *k;
    r.grid = grid;
    r.block = {64, 1, 1};
    r.cluster = cluster;
    r.params.resize(16);
    std::memcpy(r.params.data(), &out, 8);
    std::memcpy(r.params.data() + 8, &in, 8);
    return job.engine->launch(r);
  }
};

TEST_F(Clusters, SeeEachOther) {
  auto *out = job.allocate<uint32_t>(24 * 64 * 8), *in = job.allocate<uint32_t>(32);
  for (uint32_t i = 0; i < 32; ++i) in[i] = 77 + i;
  auto g = launch({6, 4, 1}, {2, 2, 1}, out, in);
  ASSERT_TRUE(g) << g.error().message;
  ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
  for (uint32_t y = 0; y < 4; ++y)
    for (uint32_t x = 0; x < 6; ++x)
      for (uint32_t t = 0; t < 64; ++t) {
        const uint32_t* row = out + ((y * 6 + x) * 64 + t) * 8;
        const uint32_t rank = x % 2 + y % 2 * 2, next = (rank + 1) % 4;
        ASSERT_EQ(row[0], next * 1000 + t);
        ASSERT_EQ(row[1], next * 1000 + t);
        ASSERT_EQ(row[2], next);
        ASSERT_EQ(row[3], 77 + t % 32);
        ASSERT_EQ(row[4], x % 2 + 16 * (y % 2));
        ASSERT_EQ(row[5], x / 2 + 16 * (y / 2));
        ASSERT_EQ(row[6], rank);
        ASSERT_EQ(row[7], 4u);
      }
}

TEST_F(Clusters, OfWrongSizesAreRefused) {
  auto *out = job.allocate<uint32_t>(64), *in = job.allocate<uint32_t>(32);
  EXPECT_EQ(launch({5, 1, 1}, {2, 1, 1}, out, in).error().key, "cudaErrorInvalidConfiguration");
  EXPECT_EQ(launch({64, 1, 1}, {32, 1, 1}, out, in).error().key, "cudaErrorInvalidClusterSize");
}

TEST(ClusterResidency, AClusterIsAdmittedWhole) {
  // Three SMs of one block each: clusters of two run one after the other, whatever the schedule.
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    EngineConfig config;
    config.limits.sms = 3;
    config.limits.blocks_per_sm = 1;
    config.schedule = {ScheduleKind::kRandom, seed, 0};
    Job job(config);
    job.load("hopper.ptx");
    auto *out = job.allocate<uint32_t>(8 * 64 * 8), *in = job.allocate<uint32_t>(32);
    auto k = job.engine->kernel(job.modules.at(0), "cluster");
    ASSERT_TRUE(k);
    LaunchRequest r;
    r.kernel = *k;
    r.grid = {8, 1, 1};
    r.block = {64, 1, 1};
    r.cluster = {2, 1, 1};
    r.params.resize(16);
    std::memcpy(r.params.data(), &out, 8);
    std::memcpy(r.params.data() + 8, &in, 8);
    ASSERT_TRUE(job.engine->launch(r));
    ASSERT_EQ(job.finish(), Stop::kIdle) << job.engine->fault().message;
    for (uint32_t block = 0; block < 8; ++block) EXPECT_EQ(out[block * 512 + 7], 2u);
  }
}

}  // namespace
}  // namespace sculler::emu
