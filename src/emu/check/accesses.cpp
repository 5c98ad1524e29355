#include <algorithm>
#include <bit>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {

struct LoadOp {
  Checker& checker;
  Actor& actor;
  RecordId record;
  [[nodiscard]] bool settled(const Cell& cell) const { return cell.read == record; }
  void touch(Cell& cell, uint32_t offset, uint32_t bytes) const {
    if (cell.read == record) return;
    if (cell.write != 0) checker.check_write(actor, cell.write, record, offset, bytes);
    cell.read = cell.read == 0 ? record : checker.add_reader(actor, cell.read, record);
  }
};

struct StoreOp {
  Checker& checker;
  Actor& actor;
  RecordId record;
  [[nodiscard]] bool settled(const Cell& cell) const { return cell.write == record && cell.read == 0; }
  void touch(Cell& cell, uint32_t offset, uint32_t bytes) const {
    if (cell.write != 0 && cell.write != record) checker.check_write(actor, cell.write, record, offset, bytes);
    if (cell.read != 0) checker.check_reads(actor, cell.read, record, offset, bytes);
    cell = {record, 0};
  }
};

RecordId Checker::record(Actor& actor, uint32_t code, Access access, bool atomic, uint8_t level) {
  const uint32_t kind = static_cast<uint32_t>(access) | (atomic ? 4u : 0u) | uint32_t{level} << 3;
  Actor::Memo& memo = actor.memo[(code ^ kind) % actor.memo.size()];
  if (memo.record != 0 && memo.code == code && memo.count == actor.count && memo.kind == kind) return memo.record;
  const RecordId id = records_.add({actor.id, actor.count, code, access, atomic, level, false});
  memo = {code, actor.count, kind, id};
  return id;
}

bool Checker::both_atomic(const Record& a, const Record& b) const {
  if (!a.atomic || !b.atomic) return false;
  const uint32_t slot_a = a.actor >> kWarpBits, slot_b = b.actor >> kWarpBits;
  if (slot_a == slot_b) return true;
  const uint8_t far = slots_[slot_a].rank == slots_[slot_b].rank ? 1 : 2;
  return std::min(a.level, b.level) >= far;
}

bool Checker::happened_before(Actor& actor, RecordId id) {
  uint32_t& memo = actor.ordered[id % actor.ordered.size()];
  if (memo == id) return true;
  const Record& record = records_[id];
  if (record.actor != actor.id &&
      !knows(actor, actor.known, {record.actor >> kWarpBits, record.actor & (kMaxWarps - 1), record.count})) {
    return false;
  }
  memo = id;
  return true;
}

void Checker::check_write(Actor& actor, uint32_t write, RecordId now, uint32_t offset, uint32_t bytes) {
  if (happened_before(actor, write) || both_atomic(records_[write], records_[now])) return;
  race(actor, now, write, offset, bytes);
}

void Checker::check_reads(Actor& actor, ReadersId reads, RecordId now, uint32_t offset, uint32_t bytes) {
  const auto check = [&](RecordId read) {
    if (happened_before(actor, read)) return true;
    if (!both_atomic(records_[read], records_[now])) race(actor, now, read, offset, bytes);
    return false;
  };
  if ((reads & kSetBit) == 0) {
    check(reads);
    return;
  }
  uint32_t& memo = actor.ordered[reads % actor.ordered.size()];
  if (memo == reads) return;
  bool all = true;
  for (ReadersId at = reads; at != kSetBit; at = records_.member(at).previous | kSetBit) {
    all = check(records_.member(at).record) && all;
  }
  if (all) actor.ordered[reads % actor.ordered.size()] = reads;
}

ReadersId Checker::add_reader(Actor& actor, ReadersId readers, RecordId now) {
  if (const ReadersId known = records_.remembered(readers, now)) return known;
  ReadersId result;
  if ((readers & kSetBit) == 0) {
    // A later atomic write is no conflict with an atomic read, but with the weak read before it.
    const bool hides = records_[readers].atomic || !records_[now].atomic;
    result = hides && happened_before(actor, readers) ? now : records_.append(readers, now);
  } else {
    result = records_.append(readers, now);
  }
  records_.remember(readers, now, result);
  return result;
}

void Checker::touch_granule(Actor& actor, Granule& granule, uint32_t begin, uint32_t end, RecordId now, bool reads,
                            bool writes) {
  const uint64_t bits = (end - begin == kGranule ? ~uint64_t{0} : (uint64_t{1} << (end - begin)) - 1) << begin;
  if (reads && (granule.written & bits) != bits && config_.init) {
    const auto first = static_cast<uint32_t>(std::countr_zero(bits & ~granule.written));
    uninitialised(actor, now, first, static_cast<uint32_t>(std::popcount(bits & ~granule.written)));
  }
  if (config_.races) {
    if (writes) {
      StoreOp op{*this, actor, now};
      visit<kGranule>(quads_, granule.cell, 0, begin, end, op);
    } else {
      LoadOp op{*this, actor, now};
      visit<kGranule>(quads_, granule.cell, 0, begin, end, op);
    }
  }
  if (writes) granule.written |= bits;
}

void Checker::touch(Actor& actor, MemorySpace space, Address begin, uint64_t bytes, RecordId now, bool reads,
                    bool writes) {
  place_.space = space;
  if (space == MemorySpace::kShared) {
    Block& block = *slots_[actor.slot].live;
    const uint64_t at = begin - block.shared_base;
    if (at >= block.shared_bytes || bytes > block.shared_bytes - at) return;  // another block's of the cluster
    const auto granules = block.shared.granules();
    for (uint64_t byte = at; byte < at + bytes;) {
      const auto low = static_cast<uint32_t>(byte % kGranule);
      const auto high = static_cast<uint32_t>(std::min<uint64_t>(kGranule, low + at + bytes - byte));
      place_.granule = byte - low;
      touch_granule(actor, granules[byte / kGranule], low, high, now, reads, writes);
      byte += high - low;
    }
    return;
  }
  const Address end = begin + bytes;
  while (begin < end) {
    Granule* const page = global_.page(begin);
    if (page == nullptr) return;
    const Address page_end = std::min(end, (begin / kPage + 1) * kPage);
    while (begin < page_end) {
      const auto low = static_cast<uint32_t>(begin % kGranule);
      const auto high = static_cast<uint32_t>(std::min<uint64_t>(kGranule, low + page_end - begin));
      place_.granule = begin - low;
      touch_granule(actor, page[begin % kPage / kGranule], low, high, now, reads, writes);
      begin += high - low;
    }
  }
}

// Neighbouring lanes that touch neighbouring bytes make one run.
void Checker::touch_lanes(Actor& actor, const WarpAccess& access, uint32_t mask, RecordId now, bool reads, bool writes) {
  const Address* const address = access.address;
  const uint64_t bytes = access.bytes;
  if (mask == ~0u) {
    uint64_t different = 0;
    for (uint32_t lane = 0; lane < 32; ++lane) different |= (address[lane] - address[0]) ^ (lane * bytes);
    if (different == 0) return touch(actor, access.space, address[0], 32 * bytes, now, reads, writes);
  }
  Address begin = 0, end = 0;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const Address at = address[std::countr_zero(left)];
    if (at == end && end != 0) {
      end += bytes;
    } else if (end != 0 && at >= begin && at + bytes <= end) {
      continue;
    } else {
      if (end != 0) touch(actor, access.space, begin, end - begin, now, reads, writes);
      begin = at;
      end = at + bytes;
    }
  }
  if (end != 0) touch(actor, access.space, begin, end - begin, now, reads, writes);
}

void Checker::access(const WarpAccess& access) {
  Actor* const actor = find_actor(access.actor);
  if (actor == nullptr || access.mask == 0 || access.bytes == 0) return;
  collect_if_due();
  if (actor->generation != generation_) {
    actor->generation = generation_;
    actor->memo.fill({});
    actor->ordered.fill(0);
  }
  const bool atomic = access.order != Order::kWeak;
  const uint8_t level = access.order == Order::kVolatile ? uint8_t{2} : level_of(access.scope);
  const uint32_t code = codes_.of(access.code);
  const bool is_rmw = access.access == Access::kAtomic;
  const uint32_t writing = is_rmw ? access.mask & access.wrote : access.access == Access::kStore ? access.mask : 0;
  const uint32_t reading = access.mask & ~writing;

  Strong strong{access.space, 0, access.bytes, is_rmw, false, false, level, false};
  const auto each_address = [&](uint32_t mask, const auto& tell) {
    Address last = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      strong.address = access.address[std::countr_zero(left)];
      if (strong.address == last) continue;
      last = strong.address;
      tell();
    }
  };
  const bool ordered = atomic && config_.races;
  if (ordered) {
    strong.acquires = access.order == Order::kAcquire || access.order == Order::kAcqRel || access.order == Order::kSeqCst;
    strong.releases = access.order == Order::kRelease || access.order == Order::kAcqRel || access.order == Order::kSeqCst;
    constexpr uint32_t kFew = 8;
    uint32_t distinct = 0;
    each_address(access.mask, [&] { ++distinct; });
    strong.few = distinct <= kFew;
    if (access.access != Access::kStore) each_address(access.mask, [&] { strong_read(*actor, strong); });
  }
  if (reading != 0) {
    const RecordId now = record(*actor, code, Access::kLoad, atomic, level);
    touch_lanes(*actor, access, reading, now, true, false);
  }
  if (writing != 0) {
    const RecordId now = record(*actor, code, access.access, atomic, level);
    touch_lanes(*actor, access, writing, now, is_rmw, true);
    if (ordered) {
      each_address(writing, [&] { strong_write(*actor, strong); });
      if (strong.releases) ++actor->count;
    }
  }
}

void Checker::range(const RangeAccess& access) {
  Actor* const actor = find_actor(access.actor);
  if (actor == nullptr || access.bytes == 0) return;
  collect_if_due();
  if (actor->generation != generation_) {
    actor->generation = generation_;
    actor->memo.fill({});
    actor->ordered.fill(0);
  }
  const bool reads = access.access != Access::kStore, writes = access.access != Access::kLoad;
  const bool atomic = access.order != Order::kWeak;
  const Block& block = *slots_[actor->slot].live;
  const bool shared = block.shared_bytes != 0 && access.begin - block.shared_base < block.shared_bytes;
  const MemorySpace space = shared ? MemorySpace::kShared : MemorySpace::kGlobal;
  const auto word = static_cast<uint32_t>(std::min<uint64_t>(access.bytes, 16));
  const Strong strong{space, access.begin, word, access.access == Access::kAtomic,
                      atomic && access.order != Order::kRelease, atomic && access.order != Order::kAcquire, 2, true};
  if (atomic && reads && config_.races) strong_read(*actor, strong);
  const RecordId now = record(*actor, codes_.of(access.code, access.what), access.access, atomic, 2);
  // A copy may carry what nobody wrote; only kernels are asked what they read.
  const bool judged = reads && slots_[actor->slot].grid != 0;
  touch(*actor, space, access.begin, access.bytes, now, judged, writes);
  if (atomic && writes && config_.races) {
    strong_write(*actor, strong);
    if (strong.releases) ++actor->count;
  }
}

}  // namespace sculler::emu::check
