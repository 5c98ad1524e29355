#include "verify/host_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/files.h"
#include "support/temp_folder.h"
#include "verify/fake_ranks.h"
#include "verify/generate.h"

namespace sculler::verify {
namespace {

BufferSpec vector_of(uint64_t n, uint32_t dtype = SCULLER_F32) {
  BufferSpec b;
  b.name = "Y";
  b.role = Role::kOutput;
  b.dtype = dtype;
  b.elements = n;
  b.row_elements = n;
  b.bytes = n * sculler_dtype_bytes(dtype);
  return b;
}

ExpectedBuffer ones(uint64_t n) {
  ExpectedBuffer e(std::vector<double>(n, 1.0));
  e.peak = 1;
  e.norm = std::sqrt(static_cast<double>(n));
  return e;
}

// The loops by vectors, from the middle of a buffer.
TEST(Generate, GivesTheBitsOfFill) {
  for (const uint32_t dtype : {SCULLER_F32, SCULLER_F16, SCULLER_BF16, SCULLER_I32}) {
    for (uint32_t family = SCULLER_NORMAL; family <= SCULLER_INTEGERS; ++family) {
      for (const uint32_t bits : {0U, uint32_t{SCULLER_POSITIVE}, 50U << SCULLER_SCALE_SHIFT}) {
        BufferSpec b = vector_of(2000, dtype);
        b.family = family | bits;
        b.row_elements = 37;
        std::vector<uint32_t> words(1000);
        generate(b, 11, 123, 1123, words.data());
        for (uint64_t i = 0; i < words.size(); ++i)
          ASSERT_EQ(words[i], sculler_element(11, 123 + i, 37, b.family, dtype))
              << dtype << " " << b.family << " " << i;
      }
    }
  }
}

TEST(Compare, ExactPasses) {
  const BufferSpec b = vector_of(100);
  std::vector<float> data(100, 1.0f);
  const Comparison c = compare_host(b, data.data(), ones(100), {1e-6, 1e-6});
  EXPECT_TRUE(c.passes({1e-6, 1e-6}));
  EXPECT_EQ(c.relative_l2, 0);
}

TEST(Compare, OneWrongElementIsFoundWhereverItIs) {
  const BufferSpec b = vector_of(100);
  for (const std::size_t at : {std::size_t{0}, std::size_t{57}, std::size_t{99}}) {
    std::vector<float> data(100, 1.0f);
    data[at] = 1.5f;
    const Comparison c = compare_host(b, data.data(), ones(100), {0.5, 0.25});
    EXPECT_FALSE(c.passes({0.5, 0.25}));
    EXPECT_EQ(c.bad, 1u);
    EXPECT_EQ(c.first_bad, static_cast<int64_t>(at));
    EXPECT_DOUBLE_EQ(c.max_abs, 0.5);
  }
}

// Several threads' pieces: the first of all is told, whoever found it first.
TEST(Compare, LongBuffersAreTheSumOfTheirPieces) {
  constexpr uint64_t kElements = 1'000'003;
  const BufferSpec b = vector_of(kElements);
  std::vector<float> data(kElements, 1.0f);
  for (const std::size_t at : {400'000, 700'000, 1'000'002}) data[at] = 1.25f;
  data[900'000] = 1.5f;
  const Comparison c = compare_host(b, data.data(), ones(kElements), {1, 0.125});
  EXPECT_EQ(c.bad, 4u);
  EXPECT_EQ(c.first_bad, 400'000);
  EXPECT_EQ(c.worst, 900'000);
  EXPECT_DOUBLE_EQ(c.relative_l2, std::sqrt((3 * 0.0625 + 0.25) / kElements));
  fill_host(b, 7, data.data());
  EXPECT_EQ(changed_host(b, 7, data.data()), 0u);
  data[1] += 1, data[999'999] += 1;
  EXPECT_EQ(changed_host(b, 7, data.data()), 2u);
  poison_host(b, data.data());
  data[0] = data[500'000] = 1.0f;
  const Comparison poisoned = compare_host(b, data.data(), ones(kElements), {1, 1});
  EXPECT_EQ(poisoned.unwritten, kElements - 2);
  EXPECT_EQ(poisoned.first_unwritten, 1);
}

TEST(Compare, NanInfinityAndPoisonFail) {
  const BufferSpec b = vector_of(10);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> data(10, 1.0f);
    data[3] = bad;
    const Comparison c = compare_host(b, data.data(), ones(10), {1e30, 1e30});
    EXPECT_FALSE(c.passes({1e30, 1e30}));
    EXPECT_EQ(c.bad, 1u);
    EXPECT_EQ(c.unwritten, 0u);
  }
  std::vector<float> data(10, 1.0f);
  poison_host(b, data.data());
  data[0] = 1.0f;
  const Comparison c = compare_host(b, data.data(), ones(10), {1e30, 1e30});
  EXPECT_EQ(c.unwritten, 9u);
  EXPECT_EQ(c.first_unwritten, 1);
}

TEST(Compare, ReferenceThatLeavesARowOutFails) {
  const BufferSpec b = vector_of(10);
  ExpectedBuffer e = ones(10);
  e.own[9] = std::nan("");
  const std::vector<float> data(10, 1.0f);
  EXPECT_FALSE(compare_host(b, data.data(), e, {1e30, 1e30}).passes({1e30, 1e30}));
}

TEST(Compare, CapGrowsWithThePeak) {
  const BufferSpec b = vector_of(4, SCULLER_BF16);
  ExpectedBuffer e({1000, 1, 1, 1});
  e.peak = 1000;
  e.norm = 1000;
  const std::vector<uint16_t> data = {sculler_to_bf16(1004.0f), sculler_to_bf16(1.0f),
                                      sculler_to_bf16(1.0f), sculler_to_bf16(1.0f)};
  EXPECT_TRUE(compare_host(b, data.data(), e, {0.01, 0.1}).passes({0.01, 0.1}));
}

TEST(Inputs, ChangedElementsAreCounted) {
  const BufferSpec b = vector_of(1000, SCULLER_BF16);
  std::vector<uint16_t> data(1000);
  fill_host(b, 42, data.data());
  EXPECT_EQ(changed_host(b, 42, data.data()), 0u);
  data[7] ^= 1;
  data[999] ^= 0x8000;
  EXPECT_EQ(changed_host(b, 42, data.data()), 2u);
}

rank::UniqueFd make_memfd(uint64_t bytes, bool seal) {
  rank::UniqueFd fd(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (seal) { EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0); }
  return fd;
}

class HostDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    job_ = test::small_job(2);
    job_.reference = SCULLER_TEST_REFERENCE;
    job_.expected_cache = folder_;
    for (BufferSpec& b : job_.buffers) b.row_elements = 16;
  }
  std::unique_ptr<Reference> load() {
    auto reference = Reference::load(job_);
    EXPECT_TRUE(reference) << reference.error().text();
    return std::move(*reference);
  }
  sculler::test::TempFolder temporary_{"sculler_expected"};
  const std::string folder_ = temporary_.path();
  JobSpec job_;
};

TEST_F(HostDeviceTest, FillRunCompare) {
  auto reference = load();
  MemfdDevice device(job_, *reference);
  rank::UniqueFd in = make_memfd(256, true), out = make_memfd(256, true);
  auto* x =
      static_cast<float*>(mmap(nullptr, 256, PROT_READ | PROT_WRITE, MAP_SHARED, in.get(), 0));
  auto* y =
      static_cast<float*>(mmap(nullptr, 256, PROT_READ | PROT_WRITE, MAP_SHARED, out.get(), 0));
  ASSERT_TRUE(device.adopt(1, 3, 0, 0, 256, std::move(in)));
  ASSERT_TRUE(device.adopt(1, 3, 1, 0, 256, std::move(out)));
  ASSERT_TRUE(device.fill(1, 3, 0, 2));
  ASSERT_TRUE(device.poison_outputs(1, 3));
  EXPECT_TRUE(std::isnan(y[5]));
  auto before = device.compare(1, 3, 1, 2);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->unwritten, 64u);
  for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];
  EXPECT_TRUE(device.compare(1, 3, 1, 2)->passes(job_.tolerance));
  EXPECT_FALSE(device.compare(1, 3, 1, 1)->passes(job_.tolerance));  // other inputs
  EXPECT_THROW((void)device.compare(0, 3, 1, 2), std::logic_error);  // never adopted
  EXPECT_EQ(*device.changed_inputs(1, 3, 2), 0u);
  x[0] = 0;
  EXPECT_EQ(*device.changed_inputs(1, 3, 2), 1u);
  munmap(x, 256);
  munmap(y, 256);
}

TEST_F(HostDeviceTest, RefusesWhatARankCouldTakeBack) {
  auto reference = load();
  MemfdDevice device(job_, *reference);
  EXPECT_FALSE(device.adopt(0, 0, 0, 0, 256, {}));
  EXPECT_FALSE(device.adopt(0, 0, 0, 0, 256, make_memfd(256, false)));
  EXPECT_FALSE(device.adopt(0, 0, 0, 0, 256, make_memfd(255, true)));
  EXPECT_FALSE(device.adopt(0, 0, 0, 0, 8, make_memfd(256, true)));
  rank::UniqueFd fd = make_memfd(256, true);
  rank::UniqueFd twice(dup(fd.get()));
  EXPECT_TRUE(device.adopt(0, 0, 0, 0, 256, std::move(fd)));
  EXPECT_FALSE(device.adopt(0, 0, 1, 0, 256, std::move(twice)));
}

TEST_F(HostDeviceTest, ExpectedValuesAreSharedThroughFiles) {
  {
    auto first = load();
    ASSERT_TRUE(first->expected(1, 0, 1));
    EXPECT_EQ(first->computed(), 1u);
  }
  auto second = load();
  auto e = second->expected(1, 0, 1);
  ASSERT_TRUE(e);
  EXPECT_EQ(second->computed(), 0u);
  const auto x = make_input(job_, 0, 0, 1);
  float value = 0;
  std::memcpy(&value, x.data() + 4 * 9, 4);
  EXPECT_EQ((*e)->values[9], 2.0 * static_cast<double>(value));
  // Another seed, another rank, a damaged file: computed afresh.
  ASSERT_TRUE(second->expected(1, 1, 1));
  EXPECT_EQ(second->computed(), 1u);
  const auto names = real_files().list(folder_);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), 2u);
  for (const std::string& name : *names) {
    const std::string path = join_path(folder_, name);
    std::string text = *real_files().read(path);
    text[100] ^= 1;
    ASSERT_TRUE(real_files().write_atomic(path, text));
  }
  auto third = load();
  ASSERT_TRUE(third->expected(1, 0, 1));
  EXPECT_EQ(third->computed(), 1u);
  job_.seed = 8;
  EXPECT_NE(load()->key(), third->key());
}

TEST_F(HostDeviceTest, RowsAreThoseAskedFor) {
  auto reference = load();
  auto all = reference->expected(0, 1, 1);
  ASSERT_TRUE(all);
  auto rows = reference->rows(0, 1, 1, {3, 1});
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 32u);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ((*rows)[i], (*all)->values[48 + i]);
    EXPECT_EQ((*rows)[16 + i], (*all)->values[16 + i]);
  }
}

TEST_F(HostDeviceTest, MissingReferenceSaysWhichFile) {
  job_.reference = "/nonexistent/reference.so";
  auto reference = Reference::load(job_);
  ASSERT_FALSE(reference);
  EXPECT_NE(reference.error().text().find("/nonexistent/reference.so"), std::string::npos);
}

}  // namespace
}  // namespace sculler::verify
