// ld ldu st prefetch fence membar and friends.
#include "emu/vm/access.h"
#include "emu/vm/arith.h"

namespace sculler::emu::vm {
namespace {

[[nodiscard]] inline Ref element(const Warp& w, const Op& op, int k) {
  return op.n <= 1 ? op.o[0] : w.refs[op.list + static_cast<uint32_t>(k)];
}
inline bool is_strong(const Op& op) { return op.order != static_cast<uint8_t>(Order::kWeak); }

// The same value read again, with nothing but this load in between, is not news: what the warp
// waits for has not come.
inline void note_and_report(Warp& w, const Op& op, uint32_t bytes, const Target& t) {
  if (is_strong(op)) {
    ++w.loads;
    note_poll(w, bytes, t, true);
    if (w.spinning && w.soft) return;
    --w.loads;
  }
  report(w, op, bytes, Access::kLoad, t, 0);
}

// Mem as it lies in memory, Row as registers hold it, kN elements. op.c: bits of a narrow
// destination.
template <class Mem, class Row>
Row widen(Mem v) {
  if constexpr (std::is_signed_v<Mem>)
    return static_cast<Row>(static_cast<std::make_signed_t<Row>>(v));
  else return static_cast<Row>(v);
}
template <class Mem, class Row, int kN>
void fill_lanes(Warp& w, const Op& op, const Target& t) {
  constexpr uint32_t kBytes = sizeof(Mem) * kN;
  Row* d[kN];
  for (int k = 0; k < kN; ++k) d[k] = lanes<Row>(w, element(w, op, k));
  const Row keep = op.c != 0 && op.c < sizeof(Row) * 8 ? static_cast<Row>((Row{1} << op.c) - 1)
                                                       : static_cast<Row>(~Row{0});
  if (t.contiguous && w.exec == ~0u) {
    if constexpr (kN == 1 && sizeof(Mem) == sizeof(Row)) {
      std::memcpy(d[0], t.base, 32 * sizeof(Row));
    } else if constexpr (kN == 1) {
      const uint8_t* p = t.base;
      for (int i = 0; i < 32; ++i) {
        Mem v;
        std::memcpy(&v, p + static_cast<size_t>(i) * sizeof(Mem), sizeof v);
        d[0][i] = widen<Mem, Row>(v) & keep;
      }
    } else if constexpr (kN == 4 && sizeof(Mem) == 4 && sizeof(Row) == 4) {
      split4(t.base, {d[0], d[1], d[2], d[3]});
    } else {
      Mem v[32 * kN];
      std::memcpy(v, t.base, sizeof v);
      for (int k = 0; k < kN; ++k) {
        Row* out = d[k];
#pragma GCC ivdep
        for (int i = 0; i < 32; ++i) out[i] = widen<Mem, Row>(v[i * kN + k]) & keep;
      }
    }
    return;
  }
  for_mask(w.exec, [&](int i) {
    Mem v[kN];
    std::memcpy(v, lane_pointer(t, i, kBytes), kBytes);
    for (int k = 0; k < kN; ++k) d[k][i] = widen<Mem, Row>(v[k]) & keep;
  });
}
template <class Mem, class Row, int kN>
Act load(Warp& w, const Op& op) {
  constexpr uint32_t kBytes = sizeof(Mem) * kN;
  Target t;
  if (!resolve(w, op, kBytes, Access::kLoad, t)) return Act::kFault;
  note_and_report(w, op, kBytes, t);
  fill_lanes<Mem, Row, kN>(w, op, t);
  return w.spinning ? Act::kYield : Act::kNext;
}
Act load_128(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 16, Access::kLoad, t)) return Act::kFault;
  note_and_report(w, op, 16, t);
  auto* d = lanes<uint64_t>(w, op.o[0]);
  for_mask(w.exec, [&](int i) {
    uint64_t v[2];
    std::memcpy(v, lane_pointer(t, i, 16), 16);
    d[i] = v[0];
    d[i + 32] = v[1];
  });
  return w.spinning ? Act::kYield : Act::kNext;
}
// Kernel parameters at a place known when decoding.
template <class Mem, class Row, int kN>
Act load_param(Warp& w, const Op& op) {
  Mem v[kN];
  std::memcpy(v, w.params + op.imm, sizeof v);
  const Row keep = op.c != 0 && op.c < sizeof(Row) * 8 ? static_cast<Row>((Row{1} << op.c) - 1)
                                                       : static_cast<Row>(~Row{0});
  for (int k = 0; k < kN; ++k) {
    const Row x = widen<Mem, Row>(v[k]) & keep;
    each_lane(w.write, lanes<Row>(w, element(w, op, k)), [=](int) { return x; });
  }
  return Act::kNext;
}

// Whether a store changes memory matters where somebody polls: those who wait for changes must see
// each, and those who write the same again and again must not count as alive. Else the old bytes
// need not be fetched.
constexpr uint64_t kPollMemory = 100'000;  // instructions
template <size_t kBytes>
bool put(const Warp& w, uint8_t* to, const void* from) {
  if (w.machine->instructions - w.block->last_poll < kPollMemory) return replace<kBytes>(to, from);
  std::memcpy(to, from, kBytes);
  return true;
}

template <class Mem, class Row, int kN>
Act store(Warp& w, const Op& op) {
  constexpr uint32_t kBytes = sizeof(Mem) * kN;
  Target t;
  if (!resolve(w, op, kBytes, Access::kStore, t)) return Act::kFault;
  report(w, op, kBytes, Access::kStore, t, w.exec);
  const Row* s[kN];
  for (int k = 0; k < kN; ++k) s[k] = lanes<Row>(w, element(w, op, k));
  bool changed = false;
  if (t.contiguous && w.exec == ~0u) {
    if constexpr (kN == 1 && sizeof(Mem) == sizeof(Row)) {
      changed = put<32 * sizeof(Row)>(w, t.base, s[0]);
    } else {
      alignas(32) Mem v[32 * kN];
      if constexpr (kN == 4 && sizeof(Mem) == 4 && sizeof(Row) == 4)
        join4({s[0], s[1], s[2], s[3]}, v);
      else
        for (int k = 0; k < kN; ++k) {
          const Row* in = s[k];
#pragma GCC ivdep
          for (int i = 0; i < 32; ++i) v[i * kN + k] = static_cast<Mem>(in[i]);
        }
      changed = put<sizeof v>(w, t.base, v);
    }
  } else {
    for_mask(w.exec, [&](int i) {
      Mem v[kN];
      for (int k = 0; k < kN; ++k) v[k] = static_cast<Mem>(s[k][i]);
      uint8_t* p = lane_pointer(t, i, kBytes);
      changed = changed || std::memcmp(p, v, kBytes) != 0;
      std::memcpy(p, v, kBytes);
    });
  }
  if (t.shared_or_global) note_store(w, changed);
  return Act::kNext;
}
Act store_128(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 16, Access::kStore, t)) return Act::kFault;
  report(w, op, 16, Access::kStore, t, w.exec);
  const auto* s = lanes<uint64_t>(w, op.o[0]);
  bool changed = false;
  for_mask(w.exec, [&](int i) {
    const uint64_t v[2] = {s[i], s[i + 32]};
    uint8_t* p = lane_pointer(t, i, 16);
    changed = changed || std::memcmp(p, v, 16) != 0;
    std::memcpy(p, v, 16);
  });
  if (t.shared_or_global) note_store(w, changed);
  return Act::kNext;
}

enum class Kind { kLoad, kStore, kParam };
template <Kind kKind, class Mem, class Row>
Handler by_count(unsigned n) {
  if constexpr (kKind == Kind::kLoad) {
    if (n == 1) return &load<Mem, Row, 1>;
    if (n == 2) return &load<Mem, Row, 2>;
    if constexpr (sizeof(Mem) <= 4)
      if (n == 4) return &load<Mem, Row, 4>;
  } else if constexpr (kKind == Kind::kParam) {
    if (n == 1) return &load_param<Mem, Row, 1>;
    if (n == 2) return &load_param<Mem, Row, 2>;
    if (n == 4) return &load_param<Mem, Row, 4>;
  } else {
    if (n == 1) return &store<Mem, Row, 1>;
    if (n == 2) return &store<Mem, Row, 2>;
    if constexpr (sizeof(Mem) <= 4)
      if (n == 4) return &store<Mem, Row, 4>;
  }
  return nullptr;
}
template <Kind kKind, class Row>
Handler by_memory(const ptx::Type& t, unsigned n) {
  const bool s = t.letter == 's' && kKind != Kind::kStore;
  switch (t.bits) {
    case 8: return s ? by_count<kKind, int8_t, Row>(n) : by_count<kKind, uint8_t, Row>(n);
    case 16: return s ? by_count<kKind, int16_t, Row>(n) : by_count<kKind, uint16_t, Row>(n);
    case 32:
      if constexpr (sizeof(Row) == 8)
        return s ? by_count<kKind, int32_t, Row>(n) : by_count<kKind, uint32_t, Row>(n);
      else return by_count<kKind, uint32_t, Row>(n);
    case 64:
      if constexpr (sizeof(Row) == 8) return by_count<kKind, uint64_t, Row>(n);
      else return nullptr;
    default: return nullptr;
  }
}

// Data operand: a register or a vector of registers of one width.
unsigned data_operand(Emit& e, const ptx::Operand& o, const ptx::Type& t, unsigned n, bool store) {
  using OK = ptx::Operand::Kind;
  if (n == 1) {
    const ptx::Operand& one = o.kind == OK::kVector && o.elements.size() == 1 ? o.elements[0] : o;
    e.op.n = 1;
    return store ? e.src_any(0, one, t.bits, is_float(t)) : e.dst_any(0, one, t.bits);
  }
  if (o.kind != OK::kVector || o.elements.size() != n) {
    e.unsupported("a vector of " + std::to_string(n) + " is expected");
    return 0;
  }
  e.op.n = static_cast<uint8_t>(n);
  unsigned row = 0;
  for (const auto& x : o.elements) {
    const unsigned bits =
        store ? e.list_src_any(x, t.bits, is_float(t)) : e.list_dst_any(x, t.bits);
    if (e.failed()) return 0;
    const unsigned mine = bits <= 32 ? 32 : bits;
    if (row != 0 && row != mine) {
      e.unsupported("registers of different widths in one vector");
      return 0;
    }
    row = mine;
    if (bits < 32) e.op.c = static_cast<uint8_t>(bits);
  }
  return row;
}

void decode_access(Emit& e, bool store) {
  MemoryModifiers m;
  unsigned n = 1;
  for (;;) {
    if (take_memory_modifier(e, m)) continue;
    if (e.take("v2")) n = 2;
    else if (e.take("v4")) n = 4;
    else break;
  }
  const auto t = e.type();
  if (!t || t->letter == 'p' || t->letter == 'x') return e.unsupported();
  if (e.count() < 2 || e.count() > 3 || (e.count() == 3) != m.cache_hint) return e.unsupported();
  if (store ? m.order == Order::kAcquire || m.order == Order::kAcqRel || m.nc ||
                  m.space == Space::kConst
            : m.order == Order::kRelease || m.order == Order::kAcqRel)
    return e.unsupported();
  const unsigned row = data_operand(e, e.operand(store ? 1 : 0), *t, n, store);
  address_operand(e, e.operand(store ? 0 : 1), m);
  if (e.failed()) return;
  if (row < 32 && n == 1) e.op.c = static_cast<uint8_t>(row);
  e.op.bytes = static_cast<uint8_t>(t->bits / 8 * n);
  if (e.op.bytes > 16 && m.space != Space::kParam) return e.unsupported("more than 16 bytes");
  e.no_overlap();
  if (t->bits == 128) {
    e.op.run = store ? &store_128 : &load_128;
    if (m.space == Space::kParam) e.op.run = &load_128;
    return;
  }
  const bool wide = row > 32;
  if (m.space == Space::kParam && e.op.a == kBaseNone) {
    if (store) return e.unsupported("a store to a kernel parameter");
    if (e.op.imm < 0 || static_cast<uint64_t>(e.op.imm) + e.op.bytes > e.program.param_bytes)
      return e.unsupported("beyond the end of the parameters");
    e.op.run =
        wide ? by_memory<Kind::kParam, uint64_t>(*t, n) : by_memory<Kind::kParam, uint32_t>(*t, n);
    return;
  }
  if (store)
    e.op.run =
        wide ? by_memory<Kind::kStore, uint64_t>(*t, n) : by_memory<Kind::kStore, uint32_t>(*t, n);
  else
    e.op.run =
        wide ? by_memory<Kind::kLoad, uint64_t>(*t, n) : by_memory<Kind::kLoad, uint32_t>(*t, n);
}

Act nothing(Warp&, const Op&) { return Act::kNext; }

Act fence(Warp& w, const Op& op) {
  if (op.scope == static_cast<uint8_t>(Scope::kSys)) ++w.counters->system_fences;
  if (w.observer != nullptr)
    w.observer->fence(w.actor, static_cast<Order>(op.order), static_cast<Scope>(op.scope));
  return Act::kNext;
}
// op.a shared, op.b global memory.
Act proxy_fence(Warp& w, const Op& op) {
  if (w.observer != nullptr) w.observer->proxy_fence(w.actor, op.a != 0, op.b != 0);
  return Act::kNext;
}
// fence.mbarrier_init: what was initialised is released to the cluster, and to copies that count
// there.
Act init_fence(Warp& w, const Op&) {
  if (w.observer == nullptr) return Act::kNext;
  w.observer->proxy_fence(w.actor, true, false);
  w.observer->fence(w.actor, Order::kRelease, Scope::kCluster);
  return Act::kNext;
}
void decode_fence(Emit& e) {
  if (e.take("proxy")) {
    static constexpr std::array<std::string_view, 6> kProxies{"alias",
                                                              "async",
                                                              "async::generic",
                                                              "async::global",
                                                              "async::shared::cta",
                                                              "async::shared::cluster"};
    const int proxy = e.choice(kProxies);
    // Tensor maps that kernels change are not emulated, so nobody needs their fence.
    if (proxy < 0 || e.count() != 0) return e.unsupported("tensor map proxy");
    if (proxy == 0) {
      e.op.run = &nothing;  // no address has a second mapping here
      return;
    }
    if (proxy == 2) {  // what copies have done needs no fence: their end is one
      static constexpr std::array<std::string_view, 2> kHalves{"acquire", "release"};
      static constexpr std::array<std::string_view, 2> kSpaces{"sync_restrict::shared::cluster",
                                                               "sync_restrict::shared::cta"};
      if (e.choice(kHalves) < 0 || e.choice(kSpaces) < 0 || !e.take("cluster"))
        return e.unsupported();
    }
    const bool global = e.take("global") || proxy == 3;
    const bool shared = e.take("shared::cta") || e.take("shared::cluster") || proxy >= 4;
    e.op.a = shared || !global;
    e.op.b = global || !shared;
    e.op.run = &proxy_fence;
    return;
  }
  if (e.take("mbarrier_init")) {
    if (!e.take("release") || !e.take("cluster")) return e.unsupported();
    e.op.run = &init_fence;
    return;
  }
  static constexpr std::array<std::string_view, 4> kOrders{"sc", "acq_rel", "acquire", "release"};
  static constexpr Order kTo[] = {Order::kSeqCst, Order::kAcqRel, Order::kAcquire, Order::kRelease};
  const int order = e.choice(kOrders);
  static constexpr std::array<std::string_view, 4> kScopes{"cta", "cluster", "gpu", "sys"};
  const int scope = e.choice(kScopes);
  if (scope < 0 || e.count() != 0) return e.unsupported();
  e.op.order = static_cast<uint8_t>(order < 0 ? Order::kAcqRel : kTo[order]);
  e.op.scope = static_cast<uint8_t>(scope);
  e.op.run = &fence;
}
void decode_membar(Emit& e) {
  if (e.take("proxy")) {
    if (!e.take("alias")) return e.unsupported();
    e.op.run = &nothing;
    return;
  }
  static constexpr std::array<std::string_view, 3> kLevels{"cta", "gl", "sys"};
  static constexpr Scope kTo[] = {Scope::kCta, Scope::kGpu, Scope::kSys};
  const int level = e.choice(kLevels);
  if (level < 0) return e.unsupported();
  e.op.order = static_cast<uint8_t>(Order::kSeqCst);
  e.op.scope = static_cast<uint8_t>(kTo[level]);
  e.op.run = &fence;
}

// Hints: checked for form only.
void decode_hint(Emit& e) {
  while (!e.modifiers_done()) e.take(e.peek());
  e.op.run = &nothing;
}
Act create_policy(Warp& w, const Op& op) {
  each_lane(w.write, lanes<uint64_t>(w, op.o[0]), [](int) { return uint64_t{0}; });
  return Act::kNext;
}

}  // namespace

void register_memory(DecodeTable& t) {
  t["ld"] = [](Emit& e) { decode_access(e, false); };
  t["ldu"] = [](Emit& e) { decode_access(e, false); };
  t["st"] = [](Emit& e) { decode_access(e, true); };
  t["fence"] = &decode_fence;
  t["membar"] = &decode_membar;
  t["prefetch"] = &decode_hint;
  t["prefetchu"] = &decode_hint;
  t["applypriority"] = &decode_hint;
  t["createpolicy"] = [](Emit& e) {
    while (!e.modifiers_done()) e.take(e.peek());
    if (e.count() < 1) return e.unsupported();
    e.op.run = &create_policy;
    e.dst(0, size_t{0}, 64);
  };
}

}  // namespace sculler::emu::vm
