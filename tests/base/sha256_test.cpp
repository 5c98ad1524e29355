#include "base/sha256.h"

#include <gtest/gtest.h>

#include "base/sha256_block.h"

namespace sculler {
namespace {

// FIPS 180-4 examples and NIST's long vector.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(text.data(), cut).update(text.data() + cut, text.size() - cut);
    ASSERT_EQ(hash.hex(), sha256_hex(text)) << cut;
  }
}

TEST(Sha256, InstructionsOfTheProcessorAgreeWithPlainCode) {
  std::array<uint32_t, 8> fast{}, plain{};
  for (uint32_t i = 0; i < 8; ++i) fast[i] = plain[i] = 0x9e3779b9U * (i + 1);
  std::array<uint8_t, 64> block{};
  for (std::size_t n = 0; n < 50; ++n) {
    for (std::size_t i = 0; i < 64; ++i) block[i] = static_cast<uint8_t>(i * i * 31 + n * 17);
    const auto before = plain;
    sha256_block(fast.data(), block.data());
    sha256_block_plain(plain.data(), block.data());
    ASSERT_EQ(fast, plain) << n;
    ASSERT_NE(plain, before) << n;
  }
}

TEST(Sha256, FieldsAreNotConcatenation) {
  EXPECT_NE(Sha256().field("ab").field("c").hex(), Sha256().field("a").field("bc").hex());
}

}  // namespace
}  // namespace sculler
