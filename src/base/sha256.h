// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sculler {

class Sha256 {
 public:
  Sha256();
  Sha256& update(const void* data, std::size_t bytes);
  Sha256& update(std::string_view text) { return update(text.data(), text.size()); }
  // Length-prefixed, so that ("ab","c") and ("a","bc") differ.
  Sha256& field(std::string_view text);
  // Ends the computation; the object must not be updated afterwards.
  [[nodiscard]] std::array<uint8_t, 32> digest();
  [[nodiscard]] std::string hex();

 private:
  void block(const uint8_t* p);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_{};
  uint64_t bytes_ = 0;
};

// 64 lower-case hex digits.
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace sculler
