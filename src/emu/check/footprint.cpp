#include "emu/check/footprint.h"

#include <algorithm>

#include "emu/vm/memory.h"

namespace sculler::emu {

void Footprint::clear() {
  operations_.clear();
  n_pages_ = 0;
  n_started_ = 0;
}

void Footprint::operation(ActorId stream, uint32_t op, CodeRef site) {
  inner_.operation(stream, op, site);
  if (op == UINT32_MAX) {
    of_stream_.erase(stream);
    return;
  }
  of_stream_[stream] = op;
  operations_[op].site = site;
  operations_[op].started = n_started_++;
}

GridId Footprint::begin_grid(const GridInfo& info) {
  const GridId grid = inner_.begin_grid(info);
  const auto found = of_stream_.find(info.stream);
  if (found != of_stream_.end()) grids_[grid] = {found->second, info.warps_per_block};
  return grid;
}

ActorId Footprint::begin_block(GridId grid, uint32_t block, Address shared_base,
                               uint64_t shared_bytes) {
  const ActorId first = inner_.begin_block(grid, block, shared_base, shared_bytes);
  const auto found = grids_.find(grid);
  if (found == grids_.end()) return first;
  blocks_[first] = {grid, block, found->second.warps_per_block, 0, found->second.op};
  first_warp_[{grid, block}] = first;
  return first;
}

void Footprint::end_block(GridId grid, uint32_t block) {
  inner_.end_block(grid, block);
  const auto found = first_warp_.find({grid, block});
  if (found == first_warp_.end()) return;
  blocks_.erase(found->second);
  first_warp_.erase(found);
}

void Footprint::end_grid(GridId grid) {
  inner_.end_grid(grid);
  grids_.erase(grid);
}

Footprint::Block* Footprint::block_of(ActorId warp) {
  auto block = blocks_.upper_bound(warp);
  if (block == blocks_.begin()) return nullptr;
  --block;
  return warp < block->first + block->second.warps ? &block->second : nullptr;
}

void Footprint::touch(Operation& op, Access access, Address begin, uint64_t bytes, CodeRef code,
                      const Block* block) {
  const auto mark = [&](Side& side, uint64_t at, uint64_t n) {
    Grain& grain = side.grains[at / kGrainBytes];
    if (grain.code.function == 0) grain.code = code;
    for (uint64_t i = 0; i < n; ++i) side.bytes.set(at + i);
    if (block == nullptr) return;
    grain.first_block = std::min(grain.first_block, block->linear);
    grain.last_block = std::max(grain.last_block, block->linear);
    grain.first_step = std::min(grain.first_step, block->steps);
    grain.last_step = std::max(grain.last_step, block->steps);
  };
  while (bytes > 0) {
    const uint64_t number = begin / kPageBytes, at = begin % kPageBytes;
    const uint64_t n = std::min(bytes, kGrainBytes - at % kGrainBytes);
    auto page = op.pages.find(number);
    if (page == op.pages.end()) {
      if (n_pages_ >= kMostPages) return;
      ++n_pages_;
      page = op.pages.emplace(number, Page{}).first;
    }
    if (access != Access::kStore) mark(page->second.read, at, n);
    if (access != Access::kLoad) mark(page->second.written, at, n);
    begin += n;
    bytes -= n;
  }
}

void Footprint::access(const WarpAccess& a) {
  inner_.access(a);
  if (a.space != MemorySpace::kGlobal) return;
  // Ordered accesses, and atomics that reach other GPUs, are how threads find each other, not data.
  const bool data = a.access == Access::kAtomic
                        ? a.scope != Scope::kSys && a.order <= Order::kRelaxed
                        : a.order <= Order::kVolatile;
  if (!data) return;
  Block* block = block_of(a.actor);
  if (block == nullptr) return;
  Operation& op = operations_[block->op];
  ++block->steps;
  op.steps = std::max(op.steps, block->steps);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((a.mask >> lane & 1) == 0) continue;
    // Neighbouring lanes are one range.
    const Address begin = a.address[lane];
    uint64_t bytes = a.bytes;
    while (lane + 1 < 32 && (a.mask >> (lane + 1) & 1) != 0 &&
           a.address[lane + 1] == begin + bytes) {
      bytes += a.bytes;
      ++lane;
    }
    touch(op, a.access, begin, bytes, a.code, block);
  }
}

void Footprint::async(const AsyncAccess& a) {
  inner_.async(a);
  // Everything below is shared memory.
  if (a.begin < kDeviceBase) return;
  Block* block = block_of(a.actor);
  if (block == nullptr) return;
  Operation& op = operations_[block->op];
  ++block->steps;
  op.steps = std::max(op.steps, block->steps);
  touch(op, a.access, a.begin, a.bytes, a.code, block);
}

void Footprint::range(const RangeAccess& a) {
  inner_.range(a);
  if (a.order != Order::kWeak) return;
  const auto stream = of_stream_.find(a.actor);
  if (stream == of_stream_.end()) return;
  touch(operations_[stream->second], a.access, a.begin, a.bytes, a.code, nullptr);
}

}  // namespace sculler::emu
