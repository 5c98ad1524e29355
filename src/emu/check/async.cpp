// The asynchronous proxy in happens-before. A bulk copy or wgmma has under way what it reads and
// writes until something says that it is done: its mbarrier's phase, a wait for its group. So it is
// an actor of its own beside the warp that issued it, whose clock the waiter learns. It begins
// behind all that the warp knows; what other proxies wrote also needs a proxy fence on the way
// there (PTX ISA, proxy-preserved base causality order). Fences are known like everything else: as
// an actor beside each block that says up to where its warps' writes are fenced.
#include <algorithm>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {

PhasePoint& Checker::point_at(Address barrier) {
  const auto [at, fresh] = points_.try_emplace(barrier);
  if (fresh)
    if (Block* owner = block_at(barrier)) owner->barriers.push_back(barrier);
  return at->second;
}

// An actor beside those of a block: what they have under way.
uint32_t Checker::slot_beside(uint32_t slot, AsyncKind kind) {
  Slot beside = slots_[slot];
  beside.live = nullptr;
  beside.async = kind;
  beside.is_fence = kind == AsyncKind::kNone;
  beside.fenced = {};
  return new_slot(beside);
}

uint32_t Checker::async_slot(const Actor& warp, AsyncKind kind) {
  const auto index = static_cast<size_t>(kind) - static_cast<size_t>(AsyncKind::kBulkRead);
  Block& block = *slots_[warp.slot].live;
  if (block.async_slots[index] == 0) block.async_slots[index] = slot_beside(warp.slot, kind);
  return block.async_slots[index];
}

void Checker::know(Actor& actor, std::span<const ClockEntry> more) {
  const bool same = actor.known == actor.loose;
  actor.known = pool_.join(actor.known, more);
  actor.loose = same ? actor.known : pool_.join(actor.loose, more);
}

void Checker::async_commit(ActorId id, AsyncKind kind) {
  if (Actor* const warp = find_actor(id))
    ++(kind == AsyncKind::kMatrix ? warp->matrix_group : warp->bulk_group);
}

void Checker::async_wait(ActorId id, AsyncKind kind, uint32_t pending) {
  Actor* const warp = find_actor(id);
  if (warp == nullptr || !config_.races) return;
  const uint32_t open = kind == AsyncKind::kMatrix ? warp->matrix_group : warp->bulk_group;
  if (open <= 1 + uint64_t{pending}) return;  // groups begin at 1; `open` is being filled
  const uint32_t done = open - 1 - pending;
  std::array<ClockEntry, 2> entries;
  size_t n = 0;
  const auto add = [&](AsyncKind which) {
    const auto index = static_cast<size_t>(which) - static_cast<size_t>(AsyncKind::kBulkRead);
    const uint32_t slot = slots_[warp->slot].live->async_slots[index];
    if (slot != 0) entries[n++] = {one_warp(slot, warp->warp), done};
  };
  if (kind == AsyncKind::kBulkWrite) add(AsyncKind::kBulkRead);
  add(kind);
  if (n != 0) know(*warp, std::span(entries).first(n));
}

void Checker::arrive(PhasePoint& point, Actor& actor, bool release) {
  if (!config_.races) return;
  if (release) {
    merge(point.pending, snapshot(actor, actor.known));
    ++actor.count;
    return;
  }
  // A relaxed arrival tells what a fence before it has released.
  for (uint8_t level = 1; level < kLevels; ++level)
    if (actor.fence[level].valid) merge(point.pending, actor.fence[level]);
}

void Checker::complete(PhasePoint& point) {
  if (point.pending.valid) point.completed = joined(point.completed, point.pending);
  point.pending = Snapshot{};
  entries_.clear();
  for (const auto& [issuer, slot] : point.copies)
    entries_.push_back({all_warps(slot), point.count});
  if (!entries_.empty()) point.completed = pool_.join(point.completed, entries_);
  ++point.count;
}

void Checker::cluster_arrive(ActorId id, uint32_t cluster, bool release) {
  if (Actor* const actor = find_actor(id)) arrive(clusters_[cluster], *actor, release);
}

void Checker::cluster_phase(uint32_t cluster) { complete(clusters_[cluster]); }

void Checker::cluster_wait(ActorId id, uint32_t cluster) {
  if (Actor* const actor = find_actor(id)) know(*actor, clusters_[cluster].completed.entries());
}

void Checker::proxy_fence(ActorId id, bool shared, bool global) {
  Actor* const warp = find_actor(id);
  if (warp == nullptr || !config_.races) return;
  const GridId grid = slots_[warp->slot].grid;
  std::vector<ClockEntry> fences;
  for (size_t space = shared ? 0 : 1; space < (global ? 2u : 1u); ++space) {
    const auto add = [&](uint32_t slot, uint32_t sub, uint32_t count) {
      if (slots_[slot].fenced[space] == 0) {
        const uint32_t beside = slot_beside(slot, AsyncKind::kNone);
        slots_[slot].fenced[space] = beside;
      }
      fences.push_back({slots_[slot].fenced[space] << 6 | sub, count});
    };
    add(warp->slot, warp->warp + 1, warp->count);
    if (warp->base != 0) add(warp->slot, 0, warp->base);
    // What others wrote and told this warp is fenced as well.
    for (const ClockEntry& entry : warp->known.entries()) {
      const uint32_t slot = entry.key >> 6;
      const Slot& of = slots_[slot];
      if (of.async != AsyncKind::kNone || of.grid == 0 || grids_[of.grid].ended_at != 0) continue;
      if (of.is_fence || (space == 0 && (of.grid != grid || of.live == nullptr))) continue;
      add(slot, entry.key & 63, entry.count);
    }
  }
  know(*warp, fences);
  ++warp->count;
}

bool Checker::async_before(const Actor& warp, const Record& record) {
  const uint32_t slot = record.actor >> kWarpBits, index = record.actor & (kMaxWarps - 1);
  unfenced_ = false;
  if (record.actor != warp.id && !knows(warp, warp.known, {slot, index, record.count}))
    return false;
  const Slot& of = slots_[slot];
  // One proxy, the end of a kernel, and copies and the host: nothing to fence. Reads neither: what
  // was read has come, and only writes linger in a proxy.
  if (of.async != AsyncKind::kNone || record.access == Access::kLoad || of.grid == 0 ||
      grids_[of.grid].ended_at != 0)
    return true;
  const uint32_t fence = of.fenced[place_.space == MemorySpace::kShared ? 0 : 1];
  unfenced_ = fence == 0 || warp.known.of(fence, index) < record.count;
  return !unfenced_;
}

}  // namespace sculler::emu::check
