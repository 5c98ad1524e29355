#include "base/sha256.h"

#include <cstring>

#include "base/sha256_block.h"

namespace sculler {

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::block(const uint8_t* p) { sha256_block(state_.data(), p); }

Sha256& Sha256::update(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const uint8_t*>(data);
  std::size_t used = bytes_ % 64;
  bytes_ += bytes;
  if (used > 0) {
    const std::size_t take = bytes < 64 - used ? bytes : 64 - used;
    std::memcpy(buffer_.data() + used, p, take);
    p += take;
    bytes -= take;
    if (used + take < 64) return *this;
    block(buffer_.data());
  }
  for (; bytes >= 64; p += 64, bytes -= 64) block(p);
  if (bytes > 0) std::memcpy(buffer_.data(), p, bytes);
  return *this;
}

Sha256& Sha256::field(std::string_view text) {
  std::array<uint8_t, 8> size;
  for (std::size_t i = 0; i < 8; ++i) {
    size[i] = static_cast<uint8_t>(uint64_t{text.size()} >> (8 * i));
  }
  return update(size.data(), size.size()).update(text);
}

std::array<uint8_t, 32> Sha256::digest() {
  const uint64_t bits = bytes_ * 8;
  const uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (bytes_ % 64 != 56) update(&zero, 1);
  std::array<uint8_t, 8> size;
  for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(size.data(), size.size());
  std::array<uint8_t, 32> out;
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

std::string Sha256::hex() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(64);
  for (const uint8_t byte : digest()) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace sculler
