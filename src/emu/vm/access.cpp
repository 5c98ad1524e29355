#include "emu/vm/access.h"

#include <algorithm>
#include <cstring>

#include "emu/vm/cluster.h"

namespace sculler::emu::vm {
namespace {

const char* verb(Access a) {
  return a == Access::kLoad ? "reads" : a == Access::kStore ? "writes" : "updates";
}

std::string who(const Warp& w, int lane) {
  return "rank " + std::to_string(w.rank) + ", kernel " + short_name(w.grid->kernel->info.name) +
         ", block " + std::to_string(w.block->linear) + ", thread " +
         std::to_string(w.index * kWarpSize + static_cast<uint32_t>(lane));
}

bool bad(Warp& w, Finding::Kind kind, Access access, Address address, uint32_t bytes, int lane,
         std::string place) {
  return access_fault(w, kind, access, address, bytes, lane, std::move(place), bytes);
}

}  // namespace

void count_bytes(Warp& w, const Allocation& a, Access access, uint64_t bytes) {
  GridCounters& c = *w.counters;
  const bool own = a.rank == w.rank;
  if (access != Access::kLoad) (own ? c.global_store_bytes : c.peer_store_bytes) += bytes;
  if (access != Access::kStore) (own ? c.global_load_bytes : c.peer_load_bytes) += bytes;
}

bool access_fault(Warp& w, Finding::Kind kind, Access access, Address address, uint32_t bytes,
                  int lane, std::string place, uint32_t align) {
  const bool misaligned = kind == Finding::Kind::kMisaligned;
  std::string text =
      who(w, lane) + " " + verb(access) + " " + std::to_string(bytes) + " bytes at " + place;
  switch (kind) {
    case Finding::Kind::kMisaligned:
      text += ", which is not aligned to " + std::to_string(align) + " bytes";
      break;
    case Finding::Kind::kWrongRank:
      text += ": memory of another rank that is in no registered window";
      break;
    case Finding::Kind::kUseAfterFree: text += ": use after free"; break;
    default: text += ": out of bounds"; break;
  }
  fault(w, misaligned ? Fault::Kind::kMisaligned : Fault::Kind::kIllegalAddress, address, text);
  if (w.observer != nullptr) {
    Finding f;
    f.kind = kind;
    f.now.rank = w.rank;
    f.now.block = w.block->linear;
    f.now.warp = static_cast<int>(w.index);
    f.now.access = access;
    f.now.code = code_ref(w);
    f.address = address;
    f.bytes = bytes;
    f.place = std::move(place);
    w.observer->finding(std::move(f));
  }
  return false;
}

namespace {

uint32_t sectors(const Target& t, uint32_t mask, uint32_t bytes) {
  if (t.contiguous) {
    const int first = std::countr_zero(mask), last = 31 - std::countl_zero(mask);
    return static_cast<uint32_t>(((t.address[last] + bytes - 1) >> 5) - (t.address[first] >> 5) +
                                 1);
  }
  // In rising order, as lanes usually are, neighbours tell.
  if (mask == ~0u) {
    uint32_t steps = 0, falls = 0;
    for (int i = 1; i < 32; ++i) {
      const uint64_t now = t.address[i] >> 5, before = t.address[i - 1] >> 5;
      steps += now != before ? 1u : 0u;
      falls += static_cast<int64_t>(now) < static_cast<int64_t>(before) ? 1u : 0u;
    }
    if (falls == 0) return steps + 1;
  }
  uint64_t seen[64] = {};
  uint32_t n = 0;
  for_mask(mask, [&](int i) {
    const uint64_t key = (t.address[i] >> 5) + 1;
    for (uint64_t h = key * 0x9e3779b97f4a7c15u >> 58;; h = (h + 1) & 63) {
      if (seen[h] == key) return;
      if (seen[h] == 0) {
        seen[h] = key;
        ++n;
        return;
      }
    }
  });
  return n;
}

// Asks who watches this memory; false: a fault.
bool watched(Warp& w, const Allocation& a, Access access, uint32_t bytes, const Address* address,
             uint32_t mask) {
  if (w.machine->on_watched == nullptr || !*w.machine->on_watched) return true;
  const std::string wrong =
      (*w.machine->on_watched)({w.rank, w.actor, code_ref(w), access, bytes, mask, address, &a});
  if (wrong.empty()) return true;
  const int lane = std::countr_zero(mask);
  fault(w, Fault::Kind::kIllegalAddress, address[lane],
        who(w, lane) + " " + verb(access) + " " + w.memory->describe(address[lane]) + ": " + wrong);
  return false;
}

bool resolve_global(Warp& w, uint32_t bytes, Access access, Target& t) {
  const uint32_t m = w.exec;
  if (t.contiguous) {
    const int first = std::countr_zero(m);
    const auto n = static_cast<uint32_t>(std::popcount(m)) * bytes;
    if (const Allocation* a = w.memory->reach(w.rank, t.address[first], n)) {
      t.base = reinterpret_cast<uint8_t*>(t.address[first] - static_cast<uint64_t>(first) * bytes);
      if (a->watched && !watched(w, *a, access, bytes, t.address, m)) return false;
      count_bytes(w, *a, access, n);
      w.counters->global_transactions += sectors(t, m, bytes);
      return true;
    }
    t.contiguous = false;
  }
  // Scattered, but mostly within one allocation.
  int64_t low = INT64_MAX, high = INT64_MIN;
  if (m == ~0u) {
    for (int i = 0; i < 32; ++i) {
      const auto at = static_cast<int64_t>(t.address[i]);
      low = at < low ? at : low;
      high = at > high ? at : high;
    }
  } else {
    for_mask(m, [&](int i) {
      const auto at = static_cast<int64_t>(t.address[i]);
      low = std::min(low, at);
      high = std::max(high, at);
    });
  }
  if (low > 0) {
    const auto span = static_cast<uint64_t>(high - low) + bytes;
    if (const Allocation* a = w.memory->reach(w.rank, static_cast<Address>(low), span)) {
      if (a->watched && !watched(w, *a, access, bytes, t.address, m)) return false;
      std::memcpy(t.pointer, t.address, sizeof t.pointer);
      // One address for the whole warp is a flag or a letter, not the payload.
      if (low == high && std::popcount(m) > 1 && access == Access::kLoad && a->rank != w.rank)
        w.counters->peer_control_bytes += bytes;
      else count_bytes(w, *a, access, static_cast<uint64_t>(std::popcount(m)) * bytes);
      w.counters->global_transactions += sectors(t, m, bytes);
      return true;
    }
  }
  const Allocation* a = nullptr;
  uint64_t here = 0;  // bytes of `a`, not counted yet
  for (uint32_t rest = m; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Address at = t.address[i];
    if (a == nullptr || at < a->begin || at - a->begin > a->bytes - bytes) {
      if (a != nullptr) count_bytes(w, *a, access, here);
      here = 0;
      a = w.memory->reach(w.rank, at, bytes);
      if (a == nullptr) {
        const Finding* f = w.memory->check(w.rank, at, bytes);
        return bad(w, f->kind, access, at, bytes, i, f->place);
      }
    }
    if (a->watched && !watched(w, *a, access, bytes, t.address, 1u << i)) return false;
    t.pointer[i] = reinterpret_cast<uint8_t*>(at);
    here += bytes;
  }
  count_bytes(w, *a, access, here);
  w.counters->global_transactions += sectors(t, m, bytes);
  return true;
}

// Lanes that touch other blocks of the cluster.
bool resolve_cluster(Warp& w, uint32_t bytes, Access access, Target& t) {
  t.contiguous = false;
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    SharedPlace place;
    if (!shared_place(w, t.address[i], bytes, 1, access, i, &place)) return false;
    t.pointer[i] = place.pointer;
    t.address[i] = place.generic;
  }
  w.counters->shared_bytes += static_cast<uint64_t>(std::popcount(w.exec)) * bytes;
  return true;
}

// Addresses are offsets in the window on entry, generic on return.
bool resolve_shared(Warp& w, uint32_t bytes, Access access, Target& t) {
  const uint32_t m = w.exec;
  t.space = MemorySpace::kShared;
  uint64_t low = ~uint64_t{0}, high = 0;
  for (int i = 0; i < 32; ++i) {
    const bool on = (m >> i & 1u) != 0;
    const uint64_t a = t.address[i];
    low = on && a < low ? a : low;
    high = on && a > high ? a : high;
  }
  if (high >= kSharedWindow) return resolve_cluster(w, bytes, access, t);
  if (low < kSharedReserved || high + bytes > w.shared_end) {
    int lane = 0;
    for_mask(m, [&](int i) {
      if (t.address[i] < kSharedReserved || t.address[i] + bytes > w.shared_end) lane = i;
    });
    const int64_t offset = static_cast<int64_t>(t.address[lane]) - kSharedReserved;
    return bad(w, Finding::Kind::kBounds, access, t.address[lane] + w.shared_window, bytes, lane,
               "shared memory offset " + std::to_string(offset) + " (the block has " +
                   std::to_string(w.shared_end - kSharedReserved) + " bytes)");
  }
  if (t.contiguous) {
    const int first = std::countr_zero(m) & 31;
    t.base = w.shared + t.address[first] - static_cast<uint64_t>(first) * bytes;
  } else {
    for (int i = 0; i < 32; ++i) t.pointer[i] = w.shared + t.address[i];
  }
  for (auto& a : t.address) a += w.shared_window;
  w.counters->shared_bytes += static_cast<uint64_t>(std::popcount(m)) * bytes;
  return true;
}

bool resolve_local(Warp& w, uint32_t bytes, Access access, Target& t) {
  t.shared_or_global = false;
  t.contiguous = false;
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Address at = t.address[i];
    if (at >= w.local_end || at + bytes > w.local_end)
      return bad(w, Finding::Kind::kBounds, access, kLocalBase + at, bytes, i,
                 "local memory offset " + std::to_string(at) + " (the thread has " +
                     std::to_string(w.local_end) + " bytes)");
    t.pointer[i] = local_pointer(w, i, static_cast<uint32_t>(at));
  }
  return true;
}

bool resolve_param(Warp& w, uint32_t bytes, Access access, Target& t) {
  t.shared_or_global = false;
  t.contiguous = false;
  const uint32_t size = w.program->param_bytes;
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Address at = t.address[i];
    if (access != Access::kLoad || at > size || size - at < bytes)
      return bad(w, Finding::Kind::kBounds, access, kParamWindow + at, bytes, i,
                 "kernel parameter offset " + std::to_string(at));
    t.pointer[i] = const_cast<uint8_t*>(w.params) + at;
  }
  return true;
}

}  // namespace

CodeRef code_ref(const Warp& w) {
  const Program& p = *w.program;
  uint32_t f = 0;
  while (f + 1 < p.functions.size() && w.pc >= p.functions[f].end) ++f;
  return {p.code_base + f, w.pc - p.functions[f].begin};
}

Act fault(Warp& w, Fault::Kind kind, Address address, std::string message) {
  Fault& f = w.machine->fault;
  f.kind = kind;
  f.rank = w.rank;
  f.code = code_ref(w);
  f.address = address;
  f.message = std::move(message);
  return Act::kFault;
}

namespace {

// Lanes of one instruction in several spaces: one space after the other.
bool resolve_mixed(Warp& w, const Op& op, uint32_t bytes, Access access, Target& t) {
  const uint32_t all = w.exec;
  Target part;
  uint32_t shared = 0, hidden = 0;
  bool ok = true;
  for (uint32_t rest = all; ok && rest != 0;) {
    const Space s = space_of(w, t.address[std::countr_zero(rest)]);
    uint32_t lanes_here = 0;
    for_mask(rest, [&](int i) {
      if (space_of(w, t.address[i]) == s) lanes_here |= 1u << i;
    });
    rest &= ~lanes_here;
    std::memcpy(part.address, t.address, sizeof part.address);
    w.exec = lanes_here;
    ok = resolve_addresses(w, op, Space::kGeneric, bytes, access, part);
    if (!ok) break;
    for_mask(lanes_here, [&](int i) {
      t.pointer[i] = lane_pointer(part, i, bytes);
      t.address[i] = part.address[i];
    });
    if (s == Space::kShared) shared |= lanes_here;
    if (s == Space::kLocal || s == Space::kParam) hidden |= lanes_here;
  }
  w.exec = all;
  t.contiguous = false;
  t.space = MemorySpace::kGlobal;
  t.shared_or_global = hidden != all;
  t.other_shared = shared;
  t.other_private = hidden;
  return ok;
}

}  // namespace

bool resolve_addresses(Warp& w, const Op& op, Space space, uint32_t bytes, Access access,
                       Target& t) {
  (void)op;
  const uint32_t m = w.exec;
  const int first = std::countr_zero(m);
  // Misaligned lanes, and lanes that do not follow each other.
  const Address start = t.address[first] - static_cast<uint64_t>(first) * bytes;
  uint64_t low_bits = 0, apart = 0;
  if (m == ~0u) {
    for (uint32_t i = 0; i < 32; ++i) {
      low_bits |= t.address[i];
      apart |= t.address[i] ^ (start + uint64_t{i} * bytes);
    }
  } else {
    for (uint32_t i = 0; i < 32; ++i) {
      const uint64_t on = 0 - static_cast<uint64_t>(m >> i & 1u);
      low_bits |= t.address[i] & on;
      apart |= (t.address[i] ^ (start + uint64_t{i} * bytes)) & on;
    }
    const uint32_t run = m >> first;
    apart |= run & (run + 1);  // holes
  }
  t.contiguous = apart == 0;
  if ((low_bits & (bytes - 1)) != 0) {
    int lane = first;
    for_mask(m, [&](int i) {
      if ((t.address[i] & (bytes - 1)) != 0) lane = i;
    });
    const Address at = t.address[lane];
    return bad(w, Finding::Kind::kMisaligned, access, at, bytes, lane,
               space == Space::kShared
                   ? "shared memory offset " + std::to_string(at - kSharedReserved)
               : space == Space::kLocal ? "local memory offset " + std::to_string(at)
                                        : w.memory->describe(at));
  }
  switch (space) {
    case Space::kGlobal:
    case Space::kConst: return resolve_global(w, bytes, access, t);
    case Space::kShared: return resolve_shared(w, bytes, access, t);
    case Space::kLocal: return resolve_local(w, bytes, access, t);
    case Space::kParam: return resolve_param(w, bytes, access, t);
    case Space::kGeneric: break;
  }
  // Generic: nearly always the same space in all lanes.
  const Space s = space_of(w, t.address[first]);
  bool same = true;
  for_mask(m, [&](int i) { same = same && space_of(w, t.address[i]) == s; });
  if (same) {
    const Address window = s == Space::kShared  ? w.shared_window
                           : s == Space::kLocal ? kLocalBase
                           : s == Space::kParam ? kParamWindow
                                                : 0;
    if (s == Space::kShared) {
      // Of other blocks they stay what they are.
      for (auto& a : t.address)
        if (a - window < kSharedWindow) a -= window;
    } else if (window != 0) {
      for (auto& a : t.address) a -= window;
    }
    return s == Space::kShared  ? resolve_shared(w, bytes, access, t)
           : s == Space::kLocal ? resolve_local(w, bytes, access, t)
           : s == Space::kParam ? resolve_param(w, bytes, access, t)
                                : resolve_global(w, bytes, access, t);
  }
  return resolve_mixed(w, op, bytes, access, t);
}

bool resolve(Warp& w, const Op& op, uint32_t bytes, Access access, Target& t) {
  const auto imm = static_cast<uint64_t>(op.imm);
  switch (op.a) {
    case kBaseWide: {
      const auto* r = lanes<uint64_t>(w, op.o[4]);
      for (int i = 0; i < 32; ++i) t.address[i] = r[i] + imm;
      break;
    }
    case kBaseNarrow: {
      const auto* r = lanes<uint32_t>(w, op.o[4]);
      const auto offset = static_cast<uint32_t>(imm);
      for (int i = 0; i < 32; ++i) t.address[i] = r[i] + offset;
      break;
    }
    default: {
      const uint64_t at = imm + (op.space == uint8_t(Space::kLocal) ? w.local_base : 0);
      for (auto& a : t.address) a = at;
    }
  }
  return resolve_addresses(w, op, static_cast<Space>(op.space), bytes, access, t);
}

void report(Warp& w, const Op& op, uint32_t bytes, Access access, const Target& t, uint32_t wrote) {
  ++w.loads;
  if (w.observer == nullptr || !t.shared_or_global) return;
  WarpAccess a;
  a.actor = w.actor;
  a.access = access;
  a.order = static_cast<Order>(op.order);
  a.scope = static_cast<Scope>(op.scope);
  a.space = t.space;
  a.bytes = static_cast<uint8_t>(bytes);
  a.mask = w.exec & ~t.other_shared & ~t.other_private;
  a.address = t.address;
  a.wrote = wrote & a.mask;
  a.code = code_ref(w);
  if (a.mask != 0) w.observer->access(a);
  if (t.other_shared == 0) return;
  a.space = MemorySpace::kShared;
  a.mask = t.other_shared;
  a.wrote = wrote & a.mask;
  w.observer->access(a);
}

void note_store(Warp& w, bool changed) {
  if (!changed) return;
  ++w.machine->epoch;
  ++w.interactions;
}

bool read_generic(const Warp& w, int lane, Address from, void* to, uint64_t bytes) {
  auto* out = static_cast<uint8_t*>(to);
  switch (space_of(w, from)) {
    case Space::kLocal:
      for (uint64_t k = 0; k < bytes; ++k) {
        if (from - kLocalBase + k >= w.local_end) return false;
        out[k] = *local_pointer(w, lane, static_cast<uint32_t>(from - kLocalBase + k));
      }
      return true;
    case Space::kShared: {
      const uint64_t at = from - w.shared_window;
      if (at >= kSharedWindow || at < kSharedReserved || at + bytes > w.shared_end) return false;
      std::memcpy(out, w.shared + at, bytes);
      return true;
    }
    case Space::kParam: {
      const uint64_t at = from - kParamWindow;
      if (at + bytes > w.program->param_bytes) return false;
      std::memcpy(out, w.params + at, bytes);
      return true;
    }
    default:
      if (w.memory->reach(w.rank, from, bytes) == nullptr) return false;
      std::memcpy(out, reinterpret_cast<const void*>(from), bytes);
      return true;
  }
}

bool take_memory_modifier(Emit& e, MemoryModifiers& m) {
  struct Named {
    std::string_view name;
    int what;
    int value;
  };
  static constexpr Named kAll[] = {{"weak", 0, int(Order::kWeak)},
                                   {"volatile", 0, int(Order::kVolatile)},
                                   {"relaxed", 0, int(Order::kRelaxed)},
                                   {"acquire", 0, int(Order::kAcquire)},
                                   {"release", 0, int(Order::kRelease)},
                                   {"acq_rel", 0, int(Order::kAcqRel)},
                                   {"mmio", 3, 0},
                                   {"cta", 1, int(Scope::kCta)},
                                   {"cluster", 1, int(Scope::kCluster)},
                                   {"gpu", 1, int(Scope::kGpu)},
                                   {"sys", 1, int(Scope::kSys)},
                                   {"global", 2, int(Space::kGlobal)},
                                   {"shared", 2, int(Space::kShared)},
                                   {"shared::cta", 2, int(Space::kShared)},
                                   {"shared::cluster", 2, int(Space::kShared)},
                                   {"local", 2, int(Space::kLocal)},
                                   {"param", 2, int(Space::kParam)},
                                   {"param::entry", 2, int(Space::kParam)},
                                   {"param::func", 2, int(Space::kParam)},
                                   {"const", 2, int(Space::kConst)},
                                   {"ca", 3, 0},
                                   {"cg", 3, 0},
                                   {"cs", 3, 0},
                                   {"lu", 3, 0},
                                   {"cv", 4, 0},
                                   {"wb", 3, 0},
                                   {"wt", 4, 0},
                                   {"nc", 5, 0},
                                   {"L1::evict_normal", 3, 0},
                                   {"L1::evict_unchanged", 3, 0},
                                   {"L1::evict_first", 3, 0},
                                   {"L1::evict_last", 3, 0},
                                   {"L1::no_allocate", 3, 0},
                                   {"L2::evict_normal", 3, 0},
                                   {"L2::evict_first", 3, 0},
                                   {"L2::evict_last", 3, 0},
                                   {"L2::64B", 3, 0},
                                   {"L2::128B", 3, 0},
                                   {"L2::256B", 3, 0},
                                   {"L2::cache_hint", 6, 0}};
  for (const Named& n : kAll) {
    if (e.peek() != n.name) continue;
    e.take(n.name);
    switch (n.what) {
      case 0: m.order = static_cast<Order>(n.value); break;
      case 1: m.scope = static_cast<Scope>(n.value); break;
      case 2: m.space = static_cast<Space>(n.value); break;
      case 4: m.order = Order::kVolatile; break;  // .cv and .wt bypass the caches, as volatile does
      case 5: m.nc = true; break;
      case 6: m.cache_hint = true; break;
      default: break;
    }
    return true;
  }
  return false;
}

void address_operand(Emit& e, const ptx::Operand& o, MemoryModifiers& m) {
  if (o.kind != ptx::Operand::Kind::kAddress || !o.elements.empty())
    return e.unsupported("an address is expected");
  e.op.imm = o.imm;
  e.op.a = kBaseNone;
  if (o.reg >= 0) {
    ptx::Operand r;
    r.kind = ptx::Operand::Kind::kRegister;
    r.reg = o.reg;
    const unsigned bits = e.bits_of(r);
    if (bits != 32 && bits != 64)
      return e.unsupported("an address register of " + std::to_string(bits) + " bits");
    e.src(4, r, bits);
    e.op.a = bits == 64 ? kBaseWide : kBaseNarrow;
  } else if (!o.symbol.empty()) {
    if (const auto* p = e.entry_param(o.symbol)) {
      if (m.space == Space::kGeneric) m.space = Space::kParam;
      e.op.imm += p->offset;
    } else if (const auto* slot = e.frame_slot(o.symbol)) {
      if (m.space != Space::kLocal && m.space != Space::kParam)
        return e.unsupported("a local variable by a generic address");
      m.space = Space::kLocal;
      e.op.imm += slot->offset;
    } else {
      e.op.imm = 0;
      e.op.o[4] = e.symbol(o.symbol, o.imm, true);
      e.op.a = kBaseWide;
      if (m.space == Space::kGeneric) return e.unsupported("a variable by a generic address");
    }
  }
  // Parameters of functions lie in the frame; a register address of them is an offset in local
  // memory.
  if (m.space == Space::kParam && !e.draft.source->is_entry) m.space = Space::kLocal;
  e.op.order = static_cast<uint8_t>(m.order);
  e.op.scope = static_cast<uint8_t>(m.scope);
  e.op.space = static_cast<uint8_t>(m.space);
}

}  // namespace sculler::emu::vm
