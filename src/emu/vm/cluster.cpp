#include "emu/vm/cluster.h"

#include "emu/vm/arith.h"

namespace sculler::emu::vm {

Block* block_of(const Warp& w, uint64_t address, uint64_t* offset) {
  if (address < kSharedWindow) {
    *offset = address;
    return w.block;
  }
  const Cluster& c = *w.block->cluster;
  if (address < uint64_t{1} << 32) {
    const uint64_t rank = address >> kClusterShift;
    *offset = address & ((1u << kClusterShift) - 1);
    return rank >= 1 && rank <= c.size ? c.blocks[rank - 1] : nullptr;
  }
  for (uint32_t k = 0; k < c.size; ++k) {
    if (c.blocks[k] == nullptr || address - window_of(*c.blocks[k]) >= kSharedWindow) continue;
    *offset = address - window_of(*c.blocks[k]);
    return c.blocks[k];
  }
  *offset = address % kSharedWindow;
  return nullptr;
}

bool shared_place(Warp& w, uint64_t address, uint64_t bytes, uint32_t align, Access access,
                  int lane, SharedPlace* out) {
  uint64_t offset = 0;
  Block* const b = block_of(w, address, &offset);
  const uint64_t end = b != nullptr ? b->shared.size() : 0;
  const bool inside = offset >= kSharedReserved && offset <= end && bytes <= end - offset;
  if (inside && offset % align == 0) {
    *out = {b, static_cast<uint32_t>(offset), b->shared.data() + offset, window_of(*b) + offset};
    return true;
  }
  const int64_t at = static_cast<int64_t>(offset) - kSharedReserved;
  std::string place = "shared memory offset " + std::to_string(at);
  if (b == nullptr) {
    place += " of a block that is not in the cluster any more, or never was";
  } else {
    if (b != w.block) place += " of block " + std::to_string(b->linear);
    place += " (the block has " + std::to_string(end - kSharedReserved) + " bytes)";
  }
  return access_fault(w, inside ? Finding::Kind::kMisaligned : Finding::Kind::kBounds, access,
                      address, static_cast<uint32_t>(std::min<uint64_t>(bytes, ~0u)), lane,
                      std::move(place), align);
}

namespace {

// ---- mapa, getctarank.
template <class T>
Act map_address(Warp& w, const Op& op) {
  const T* a = lanes<T>(w, op.o[1]);
  const auto* rank = lanes<uint32_t>(w, op.o[2]);
  const Cluster& c = *w.block->cluster;
  T* d = lanes<T>(w, op.o[0]);
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (rank[i] >= c.size)
      return fault(w, Fault::Kind::kIllegalInstruction, 0,
                   "mapa of rank " + std::to_string(rank[i]) + " in a cluster of " +
                       std::to_string(c.size) + " blocks");
    uint64_t offset = 0;
    (void)block_of(w, a[i], &offset);
    if constexpr (sizeof(T) == 4) {
      d[i] = (rank[i] + 1) << kClusterShift | static_cast<uint32_t>(offset);
    } else {
      // Of a block that has exited: no address, to be told when it is used.
      const Block* b = c.blocks[rank[i]];
      d[i] = b != nullptr ? window_of(*b) + offset : kLocalBase - kSharedWindow + offset;
    }
  }
  return Act::kNext;
}
void decode_mapa(Emit& e) {
  const bool shared = e.take("shared::cluster");
  const auto t = e.type();
  if (!t || !e.operands(3) || (t->bits != 32 && t->bits != 64) || (shared && t->bits == 64) ||
      (!shared && t->bits == 32))
    return e.unsupported();
  e.op.run = t->bits == 64 ? &map_address<uint64_t> : &map_address<uint32_t>;
  e.dst(0, size_t{0}, t->bits);
  e.src(1, 1, t->bits);
  e.src(2, 2, 32);
}

template <class T>
Act rank_of_address(Warp& w, const Op& op) {
  const T* a = lanes<T>(w, op.o[1]);
  auto* d = lanes<uint32_t>(w, op.o[0]);
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    uint64_t offset = 0;
    const Block* b = block_of(w, a[i], &offset);
    if (b == nullptr)
      return fault(w, Fault::Kind::kIllegalInstruction, a[i],
                   "getctarank of an address that is in no block of the cluster");
    d[i] = b->cluster_rank;
  }
  return Act::kNext;
}
void decode_getctarank(Emit& e) {
  const bool shared = e.take("shared::cluster");
  const auto t = e.type();
  if (!t || !e.operands(2) || (t->bits != 32 && t->bits != 64) || shared != (t->bits == 32))
    return e.unsupported();
  e.op.run = t->bits == 64 ? &rank_of_address<uint64_t> : &rank_of_address<uint32_t>;
  e.dst(0, size_t{0}, 32);
  e.src(1, 1, t->bits);
}

// ---- barrier.cluster. op.a: arrive with release, wait with acquire.
Act arrive(Warp& w, const Op& op) {
  Cluster& c = *w.block->cluster;
  if ((w.exec & w.cluster_arrived) != 0)
    return fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "a thread arrives twice at the barrier of its cluster without waiting");
  w.cluster_arrived |= w.exec;
  w.cluster_parity = (w.cluster_parity & ~w.exec) | ((c.phase & 1u) != 0 ? w.exec : 0);
  c.arrived += static_cast<uint32_t>(std::popcount(w.exec));
  ++w.interactions;
  ++w.counters->barriers;
  if (w.observer != nullptr) w.observer->cluster_arrive(w.actor, c.id, op.a != 0);
  return Act::kClusterArrive;
}
Act wait(Warp& w, const Op& op) {
  const Cluster& c = *w.block->cluster;
  if ((w.exec & ~w.cluster_arrived) != 0)
    return fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "a thread waits at the barrier of its cluster without having arrived");
  const uint32_t now = (c.phase & 1u) != 0 ? w.cluster_parity : ~w.cluster_parity;
  if ((w.exec & now) != 0) return Act::kClusterWait;
  w.cluster_arrived &= ~w.exec;
  ++w.interactions;
  if (w.observer != nullptr && op.a != 0) w.observer->cluster_wait(w.actor, c.id);
  return Act::kNext;
}

}  // namespace

// Behind `barrier.cluster`.
void decode_cluster_barrier(Emit& e) {
  const bool arrives = e.take("arrive");
  if (!arrives && !e.take("wait")) return e.unsupported();
  e.op.a = 1;
  if (arrives) {
    if (e.take("relaxed")) e.op.a = 0;
    else e.take("release");
  } else {
    e.take("acquire");
  }
  e.take("aligned");
  if (e.count() != 0) return e.unsupported();
  e.op.run = arrives ? &arrive : &wait;
}

void register_cluster(DecodeTable& t) {
  t["mapa"] = &decode_mapa;
  t["getctarank"] = &decode_getctarank;
}

}  // namespace sculler::emu::vm
