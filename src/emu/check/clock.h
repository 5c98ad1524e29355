// Vector clocks of the checker. A clock says of each block (a stream or a host thread counts as a
// block of one warp) up to which count its warps are known; warps of a block that a barrier brought
// level share one entry. Clocks are immutable, shared by reference and pooled: warps of one block
// usually hold the same one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sculler::emu::check {

// Slots number blocks, streams and hosts; 0 is nobody. An ActorId is slot << 5 | warp.
inline constexpr uint32_t kMaxSlot = (1u << 26) - 1;

// key: slot << 6 | sub, sub 0 = every warp of the block, else warp + 1.
struct ClockEntry {
  uint32_t key = 0;
  uint32_t count = 0;
  bool operator==(const ClockEntry&) const = default;
};
[[nodiscard]] constexpr uint32_t all_warps(uint32_t slot) { return slot << 6; }
[[nodiscard]] constexpr uint32_t one_warp(uint32_t slot, uint32_t warp) {
  return slot << 6 | (warp + 1);
}

class ClockPool;

struct Clock {
  ClockPool* pool;
  uint32_t references;
  uint32_t size;
  uint32_t size_class;
  uint32_t reserved;
  [[nodiscard]] const ClockEntry* data() const {
    return reinterpret_cast<const ClockEntry*>(this + 1);
  }
  [[nodiscard]] ClockEntry* data() { return reinterpret_cast<ClockEntry*>(this + 1); }
  [[nodiscard]] std::span<const ClockEntry> entries() const { return {data(), size}; }
};

// Counted reference; null is the clock that knows nothing. Not for several threads.
class ClockRef {
 public:
  ClockRef() = default;
  explicit ClockRef(Clock* clock) : clock_(clock) {}
  ClockRef(const ClockRef& other) : clock_(other.clock_) {
    if (clock_ != nullptr) ++clock_->references;
  }
  ClockRef(ClockRef&& other) noexcept : clock_(std::exchange(other.clock_, nullptr)) {}
  ClockRef& operator=(const ClockRef& other) {
    if (clock_ != other.clock_) ClockRef(other).swap(*this);
    return *this;
  }
  ClockRef& operator=(ClockRef&& other) noexcept {
    ClockRef(std::move(other)).swap(*this);
    return *this;
  }
  ~ClockRef();
  void swap(ClockRef& other) noexcept { std::swap(clock_, other.clock_); }
  [[nodiscard]] std::span<const ClockEntry> entries() const {
    return clock_ != nullptr ? clock_->entries() : std::span<const ClockEntry>{};
  }
  // The largest count of this warp that is known.
  [[nodiscard]] uint32_t of(uint32_t slot, uint32_t warp) const;
  [[nodiscard]] size_t size() const { return clock_ != nullptr ? clock_->size : 0; }
  bool operator==(const ClockRef& other) const = default;

 private:
  Clock* clock_ = nullptr;
};

class ClockPool {
 public:
  ClockPool() = default;
  ClockPool(const ClockPool&) = delete;
  ClockPool& operator=(const ClockPool&) = delete;

  [[nodiscard]] ClockRef make(std::span<const ClockEntry> sorted);
  // The least clock that knows all of both; `a` itself where `b` adds nothing.
  [[nodiscard]] ClockRef join(const ClockRef& a, const ClockRef& b);
  // `extra` need not be sorted.
  [[nodiscard]] ClockRef join(const ClockRef& a, std::span<const ClockEntry> extra);
  void recycle(Clock* clock);
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  ClockRef join(const ClockRef& a, std::span<const ClockEntry> left,
                std::span<const ClockEntry> right);
  static constexpr uint32_t kClasses = 28;
  Clock* free_[kClasses] = {};
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<ClockEntry> scratch_, sorted_;
  uint64_t bytes_ = 0;
};

inline ClockRef::~ClockRef() {
  if (clock_ != nullptr && --clock_->references == 0) clock_->pool->recycle(clock_);
}

}  // namespace sculler::emu::check
