// Bounded binary coding of wire messages. Little endian, no padding; a Reader never reads outside
// its bytes and, once it failed, yields zeroes and stays failed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace sculler::emu::wire {

inline constexpr uint32_t kMaxElements = 65536;  // of a list of structures

template <class T>
inline constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}
  static constexpr bool kReading = false;

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  void raw(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const uint8_t*>(data);
    out_.insert(out_.end(), from, from + bytes);
  }
  template <class T>
  void put(const T& value) {
    if constexpr (kIsScalar<T>) {
      raw(&value, sizeof value);
    } else {
      const_cast<T&>(value).visit(
          *this);  // one visit() serves both directions; a Writer only reads
    }
  }
  void put(const bool& value) { out_.push_back(value ? 1 : 0); }
  void put(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    raw(text.data(), text.size());
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& values) {
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<uint32_t>(values.size()));
    if constexpr (kIsScalar<T>) {
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) put(value);
    }
  }

  std::vector<uint8_t>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  static constexpr bool kReading = true;

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  // True when every field was there and nothing is left over.
  [[nodiscard]] bool complete() const { return ok_ && rest_.empty(); }

 private:
  bool raw(void* data, std::size_t bytes) {
    if (!ok_ || rest_.size() < bytes) {
      ok_ = false;
      if (bytes != 0) std::memset(data, 0, bytes);
      return false;
    }
    if (bytes != 0) std::memcpy(data, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return true;
  }
  // A count never announces more elements than bytes that are left: nothing is allocated for a lie.
  uint32_t count(std::size_t element_bytes) {
    uint32_t n = 0;
    get(n);
    if (n > rest_.size() / element_bytes) {
      ok_ = false;
      n = 0;
    }
    return n;
  }
  template <class T>
  void get(T& value) {
    if constexpr (kIsScalar<T>) {
      raw(&value, sizeof value);
    } else {
      value.visit(*this);
    }
  }
  void get(bool& value) {
    uint8_t byte = 0;
    raw(&byte, 1);
    if (byte > 1) ok_ = false;
    value = byte == 1;
  }
  void get(std::string& text) {
    text.resize(count(1));
    raw(text.data(), text.size());
  }
  template <class T, std::size_t N>
  void get(std::array<T, N>& values) {
    for (T& value : values) get(value);
  }
  template <class T>
  void get(std::vector<T>& values) {
    if constexpr (kIsScalar<T>) {
      values.resize(count(sizeof(T)));
      raw(values.data(), values.size() * sizeof(T));
    } else {
      uint32_t n = count(1);
      if (n > kMaxElements) {
        ok_ = false;
        n = 0;
      }
      values.resize(n);
      for (T& value : values) get(value);
    }
  }

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace sculler::emu::wire
