#include <algorithm>
#include <array>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {
namespace {

constexpr uint32_t kUnread = 2048;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

}  // namespace

bool Checker::knows(const Actor& actor, const ClockRef& clock, const Known& what) const {
  if (what.slot == actor.slot && (what.warp == actor.warp || what.count <= actor.base)) return true;
  if (clock.of(what.slot, what.warp) >= what.count) return true;
  const GridId grid = slots_[what.slot].grid;
  if (grid == 0) return false;
  // A grid that ended is known through its stream.
  const Grid& of = grids_[grid];
  if (of.ended_at == 0) return false;
  return of.stream_slot == actor.slot || clock.of(of.stream_slot, 0) >= of.ended_at;
}

bool Checker::knows(const Actor& actor, const Snapshot& what) const {
  return what.slot != 0 && knows(actor, actor.known, {what.slot, what.warp, what.count});
}

Snapshot Checker::snapshot(const Actor& actor, const ClockRef& clock) const {
  return {clock, actor.slot, actor.warp, actor.count, actor.base, true};
}

ClockRef Checker::joined(const ClockRef& clock, const Snapshot& what) {
  ClockRef out = pool_.join(clock, what.known);
  if (what.slot == 0) return out;
  if (slots_[what.slot].grid == 0) {
    const std::array<ClockEntry, 1> own{ClockEntry{all_warps(what.slot), what.count}};
    return pool_.join(out, own);
  }
  const std::array<ClockEntry, 2> own{ClockEntry{all_warps(what.slot), what.base},
                                      ClockEntry{one_warp(what.slot, what.warp), what.count}};
  return pool_.join(out, std::span(own).subspan(what.base == 0 ? 1 : 0));
}

bool Checker::learn(Actor& actor, const Snapshot& what) {
  if (knows(actor, what)) return false;
  const bool same = actor.known == actor.loose;
  const ClockRef before = actor.known;
  actor.known = joined(actor.known, what);
  actor.loose = same ? actor.known : joined(actor.loose, what);
  return !(actor.known == before);
}

void Checker::learn_loose(Actor& actor, const Snapshot& what) {
  if (what.slot == actor.slot && what.warp == actor.warp) return;
  if (what.slot != 0 && knows(actor, actor.loose, {what.slot, what.warp, what.count})) return;
  actor.loose = joined(actor.loose, what);
  // What its author does from now on was not seen.
  if (Actor* author = find_actor(what.slot << kWarpBits | what.warp)) {
    if (what.slot != 0 && author->count == what.count) ++author->count;
  }
}

// The join of two snapshots has no single author.
void Checker::merge(Snapshot& into, const Snapshot& more) {
  if (!into.valid) {
    into = more;
    return;
  }
  ClockRef all = joined(ClockRef{}, into);
  into = Snapshot{joined(all, more), 0, 0, 0, 0, true};
}

uint8_t Checker::distance(const Actor& actor, const Release& release) {
  if (release.slot == actor.slot) return 0;
  return release.rank == actor.rank ? 1 : 2;
}

void Checker::fence(ActorId id, Order order, Scope scope) {
  Actor* actor = find_actor(id);
  if (actor == nullptr) return;
  const uint8_t level = level_of(scope);
  if (order != Order::kRelease) {
    for (uint8_t far = 0; far <= level; ++far) {
      ClockRef& pending = actor->pending[far];
      if (pending.size() == 0) continue;
      const bool same = actor->known == actor->loose;
      actor->known = pool_.join(actor->known, pending);
      actor->loose = same ? actor->known : pool_.join(actor->loose, pending);
      pending = ClockRef{};
    }
  }
  if (order == Order::kAcquire) return;
  for (uint8_t narrow = 0; narrow < level; ++narrow) actor->fence[narrow] = Snapshot{};
  actor->fence[level] = snapshot(*actor, actor->known);
  ++actor->count;
}

// Generic addresses of shared memory name the block: its window.
uint64_t Checker::sync_key(MemorySpace space, Address address) {
  return space == MemorySpace::kGlobal ? address : uint64_t{1} << 63 | address;
}

// What a lane's atomic read learns.
void Checker::strong_read(Actor& actor, const Strong& access) {
  if (sync_.empty()) return;
  const uint64_t key = sync_key(access.space, access.address);
  if (SyncVar* var = sync_.find(key)) read_sync(actor, *var, access);
  for (uint32_t word = 4; word < access.bytes; word += 4) {
    if (SyncVar* var = sync_.find(key + word)) read_sync(actor, *var, access);
  }
  // A wider write that began below covers this address too.
  for (uint32_t width = 8; width <= 16; width *= 2) {
    const uint64_t wide = key & ~uint64_t{width - 1};
    if (wide == key) continue;
    if (SyncVar* var = sync_.find(wide); var != nullptr && var->bytes > key - wide)
      read_sync(actor, *var, access);
  }
}

void Checker::read_sync(Actor& actor, SyncVar& var, const Strong& access) {
  // Spinning reads find the same releases again and again.
  const bool again =
      !access.acquires && actor.pended_var == var.key + 1 && actor.pended_version == var.version;
  bool missed = again && actor.pended_missed;
  if (!again) {
    for (const Release& release : var.releases) {
      const uint8_t far = distance(actor, release), reach = std::min(access.level, release.level);
      if (far > reach) {
        missed = true;
        if (!knows(actor, release.what)) {
          slots_[actor.slot].live->miss = {release.rank, release.slot, far, reach};
        }
      } else if (access.acquires) {
        if (learn(actor, release.what)) note_order(actor, var, release);
      } else if (!knows(actor, release.what)) {
        // Counts once a fence follows.
        ClockRef& pending = actor.pending[far];
        const ClockRef before = pending;
        pending = joined(pending, release.what);
        if (!(pending == before)) note_order(actor, var, release);
      }
    }
    if (!access.acquires) {
      actor.pended_var = var.key + 1;
      actor.pended_version = var.version;
      actor.pended_missed = missed;
    }
  }
  // Who counts and counts and never looks does not synchronise; following that loosely would cost
  // most of the time.
  var.unread = access.is_rmw ? var.unread + 1 : 0;
  if (var.unread > kUnread) {
    var.relaxed = Snapshot{};
    return;
  }
  // A scope that does not reach orders nothing, loosely neither.
  if (var.relaxed.valid && !missed) learn_loose(actor, var.relaxed);
}

// What a lane's atomic write tells.
void Checker::strong_write(Actor& actor, const Strong& access) {
  const bool fenced = actor.fence[0].valid || actor.fence[1].valid || actor.fence[2].valid;
  const uint64_t key = sync_key(access.space, access.address);
  SyncVar* var = sync_.find(key);
  if (var == nullptr) {
    if (!access.releases && !access.few && !fenced) return;
    var = &sync_.get(key);
    var->stable = key;
    if (access.space == MemorySpace::kShared) {
      if (Block* owner = block_at(access.address)) owner->sync_keys.push_back(key);
    } else if (auto found = allocations_.upper_bound(access.address);
               found != allocations_.begin()) {
      --found;
      var->stable = mix(mix(static_cast<uint64_t>(found->second.rank), found->second.ordinal),
                        access.address - found->first);
    }
  }
  var->bytes = access.bytes;
  ++var->version;
  if (!access.is_rmw) {
    var->releases.clear();  // a plain store ends what was there
    var->relaxed = Snapshot{};
  } else if (access.acquires && access.releases) {
    // What was learnt is told on by this release, as far as this one reaches.
    std::erase_if(var->releases, [&](const Release& old) {
      return distance(actor, old) <= std::min(access.level, old.level) &&
             old.level <= access.level && old.rank == actor.rank;
    });
  }
  if (access.releases) {
    publish(*var, actor, snapshot(actor, actor.known), access.level);
  } else if (fenced) {
    for (uint8_t scope = 0; scope < kLevels; ++scope) {
      if (actor.fence[scope].valid)
        publish(*var, actor, actor.fence[scope], std::min(scope, access.level));
    }
  }
  // A read-modify-write has just learnt all that was there.
  if (access.few && var->unread <= kUnread) var->relaxed = snapshot(actor, actor.loose);
}

void Checker::publish(SyncVar& var, const Actor& actor, const Snapshot& what, uint8_t level) {
  for (Release& old : var.releases) {
    if (old.rank != actor.rank || old.level != level) continue;
    if (level == 0 && old.slot != actor.slot) continue;
    if (old.slot != actor.slot) old.slot = Release::kMixed;
    // The newer of one author's snapshots holds the older.
    if (old.what.slot == what.slot && old.what.slot != 0 && old.what.warp == what.warp) {
      if (what.count >= old.what.count) old.what = what;
    } else {
      merge(old.what, what);
    }
    return;
  }
  var.releases.push_back({what, level, actor.rank, actor.slot});
}

void Checker::note_order(const Actor& actor, const SyncVar& var, const Release& release) {
  if (release.rank == actor.rank) return;
  sync_hash_ = mix(sync_hash_,
                   static_cast<uint64_t>(release.rank) << 32 | static_cast<uint64_t>(actor.rank));
  sync_hash_ = mix(sync_hash_, var.stable);
}

}  // namespace sculler::emu::check
