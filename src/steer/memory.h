// Arrays for random access: zeroed, aligned to a cache line, on huge pages where they are large, so
// that a lookup costs a cache miss and not a page walk as well.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace sculler::steer {

template <class T>
class Block {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Block() = default;
  // Throws std::bad_alloc.
  explicit Block(uint64_t count) : count_(count) {
    if (count == 0) return;
    constexpr uint64_t kHuge = uint64_t{2} << 20;
    if (count > (uint64_t{1} << 47) / sizeof(T)) throw std::bad_alloc();
    bytes_ = count * sizeof(T);
    const uint64_t align = bytes_ >= 2 * kHuge ? kHuge : 64;
    bytes_ = (bytes_ + align - 1) / align * align;
    data_ = static_cast<T*>(std::aligned_alloc(align, bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
    if (align == kHuge) madvise(static_cast<void*>(data_), bytes_, MADV_HUGEPAGE);
    std::memset(static_cast<void*>(data_), 0, bytes_);
  }
  Block(uint64_t count, const T& value) : Block(count) {
    for (uint64_t i = 0; i < count_; ++i) data_[i] = value;
  }
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { std::free(data_); }

  void swap(Block& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(bytes_, other.bytes_);
  }
  T& operator[](uint64_t i) { return data_[i]; }
  const T& operator[](uint64_t i) const { return data_[i]; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] uint64_t size() const { return count_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  T* data_ = nullptr;
  uint64_t count_ = 0, bytes_ = 0;
};

}  // namespace sculler::steer
