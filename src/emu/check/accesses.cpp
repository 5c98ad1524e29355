#include <algorithm>
#include <bit>
#include <tuple>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {
namespace {

// Where a record or a set stands in Actor::ordered.
uint32_t memo_of(uint32_t id) {
  return (id ^ id >> 31 << 4) % std::tuple_size_v<decltype(Actor::ordered)>;
}

}  // namespace

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
  [[nodiscard]] bool settled(const Cell& cell) const {
    return cell.write == record && cell.read == 0;
  }
  void touch(Cell& cell, uint32_t offset, uint32_t bytes) const {
    if (cell.write != 0 && cell.write != record)
      checker.check_write(actor, cell.write, record, offset, bytes);
    if (cell.read != 0) checker.check_reads(actor, cell.read, record, offset, bytes);
    cell = {record, 0};
  }
};

RecordId Checker::record(Actor& actor, uint32_t code, Access access, bool atomic, uint8_t level) {
  const uint32_t kind = static_cast<uint32_t>(access) | (atomic ? 4u : 0u) | uint32_t{level} << 3;
  Actor::Memo& memo = actor.memo[(code ^ kind) % actor.memo.size()];
  if (memo.record != 0 && memo.code == code && memo.count == actor.count && memo.kind == kind)
    return memo.record;
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
  if (async_) return async_before(actor, records_[id]);
  uint32_t& memo = actor.ordered[memo_of(id)];
  if (memo == id) return true;
  const Record& record = records_[id];
  if (record.actor != actor.id &&
      !knows(actor, actor.known,
             {record.actor >> kWarpBits, record.actor & (kMaxWarps - 1), record.count})) {
    return false;
  }
  memo = id;
  return true;
}

void Checker::check_write(Actor& actor, uint32_t write, RecordId now, uint32_t offset,
                          uint32_t bytes) {
  if (both_atomic(records_[write], records_[now]) || happened_before(actor, write)) return;
  race(actor, now, write, offset, bytes);
}

void Checker::check_reads(Actor& actor, ReadersId reads, RecordId now, uint32_t offset,
                          uint32_t bytes) {
  const auto check = [&](RecordId read) {
    if (happened_before(actor, read)) return true;
    if (!both_atomic(records_[read], records_[now])) race(actor, now, read, offset, bytes);
    return false;
  };
  if ((reads & kSetBit) == 0) {
    check(reads);
    return;
  }
  if (actor.ordered[memo_of(reads)] == reads) return;
  bool all = true;
  for (ReadersId at = reads; at != kSetBit; at = records_.member(at).previous | kSetBit) {
    all = check(records_.member(at).record) && all;
  }
  if (all) actor.ordered[memo_of(reads)] = reads;
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

// One instruction's or one copy's way through the shadow.
template <bool kReads, bool kWrites>
class Toucher {
 public:
  Toucher(Checker& checker, Actor& actor, MemorySpace space, RecordId record)
      : checker_(checker), actor_(actor), record_(record) {
    checker.place_.space = space;
    if (space == MemorySpace::kShared) enter(checker.slots_[actor.slot].live);
  }

  void bytes(Address begin, uint64_t n) {
    if (shared_ != nullptr) {
      uint64_t at = begin - shared_base_;
      if (at >= shared_bytes_) {  // another block's of the cluster
        Block* const other = checker_.block_at(begin);
        if (other == nullptr) return;
        enter(other);
        at = begin - shared_base_;
      }
      if (n > shared_bytes_ - at) return;
      return granules(shared_, at, at, n);
    }
    if (checker_.place_.space == MemorySpace::kShared) return;
    while (n != 0) {
      const Address base = begin & ~Address{kPage - 1};
      if (base != page_base_) {
        page_ = checker_.global_.page(begin);
        page_base_ = base;
      }
      if (page_ == nullptr) return;
      const uint64_t here = std::min<uint64_t>(n, kPage - (begin - base));
      granules(page_, begin - base, begin, here);
      begin += here;
      n -= here;
    }
  }

  // Neighbouring lanes that touch neighbouring bytes make one run.
  void lanes(const WarpAccess& access, uint32_t mask) {
    const Address* const address = access.address;
    const uint64_t n = access.bytes;
    if (mask == ~0u) {
      uint64_t different = 0;
      for (uint32_t lane = 0; lane < 32; ++lane)
        different |= (address[lane] - address[0]) ^ (lane * n);
      if (different == 0) return bytes(address[0], 32 * n);
    }
    if (shared_ == nullptr && std::popcount(mask) >= 8) {
      const uint32_t rest = mask & (mask - 1);
      const Address step = address[std::countr_zero(rest)] - address[std::countr_zero(mask)];
      if (step + kGranule >= 2 * kGranule) fetch(address, mask);
    }
    Address begin = address[std::countr_zero(mask)], end = begin + n;
    for (uint32_t left = mask & (mask - 1); left != 0; left &= left - 1) {
      const Address at = address[std::countr_zero(left)];
      if (at == end) {
        end += n;
      } else if (at < begin || at + n > end) {
        bytes(begin, end - begin);
        begin = at;
        end = at + n;
      }
    }
    bytes(begin, end - begin);
  }

 private:
  void enter(Block* block) {
    shared_ = block->shared.granules().data();
    shared_base_ = block->shared_base;
    shared_bytes_ = block->shared_bytes;
    checker_.place_.block = block;
  }

  // Scattered lanes would wait for their cells one after the other: ask for all of them at once.
  void fetch(const Address* address, uint32_t mask) {
    if (checker_.place_.space == MemorySpace::kShared) return;
    std::array<const Granule*, 32> granules;
    uint32_t n = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const Address at = address[std::countr_zero(left)];
      const Granule* const page = checker_.global_.page(at);
      if (page == nullptr) return;
      granules[n] = page + at % kPage / kGranule;
      __builtin_prefetch(granules[n++]);
    }
    std::array<const Quads::Quad*, 32> quads{};
    for (uint32_t i = 0; i < n; ++i) {
      if ((granules[i]->cell.write & kSplit) == 0) continue;
      quads[i] = &checker_.quads_[granules[i]->cell.write];
      __builtin_prefetch(quads[i]);
    }
    uint32_t i = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1, ++i) {
      if (quads[i] == nullptr) continue;
      const Cell& part = (*quads[i])[address[std::countr_zero(left)] % kGranule / (kGranule / 4)];
      if ((part.write & kSplit) != 0) __builtin_prefetch(&checker_.quads_[part.write]);
    }
  }

  // `at`: offset from the first granule; `where`: the same as an address, or an offset in shared
  // memory.
  void granules(Granule* first, uint64_t at, uint64_t where, uint64_t n) {
    Granule* granule = first + at / kGranule;
    auto low = static_cast<uint32_t>(at % kGranule);
    where -= low;
    for (uint64_t left = n + low; left != 0; ++granule, where += kGranule, low = 0) {
      const auto high = static_cast<uint32_t>(std::min<uint64_t>(kGranule, left));
      one(*granule, where, low, high);
      left -= high;
    }
  }

  void one(Granule& granule, uint64_t where, uint32_t low, uint32_t high) {
    checker_.place_.granule = where;
    const uint64_t bits = (~uint64_t{0} >> (kGranule - (high - low))) << low;
    if constexpr (kReads) {
      if ((granule.written & bits) != bits && checker_.config_.init) {
        const uint64_t missing = bits & ~granule.written;
        checker_.uninitialised(actor_, record_, static_cast<uint32_t>(std::countr_zero(missing)),
                               static_cast<uint32_t>(std::popcount(missing)));
      }
    }
    if (checker_.config_.races) {
      using Op = std::conditional_t<kWrites, StoreOp, LoadOp>;
      Op op{checker_, actor_, record_};
      visit<kGranule>(checker_.quads_, granule.cell, 0, low, high, op);
    }
    if constexpr (kWrites) granule.written |= bits;
  }

  Checker& checker_;
  Actor& actor_;
  RecordId record_;
  Granule* shared_ = nullptr;
  Address shared_base_ = 0;
  uint64_t shared_bytes_ = 0;
  Granule* page_ = nullptr;
  Address page_base_ = 1;
};

void Checker::access(const WarpAccess& access) {
  Actor* const actor = find_actor(access.actor);
  if (actor == nullptr || access.mask == 0 || access.bytes == 0) return;
  collect_if_due();
  refresh(*actor);
  const bool atomic = access.order != Order::kWeak;
  const uint8_t level = access.order == Order::kVolatile ? uint8_t{2} : level_of(access.scope);
  const uint32_t code = codes_.of(access.code);
  const bool is_rmw = access.access == Access::kAtomic;
  const uint32_t writing = is_rmw                            ? access.mask & access.wrote
                           : access.access == Access::kStore ? access.mask
                                                             : 0;
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
  if (ordered && !signals_.empty() && access.access == Access::kLoad) note_wait(access);
  if (ordered) {
    strong.acquires = access.order == Order::kAcquire || access.order == Order::kAcqRel ||
                      access.order == Order::kSeqCst;
    strong.releases = access.order == Order::kRelease || access.order == Order::kAcqRel ||
                      access.order == Order::kSeqCst;
    constexpr uint32_t kFew = 8;
    uint32_t distinct = 0;
    each_address(access.mask, [&] { ++distinct; });
    strong.few = distinct <= kFew;
    if (access.access != Access::kStore)
      each_address(access.mask, [&] { strong_read(*actor, strong); });
  }
  if (reading != 0) {
    const RecordId now = record(*actor, code, Access::kLoad, atomic, level);
    Toucher<true, false>(*this, *actor, access.space, now).lanes(access, reading);
  }
  if (writing != 0) {
    const RecordId now = record(*actor, code, access.access, atomic, level);
    if (is_rmw) {
      Toucher<true, true>(*this, *actor, access.space, now).lanes(access, writing);
    } else {
      Toucher<false, true>(*this, *actor, access.space, now).lanes(access, writing);
    }
    if (ordered) {
      // Scattered relaxed ones only matter where somebody synchronises.
      const bool fenced = actor->fence[0].valid || actor->fence[1].valid || actor->fence[2].valid;
      if (strong.releases || strong.few || fenced || !sync_.empty()) {
        each_address(writing, [&] { strong_write(*actor, strong); });
      }
      if (strong.releases) ++actor->count;
    }
  }
}

void Checker::touch(Actor& actor, RecordId now, bool writes, Address begin, uint64_t bytes) {
  if (writes) Toucher<false, true>(*this, actor, MemorySpace::kGlobal, now).bytes(begin, bytes);
  else Toucher<false, false>(*this, actor, MemorySpace::kGlobal, now).bytes(begin, bytes);
}

void Checker::range(const RangeAccess& access) {
  Actor* const actor = find_actor(access.actor);
  if (actor == nullptr || access.bytes == 0) return;
  collect_if_due();
  refresh(*actor);
  const bool reads = access.access != Access::kStore, writes = access.access != Access::kLoad;
  const bool atomic = access.order != Order::kWeak;
  const Block& block = *slots_[actor->slot].live;
  const bool shared =
      block.shared_bytes != 0 && access.begin - block.shared_base < block.shared_bytes;
  const MemorySpace space = shared ? MemorySpace::kShared : MemorySpace::kGlobal;
  const auto word = static_cast<uint32_t>(std::min<uint64_t>(access.bytes, 16));
  const Strong strong{space,
                      access.begin,
                      word,
                      access.access == Access::kAtomic,
                      atomic && access.order != Order::kRelease,
                      atomic && access.order != Order::kAcquire,
                      2,
                      true};
  if (atomic && reads && config_.races) strong_read(*actor, strong);
  const RecordId now =
      record(*actor, codes_.of(access.code, access.what), access.access, atomic, 2);
  // A copy may carry what nobody wrote; only kernels are asked what they read.
  const bool judged = reads && slots_[actor->slot].grid != 0;
  if (writes) {
    if (judged) {
      Toucher<true, true>(*this, *actor, space, now).bytes(access.begin, access.bytes);
    } else {
      Toucher<false, true>(*this, *actor, space, now).bytes(access.begin, access.bytes);
    }
  } else if (judged) {
    Toucher<true, false>(*this, *actor, space, now).bytes(access.begin, access.bytes);
  } else {
    Toucher<false, false>(*this, *actor, space, now).bytes(access.begin, access.bytes);
  }
  if (atomic && writes && config_.races) {
    strong_write(*actor, strong);
    if (strong.releases) ++actor->count;
  }
}

// The asynchronous proxy's way: what `actor` issued is checked by what the actor knows and has
// fenced, and stands in the shadow as an actor of its own.
void Checker::async(const AsyncAccess& access) {
  Actor* const warp = find_actor(access.actor);
  if (warp == nullptr || access.bytes == 0 || access.kind == AsyncKind::kNone) return;
  collect_if_due();
  refresh(*warp);
  uint32_t slot = 0, count = 0;
  if (access.kind == AsyncKind::kTransaction) {
    PhasePoint& point = point_at(access.barrier);
    for (const auto& [issuer, copies] : point.copies)
      if (issuer == warp->slot) slot = copies;
    if (slot == 0) {
      slot = slot_beside(warp->slot, access.kind);
      point.copies.emplace_back(warp->slot, slot);
    }
    count = point.count;
  } else {
    slot = async_slot(*warp, access.kind);
    count = access.kind == AsyncKind::kMatrix ? warp->matrix_group : warp->bulk_group;
  }
  const bool is_rmw = access.access == Access::kAtomic;
  const ActorId id = slot << kWarpBits | warp->warp;
  const uint32_t code = codes_.of(access.code);
  LastAsync& last = last_async_[(code ^ static_cast<uint32_t>(access.access)) % last_async_.size()];
  if (last.actor != id || last.count != count || last.code != code ||
      last.access != access.access || last.generation != generation_) {
    last = {id,
            count,
            code,
            generation_,
            access.access,
            records_.add({id, count, code, access.access, is_rmw, uint8_t{1}, false})};
  }
  const RecordId now = last.record;
  const MemorySpace space = access.begin - kSharedBase < kLocalBase - kSharedBase
                                ? MemorySpace::kShared
                                : MemorySpace::kGlobal;
  async_ = true;
  // Arrivals since then hide the initialisation of an mbarrier in the shadow.
  if (access.kind == AsyncKind::kTransaction && access.begin == access.barrier) {
    PhasePoint& point = point_at(access.barrier);
    Block* const owner = block_at(access.barrier);
    if (point.init.actor != 0 && owner != nullptr) {
      place_ = {MemorySpace::kShared, access.barrier - owner->shared_base, owner};
      if (!async_before(*warp, point.init)) race(*warp, now, records_.add(point.init), 0, 8);
      point.init = {};
    }
  }
  if (is_rmw) {
    Toucher<true, true>(*this, *warp, space, now).bytes(access.begin, access.bytes);
  } else if (access.access == Access::kStore) {
    Toucher<false, true>(*this, *warp, space, now).bytes(access.begin, access.bytes);
  } else {
    Toucher<true, false>(*this, *warp, space, now).bytes(access.begin, access.bytes);
  }
  async_ = false;
}

void Checker::mbarrier(const BarrierAccess& access) {
  constexpr uint64_t kBytes = 8;
  Actor* const actor = find_actor(access.actor);
  if (actor == nullptr) return;
  collect_if_due();
  refresh(*actor);
  const uint32_t code = codes_.of(access.code);
  switch (access.step) {
    case BarrierStep::kInit:
    case BarrierStep::kInvalidate: {
      const RecordId now = record(*actor, code, Access::kStore, false, 0);
      Toucher<false, true>(*this, *actor, MemorySpace::kShared, now).bytes(access.address, kBytes);
      points_.erase(access.address);
      if (access.step == BarrierStep::kInit && config_.races)
        point_at(access.address).init = records_[now];
      break;
    }
    case BarrierStep::kArrive:
    case BarrierStep::kArriveRelaxed: {
      const RecordId now = record(*actor, code, Access::kAtomic, true, 1);
      Toucher<true, true>(*this, *actor, MemorySpace::kShared, now).bytes(access.address, kBytes);
      arrive(point_at(access.address), *actor, access.step == BarrierStep::kArrive);
      break;
    }
    case BarrierStep::kPhase: complete(point_at(access.address)); break;
    case BarrierStep::kTest:
    case BarrierStep::kWait: {
      const RecordId now = record(*actor, code, Access::kLoad, true, 1);
      Toucher<true, false>(*this, *actor, MemorySpace::kShared, now).bytes(access.address, kBytes);
      if (access.step == BarrierStep::kWait)
        know(*actor, point_at(access.address).completed.entries());
      break;
    }
  }
}

}  // namespace sculler::emu::check
