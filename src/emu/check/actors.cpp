#include <algorithm>
#include <stdexcept>

#include "emu/check/checker_impl.h"

namespace sculler::emu {

std::unique_ptr<Observer> make_checker(CheckerConfig config) {
  return std::make_unique<check::Checker>(std::move(config));
}

}  // namespace sculler::emu

namespace sculler::emu::check {
namespace {
constexpr uint64_t kMostWindows = 1u << 22;
}

Checker::Checker(CheckerConfig config) : config_(std::move(config)), slots_(1), grids_(1) {
  records_.set_limit(std::max<size_t>(config_.collect_records, 16));
}

uint32_t Checker::new_slot(const Slot& slot) {
  if (slots_.size() > kMaxSlot)
    throw std::logic_error("checker: more than 67 million blocks in one job");
  slots_.push_back(slot);
  return static_cast<uint32_t>(slots_.size() - 1);
}

ActorId Checker::add_single(int rank, bool is_host) {
  blocks_.push_back(std::make_unique<Block>());
  Block* block = blocks_.back().get();
  const uint32_t slot = new_slot({0, 0, rank, is_host, block});
  Actor actor;
  actor.id = slot << kWarpBits;
  actor.slot = slot;
  actor.rank = rank;
  block->actors.push_back(std::move(actor));
  return slot << kWarpBits;
}

Actor* Checker::find_actor(ActorId id) {
  const uint32_t slot = id >> kWarpBits, warp = id & (kMaxWarps - 1);
  if (slot >= slots_.size() || slots_[slot].live == nullptr ||
      warp >= slots_[slot].live->actors.size())
    return nullptr;
  return &slots_[slot].live->actors[warp];
}

// Entries of blocks whose grid has ended say nothing where the clock knows the stream from then on.
void Checker::prune(ClockRef& clock, uint32_t own_slot) {
  GridId grid = 0;
  bool gone = false;
  entries_.clear();
  for (const ClockEntry& entry : clock.entries()) {
    const Slot& slot = slots_[entry.key >> 6];
    if (slot.grid != grid) {
      grid = slot.grid;
      const Grid& of = grids_[grid];
      gone = grid != 0 && of.ended_at != 0 &&
             (of.stream_slot == own_slot || clock.of(of.stream_slot, 0) >= of.ended_at);
    }
    if (grid == 0 || !gone) entries_.push_back(entry);
  }
  if (entries_.size() < clock.size()) clock = pool_.make(entries_);
}

Block* Checker::block_at(Address shared) {
  const uint64_t window = (shared - kSharedBase) / kSharedWindow;
  Block* const block = window < windows_.size() ? windows_[window] : nullptr;
  return block != nullptr && shared - block->shared_base < block->shared_bytes ? block : nullptr;
}

void Checker::refresh(Actor& actor) {
  if (actor.generation == generation_) return;
  actor.generation = generation_;
  actor.memo.fill({});
  actor.ordered.fill(0);
}

GridId Checker::begin_grid(const GridInfo& info) {
  Grid grid;
  grid.info = info;
  grid.kernel = std::string(info.kernel);
  if (Actor* stream = find_actor(info.stream)) {
    prune(stream->known, stream->slot);
    prune(stream->loose, stream->slot);
    grid.stream_slot = stream->slot;
    grid.start = joined(stream->known, snapshot(*stream, stream->known));
    grid.start_loose = stream->loose == stream->known
                           ? grid.start
                           : joined(stream->loose, snapshot(*stream, stream->loose));
    ++stream->count;
  }
  grids_.push_back(std::move(grid));
  return static_cast<GridId>(grids_.size() - 1);
}

ActorId Checker::begin_block(GridId grid, uint32_t number, Address shared_base,
                             uint64_t shared_bytes) {
  Grid& of = grids_.at(grid);
  Block* block;
  if (!spare_.empty()) {
    block = spare_.back();
    spare_.pop_back();
  } else {
    blocks_.push_back(std::make_unique<Block>());
    block = blocks_.back().get();
  }
  const uint32_t slot = new_slot({grid, number, of.info.rank, false, block});
  block->slot = slot;
  const uint64_t window = (shared_base - kSharedBase) / kSharedWindow;
  if (window < kMostWindows) {
    if (windows_.size() <= window) windows_.resize(window + 1);
    windows_[window] = block;
  }
  block->async_slots.fill(0);
  block->shared_base = shared_base;
  block->shared_bytes = shared_bytes;
  block->shared.reset(shared_bytes);
  block->miss = {};
  const uint32_t warps = std::min(of.info.warps_per_block, kMaxWarps);
  block->actors.resize(warps);
  for (uint32_t warp = 0; warp < warps; ++warp) {
    Actor& actor = block->actors[warp];
    actor = Actor{};
    actor.id = slot << kWarpBits | warp;
    actor.slot = slot;
    actor.warp = warp;
    actor.rank = of.info.rank;
    actor.known = of.start;
    actor.loose = of.start_loose;
  }
  return slot << kWarpBits;
}

void Checker::end_block(GridId grid, uint32_t number) {
  Grid& of = grids_.at(grid);
  // Blocks end roughly in the order in which they began: look from the newest back.
  for (size_t slot = slots_.size(); slot-- > 1;) {
    if (slots_[slot].grid != grid || slots_[slot].block != number || slots_[slot].live == nullptr)
      continue;
    Block* block = slots_[slot].live;
    for (Actor& actor : block->actors) {
      if (!(actor.known == of.start)) of.end = pool_.join(of.end, actor.known);
      if (!(actor.loose == of.start_loose)) of.end_loose = pool_.join(of.end_loose, actor.loose);
      // The end of a kernel is a fence of the widest scope.
      for (const ClockRef& pending : actor.pending) {
        of.end = pool_.join(of.end, pending);
        of.end_loose = pool_.join(of.end_loose, pending);
      }
    }
    for (const uint64_t key : block->sync_keys) sync_.erase(key);
    block->sync_keys.clear();
    for (const Address barrier : block->barriers) points_.erase(barrier);
    block->barriers.clear();
    if (const uint64_t window = (block->shared_base - kSharedBase) / kSharedWindow;
        window < windows_.size()) {
      windows_[window] = nullptr;
    }
    for (Granule& granule : block->shared.granules()) quads_.clear(granule.cell);
    block->actors.clear();
    spare_.push_back(block);
    slots_[slot].live = nullptr;
    return;
  }
}

void Checker::end_grid(GridId grid) {
  Grid& of = grids_.at(grid);
  if (of.stream_slot == 0) return;
  Actor& stream = slots_[of.stream_slot].live->actors.front();
  stream.known = pool_.join(stream.known, of.end);
  stream.loose = pool_.join(stream.loose, of.end_loose);
  of.ended_at = ++stream.count;
  of.start = of.start_loose = of.end = of.end_loose = ClockRef{};
  prune(stream.known, stream.slot);
  prune(stream.loose, stream.slot);
}

void Checker::barrier(const ActorId* arrived, uint32_t n_arrived, const ActorId* waited,
                      uint32_t n_waited) {
  if (n_arrived == 0) return;
  const uint32_t slot = arrived[0] >> kWarpBits;
  bool one_block = slot < slots_.size() && slots_[slot].live != nullptr;
  for (uint32_t i = 1; one_block && i < n_arrived; ++i) one_block = arrived[i] >> kWarpBits == slot;
  if (one_block && n_arrived == n_waited && n_arrived == slots_[slot].live->actors.size()) {
    return level_block(*slots_[slot].live, n_arrived);
  }
  // Some of the warps, or warps of several blocks.
  ClockRef known, loose;
  entries_.clear();
  for (uint32_t i = 0; i < n_arrived; ++i) {
    Actor* actor = find_actor(arrived[i]);
    if (actor == nullptr) continue;
    known = pool_.join(known, actor->known);
    loose = pool_.join(loose, actor->loose);
    entries_.push_back({one_warp(actor->slot, actor->warp), actor->count});
    if (actor->base != 0) entries_.push_back({all_warps(actor->slot), actor->base});
    ++actor->count;
  }
  std::sort(entries_.begin(), entries_.end(), [](const ClockEntry& a, const ClockEntry& b) {
    return a.key < b.key || (a.key == b.key && a.count > b.count);
  });
  entries_.erase(
      std::unique(entries_.begin(), entries_.end(),
                  [](const ClockEntry& a, const ClockEntry& b) { return a.key == b.key; }),
      entries_.end());
  const bool same = known == loose;
  known = pool_.join(known, entries_);
  loose = same ? known : pool_.join(loose, entries_);
  for (uint32_t i = 0; i < n_waited; ++i) {
    Actor* actor = find_actor(waited[i]);
    if (actor == nullptr) continue;
    const bool equal = actor->known == actor->loose && same;
    actor->known = pool_.join(actor->known, known);
    actor->loose = equal ? actor->known : pool_.join(actor->loose, loose);
  }
}

// A barrier of all warps: one clock, one count.
void Checker::level_block(Block& block, uint32_t n) {
  Actor& first = block.actors[0];
  uint32_t count = first.count;
  ClockRef known = first.known, loose = first.loose;
  bool same = known == loose;
  for (uint32_t i = 1; i < n; ++i) {
    Actor& actor = block.actors[i];
    count = std::max(count, actor.count);
    same = same && actor.known == actor.loose;
    if (!(actor.known == known)) known = pool_.join(known, actor.known);
    if (!same && !(actor.loose == loose)) loose = pool_.join(loose, actor.loose);
  }
  if (same) loose = known;
  for (uint32_t i = 0; i < n; ++i) {
    Actor& actor = block.actors[i];
    actor.base = count;
    actor.count = count + 1;
    actor.known = known;
    actor.loose = loose;
  }
}

void Checker::edge(ActorId from, ActorId to) {
  Actor* source = find_actor(from);
  Actor* target = find_actor(to);
  if (source == nullptr || target == nullptr || source == target) return;
  const Snapshot known = snapshot(*source, source->known), loose = snapshot(*source, source->loose);
  target->known = joined(target->known, known);
  target->loose = joined(target->loose, loose);
  ++source->count;
  prune(target->known, target->slot);
  prune(target->loose, target->slot);
}

void Checker::allocated(int rank, Address begin, uint64_t bytes, bool zeroed) {
  const auto index = static_cast<size_t>(std::max(rank, 0));
  if (ordinals_.size() <= index) ordinals_.resize(index + 1);
  allocations_[begin] = {rank, ordinals_[index]++, bytes};
  global_.reset(begin, bytes, zeroed || !config_.init, quads_);
  sync_.erase_range(begin, begin + bytes);
}

void Checker::freed(Address begin, uint64_t bytes) {
  if (const auto found = allocations_.find(begin); found != allocations_.end()) {
    bytes = std::max(bytes, found->second.bytes);
    allocations_.erase(found);
  }
  global_.reset(begin, bytes, true, quads_);
  sync_.erase_range(begin, begin + bytes);
}

void Checker::collect_if_due() {
  if (!records_.due()) return;
  records_.begin_mark();
  const auto mark = [this](const Cell& cell) {
    if (cell.write != 0) records_.mark_record(cell.write);
    if (cell.read != 0) records_.mark_readers(cell.read);
  };
  global_.each_cell([&](const Cell& cell) { quads_.each(cell, mark); });
  for (const auto& block : blocks_) {
    if (block->actors.empty()) continue;
    for (const Granule& granule : block->shared.granules()) quads_.each(granule.cell, mark);
  }
  records_.sweep();
  ++generation_;
}

}  // namespace sculler::emu::check
