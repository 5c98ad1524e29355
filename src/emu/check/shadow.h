// Shadow memory: for every byte of device and host memory, who wrote it last, who read it since,
// and whether it was written at all. Exact to the byte: 64 bytes share one cell until something
// smaller is touched, then the cell splits in four, down to single bytes, and joins again when its
// parts agree.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emu/check/records.h"
#include "emu/vm/memory.h"

namespace sculler::emu::check {

struct Cell {
  uint32_t write = 0;  // RecordId, or kSplit and the number of a Quad
  ReadersId read = 0;  // since that write
  bool operator==(const Cell&) const = default;
};
inline constexpr uint32_t kSplit = 1u << 31;

inline constexpr uint32_t kGranule = 64;  // bytes of memory
struct Granule {
  Cell cell;
  uint64_t written = 0;  // a bit a byte
};

inline constexpr uint32_t kPage = 4096;  // bytes of memory
struct Page {
  std::array<Granule, kPage / kGranule> granules;
};

class Quads {
 public:
  Quads() : quads_(1) {}
  using Quad = std::array<Cell, 4>;
  [[nodiscard]] Quad& operator[](uint32_t split) { return quads_[split & ~kSplit]; }
  [[nodiscard]] const Quad& operator[](uint32_t split) const { return quads_[split & ~kSplit]; }
  // Turns a whole cell into four equal ones.
  void split(Cell& cell) {
    uint32_t id;
    if (!free_.empty()) {
      id = free_.back();
      free_.pop_back();
    } else {
      id = static_cast<uint32_t>(quads_.size());
      quads_.emplace_back();
    }
    quads_[id].fill(cell);
    cell = {kSplit | id, 0};
  }
  void join(Cell& cell, const Cell& whole) {
    free_.push_back(cell.write & ~kSplit);
    cell = whole;
  }
  void clear(Cell& cell) {
    if ((cell.write & kSplit) != 0) {
      for (Cell& part : Quad(quads_[cell.write & ~kSplit])) clear(part);
      free_.push_back(cell.write & ~kSplit);
    }
    cell = {};
  }
  template <class Mark>
  void each(const Cell& cell, const Mark& mark) const {
    if ((cell.write & kSplit) == 0) return mark(cell);
    for (const Cell& part : quads_[cell.write & ~kSplit]) each(part, mark);
  }

 private:
  std::vector<Quad> quads_;
  std::vector<uint32_t> free_;
};

// Runs `op` over the cells of bytes [begin, end) of one cell of kBytes bytes, splitting as needed.
//   op.settled(cell): nothing would change     op.touch(cell, offset, bytes): may change the cell
template <uint32_t kBytes, class Op>
void visit(Quads& quads, Cell& cell, uint32_t base, uint32_t begin, uint32_t end, Op& op) {
  const bool whole = begin == 0 && end == kBytes;
  if ((cell.write & kSplit) == 0) {
    if (op.settled(cell)) return;
    if (whole) return op.touch(cell, base, kBytes);
    if constexpr (kBytes > 1) quads.split(cell);
  }
  if constexpr (kBytes > 1) {
    constexpr uint32_t kPart = kBytes / 4;
    const uint32_t id = cell.write;
    for (uint32_t part = begin / kPart; part * kPart < end; ++part) {
      const uint32_t low = part * kPart;
      // Splitting a part may move the quads.
      Cell copy = quads[id][part];
      visit<kPart>(quads, copy, base + low, begin > low ? begin - low : 0,
                   std::min(end - low, kPart), op);
      quads[id][part] = copy;
    }
    const auto& parts = quads[id];
    if ((parts[0].write & kSplit) == 0 && parts[0] == parts[1] && parts[0] == parts[2] &&
        parts[0] == parts[3]) {
      quads.join(cell, parts[0]);
    }
  }
}

// Granules of the global memory of all ranks, found through one table a rank and kind of memory.
class GlobalShadow {
 public:
  GlobalShadow() = default;
  ~GlobalShadow();
  GlobalShadow(const GlobalShadow&) = delete;
  GlobalShadow& operator=(const GlobalShadow&) = delete;

  // The granules of the page that holds `address`; null outside device and host memory.
  [[nodiscard]] Granule* page(Address address) {
    const uint32_t region = region_of(address);
    if (region == kNone) return nullptr;
    Page** table = tables_[region];
    const uint64_t index = (address & (kRankStride - 1)) / kPage;
    if (table == nullptr || table[index] == nullptr || table[index] == fresh())
      return materialise(region, index);
    return table[index]->granules.data();
  }
  // The granule of `address`; null where nobody has touched its page.
  [[nodiscard]] const Granule* peek(Address address) const {
    const uint32_t region = region_of(address);
    if (region == kNone || tables_[region] == nullptr) return nullptr;
    const Page* page = tables_[region][(address & (kRankStride - 1)) / kPage];
    return page == nullptr || page == fresh() ? nullptr
                                              : &page->granules[address % kPage / kGranule];
  }
  // Forgets all about [begin, begin + bytes); what was never written there then reads as such
  // unless `written`.
  void reset(Address begin, uint64_t bytes, bool written, Quads& quads);
  template <class Visit>
  void each_cell(const Visit& visit_cell) const {
    for (const Page* page : pages_) {
      for (const Granule& granule : page->granules) visit_cell(granule.cell);
    }
  }
  [[nodiscard]] uint64_t bytes() const { return pages_.size() * sizeof(Page); }

 private:
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint64_t kEntries = kRankStride / kPage;
  static uint32_t region_of(Address address) {
    const uint64_t device = (address - kDeviceBase) / kRankStride;
    if (device < kMaxRanks) return static_cast<uint32_t>(device);
    const uint64_t host = (address - kHostBase) / kRankStride;
    return host < kMaxRanks ? kMaxRanks + static_cast<uint32_t>(host) : kNone;
  }
  // Stands for a page that was allocated and never touched.
  static Page* fresh() { return reinterpret_cast<Page*>(uintptr_t{8}); }
  Page** table(uint32_t region);
  Granule* materialise(uint32_t region, uint64_t index);
  Page* take(bool written);

  std::array<Page**, 2 * kMaxRanks> tables_{};
  std::vector<Page*> pages_;  // all in use
  std::vector<std::unique_ptr<Page[]>> storage_;
  std::vector<Page*> free_;
};

// Granules of one block's shared memory.
class SharedShadow {
 public:
  void reset(uint64_t bytes) { granules_.assign((bytes + kGranule - 1) / kGranule, Granule{}); }
  [[nodiscard]] std::span<Granule> granules() { return granules_; }
  [[nodiscard]] std::span<const Granule> granules() const { return granules_; }

 private:
  std::vector<Granule> granules_;
};

}  // namespace sculler::emu::check
