#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data.h"
#include "emu/ptx/fatbin.h"
#include "emu/ptx/parser.h"

namespace sculler::emu::ptx {
namespace {

std::span<const uint8_t> bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Fatbin, RealObject) {
  const std::string data = read_data("tiny.fatbin");
  const auto entries = read_fatbin(bytes(data));
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  const FatbinEntry* ptx = nullptr;
  const FatbinEntry* elf = nullptr;
  for (const FatbinEntry& entry : *entries)
    (entry.kind == FatbinEntry::Kind::kPtx ? ptx : elf) = &entry;
  ASSERT_NE(ptx, nullptr);
  ASSERT_NE(elf, nullptr);
  EXPECT_EQ(ptx->arch, 90u);
  EXPECT_EQ(ptx->version_major, 9u);
  EXPECT_EQ(ptx->name, "tiny.cu");
  EXPECT_THAT(ptx->options, testing::HasSubstr("--generate-line-info"));
  const auto module = parse(ptx->text);
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_NE((*module)->find("tiny"), nullptr);
  // ptxas -v: "Used 8 registers"
  EXPECT_THAT(cubin_registers(bytes(elf->text)), testing::ElementsAre(testing::Pair("tiny", 8u)));
}

TEST(Fatbin, SizeFromTheHeader) {
  const std::string data = read_data("tiny.fatbin");
  const auto size = fatbin_bytes(bytes(data).first(kFatbinHeader));
  ASSERT_TRUE(size);
  EXPECT_EQ(*size, data.size());
  EXPECT_FALSE(fatbin_bytes(bytes(data).first(8)));
}

TEST(Fatbin, SeveralInARow) {
  const std::string data = read_data("tiny.fatbin");
  const std::string twice = data + std::string(8, '\0') + data;
  const auto entries = read_fatbin(bytes(twice));
  ASSERT_TRUE(entries);
  EXPECT_EQ(entries->size(), 4u);
}

TEST(Fatbin, CompressedIsRefusedWithTheCure) {
  const std::string data = read_data("compressed.fatbin");
  const auto entries = read_fatbin(bytes(data));
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(entries.error().cure, testing::HasSubstr("--no-compress"));
}

TEST(Fatbin, DamageIsRefused) {
  std::string data = read_data("tiny.fatbin");
  EXPECT_FALSE(read_fatbin({}));
  for (const size_t keep : {size_t{1}, size_t{15}, size_t{16}, size_t{40}, data.size() - 1}) {
    EXPECT_FALSE(read_fatbin(bytes(data).first(keep))) << keep;
  }
  for (const size_t at : {size_t{0}, size_t{6}, size_t{16}, size_t{20}, size_t{31}}) {
    std::string damaged = data;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    EXPECT_FALSE(read_fatbin(bytes(damaged))) << at;
  }
}

// Any byte of the file changed: a result or an error, never a read outside (run with
// AddressSanitizer).
TEST(Fatbin, EveryByteDamaged) {
  const std::string data = read_data("tiny.fatbin");
  for (size_t at = 0; at < data.size(); ++at) {
    std::string damaged = data;
    damaged[at] = static_cast<char>(0xff);
    const auto entries = read_fatbin(bytes(damaged));
    if (!entries) continue;
    for (const FatbinEntry& entry : *entries) {
      if (entry.kind == FatbinEntry::Kind::kElf) (void)cubin_registers(bytes(entry.text));
    }
  }
  SUCCEED();
}

// Offsets and lengths so large that a sum with them wraps.
TEST(Fatbin, EveryWordHuge) {
  const std::string data = read_data("tiny.fatbin");
  for (size_t at = 0; at + 4 <= std::min<size_t>(data.size(), 512); at += 4) {
    for (const int least : {0xf8, 0xfc, 0xff}) {
      std::string damaged = data;
      damaged.replace(at, 4, "\xff\xff\xff\xff");
      damaged[at] = static_cast<char>(least);
      const auto entries = read_fatbin(bytes(damaged));
      if (!entries) continue;
      for (const FatbinEntry& entry : *entries) EXPECT_LE(entry.options.size(), data.size());
    }
  }
}

}  // namespace
}  // namespace sculler::emu::ptx
