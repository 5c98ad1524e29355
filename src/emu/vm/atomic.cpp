// atom and red, scalar and vector, of all widths.
#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {
namespace {

enum What : uint8_t { kAnd, kOr, kXor, kExch, kAdd, kInc, kDec, kMin, kMax, kCas };
constexpr std::array<std::string_view, 10> kNames{"and", "or",  "xor", "exch", "add",
                                                  "inc", "dec", "min", "max",  "cas"};

struct AAnd {
  template <class T>
  static T f(T a, T b) {
    return a & b;
  }
};
struct AOr {
  template <class T>
  static T f(T a, T b) {
    return a | b;
  }
};
struct AXor {
  template <class T>
  static T f(T a, T b) {
    return a ^ b;
  }
};
struct AExch {
  template <class T>
  static T f(T, T b) {
    return b;
  }
};
struct AAdd {
  template <class T>
  static T f(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t(a) + uint64_t(b));
    else return a + b;
  }
};
struct AInc {
  static uint32_t f(uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }
};
struct ADec {
  static uint32_t f(uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }
};
struct AMin {
  template <class T>
  static T f(T a, T b) {
    return b < a ? b : a;
  }
};
struct AMax {
  template <class T>
  static T f(T a, T b) {
    return b > a ? b : a;
  }
};
// Halves in 16 bits, or two in 32.
template <class H, class F>
struct OfHalf {
  static uint16_t one(uint32_t a, uint32_t b) {
    return static_cast<uint16_t>(H::put_exact(
        F::f(static_cast<double>(H::get(a & 0xffffu)), static_cast<double>(H::get(b & 0xffffu)))));
  }
  static uint16_t f(uint16_t a, uint16_t b) { return one(a, b); }
  static uint32_t f(uint32_t a, uint32_t b) {
    return one(a, b) | uint32_t{one(a >> 16, b >> 16)} << 16;
  }
};

// kN elements of T in memory; the operand in rows of Stored<T>. o[0] destination (op.b: there is
// one), o[1] operand, vectors in the list: destinations first.
template <class F, class T, int kN>
Act atomic(Warp& w, const Op& op) {
  constexpr uint32_t kBytes = sizeof(T) * kN;
  Target t;
  if (!resolve(w, op, kBytes, Access::kAtomic, t)) return Act::kFault;
  report(w, op, kBytes, Access::kAtomic, t, w.exec);
  ++w.counters->atomics;
  const bool wants = op.b != 0;
  const Stored<T>* s[kN];
  Stored<T>* d[kN];
  for (int k = 0; k < kN; ++k) {
    s[k] = lanes<Stored<T>>(
        w, kN == 1 ? op.o[1] : w.refs[op.list + static_cast<uint32_t>(k + (wants ? kN : 0))]);
    d[k] = wants
               ? lanes<Stored<T>>(w, kN == 1 ? op.o[0] : w.refs[op.list + static_cast<uint32_t>(k)])
               : nullptr;
  }
  bool changed = false;
  for_mask(w.exec, [&](int i) {
    uint8_t* p = lane_pointer(t, i, kBytes);
    for (int k = 0; k < kN; ++k) {
      T old;
      std::memcpy(&old, p + static_cast<size_t>(k) * sizeof(T), sizeof old);
      const T next = F::f(old, from_lane<T>(s[k][i]));
      changed = changed || std::memcmp(&next, &old, sizeof old) != 0;
      std::memcpy(p + static_cast<size_t>(k) * sizeof(T), &next, sizeof next);
      if (wants) {
        if constexpr (std::is_floating_point_v<T>) d[k][i] = old;
        else d[k][i] = to_lane<T>(old);
      }
    }
  });
  note_store(w, changed);
  if (!changed && wants) note_poll(w, kBytes, t);
  return w.spinning ? Act::kYield : Act::kNext;
}

template <class T>
Act compare_and_swap(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, sizeof(T), Access::kAtomic, t)) return Act::kFault;
  ++w.counters->atomics;
  const auto *a = lanes<Stored<T>>(w, op.o[1]), *b = lanes<Stored<T>>(w, op.o[2]);
  auto* d = op.b != 0 ? lanes<Stored<T>>(w, op.o[0]) : nullptr;
  uint32_t wrote = 0;
  bool changed = false;
  for_mask(w.exec, [&](int i) {
    uint8_t* p = lane_pointer(t, i, sizeof(T));
    T old;
    std::memcpy(&old, p, sizeof old);
    if (old == from_lane<T>(a[i])) {
      const T next = from_lane<T>(b[i]);
      changed = changed || next != old;
      std::memcpy(p, &next, sizeof next);
      wrote |= 1u << i;
    }
    if (d != nullptr) d[i] = to_lane<T>(old);
  });
  report(w, op, sizeof(T), Access::kAtomic, t, wrote);
  note_store(w, changed);
  if (!changed) note_poll(w, sizeof(T), t);
  return w.spinning ? Act::kYield : Act::kNext;
}
template <bool kCas128>
Act atomic_128(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 16, Access::kAtomic, t)) return Act::kFault;
  ++w.counters->atomics;
  const auto *a = lanes<uint64_t>(w, op.o[1]), *b = lanes<uint64_t>(w, kCas128 ? op.o[2] : op.o[1]);
  auto* d = lanes<uint64_t>(w, op.o[0]);
  uint32_t wrote = 0;
  bool changed = false;
  for_mask(w.exec, [&](int i) {
    uint8_t* p = lane_pointer(t, i, 16);
    uint64_t old[2];
    std::memcpy(old, p, 16);
    if (!kCas128 || (old[0] == a[i] && old[1] == a[i + 32])) {
      const uint64_t next[2] = {b[i], b[i + 32]};
      changed = changed || std::memcmp(next, old, 16) != 0;
      std::memcpy(p, next, 16);
      wrote |= 1u << i;
    }
    d[i] = old[0];
    d[i + 32] = old[1];
  });
  report(w, op, 16, Access::kAtomic, t, wrote);
  note_store(w, changed);
  if (!changed) note_poll(w, 16, t);
  return w.spinning ? Act::kYield : Act::kNext;
}

template <class T>
Handler bitwise(What what) {
  switch (what) {
    case kAnd: return &atomic<AAnd, T, 1>;
    case kOr: return &atomic<AOr, T, 1>;
    case kXor: return &atomic<AXor, T, 1>;
    case kExch: return &atomic<AExch, T, 1>;
    case kCas: return &compare_and_swap<T>;
    default: return nullptr;
  }
}
template <class T>
Handler arithmetic(What what) {
  switch (what) {
    case kAdd: return &atomic<AAdd, T, 1>;
    case kMin: return &atomic<AMin, T, 1>;
    case kMax: return &atomic<AMax, T, 1>;
    default: return nullptr;
  }
}
template <class F>
Handler float_vector(std::string_view type, unsigned n) {
  if (type == "f32" && std::is_same_v<F, AAdd>)
    return n == 1   ? &atomic<AAdd, float, 1>
           : n == 2 ? &atomic<AAdd, float, 2>
           : n == 4 ? &atomic<AAdd, float, 4>
                    : nullptr;
  if (type == "f64" && n == 1 && std::is_same_v<F, AAdd>) return &atomic<AAdd, double, 1>;
  if (type == "f16")
    return n == 1   ? &atomic<OfHalf<F16, F>, uint16_t, 1>
           : n == 2 ? &atomic<OfHalf<F16, F>, uint16_t, 2>
           : n == 4 ? &atomic<OfHalf<F16, F>, uint16_t, 4>
           : n == 8 ? &atomic<OfHalf<F16, F>, uint16_t, 8>
                    : nullptr;
  if (type == "bf16")
    return n == 1   ? &atomic<OfHalf<Bf16, F>, uint16_t, 1>
           : n == 2 ? &atomic<OfHalf<Bf16, F>, uint16_t, 2>
           : n == 4 ? &atomic<OfHalf<Bf16, F>, uint16_t, 4>
           : n == 8 ? &atomic<OfHalf<Bf16, F>, uint16_t, 8>
                    : nullptr;
  if (type == "f16x2")
    return n == 1   ? &atomic<OfHalf<F16, F>, uint32_t, 1>
           : n == 2 ? &atomic<OfHalf<F16, F>, uint32_t, 2>
           : n == 4 ? &atomic<OfHalf<F16, F>, uint32_t, 4>
                    : nullptr;
  if (type == "bf16x2")
    return n == 1   ? &atomic<OfHalf<Bf16, F>, uint32_t, 1>
           : n == 2 ? &atomic<OfHalf<Bf16, F>, uint32_t, 2>
           : n == 4 ? &atomic<OfHalf<Bf16, F>, uint32_t, 4>
                    : nullptr;
  return nullptr;
}

Handler choose(What what, const ptx::Type& t, unsigned n) {
  if (is_float(t) || t.name == "f16x2" || t.name == "bf16x2") {
    if (what == kAdd) return float_vector<AAdd>(t.name, n);
    if (what == kMin && t.name != "f32" && t.name != "f64") return float_vector<AMin>(t.name, n);
    if (what == kMax && t.name != "f32" && t.name != "f64") return float_vector<AMax>(t.name, n);
    return nullptr;
  }
  if (n != 1) return nullptr;
  if (what <= kExch || what == kCas) {
    if (t.letter != 'b') return nullptr;
    if (t.bits == 128)
      return what == kCas ? &atomic_128<true> : what == kExch ? &atomic_128<false> : nullptr;
    if (t.bits == 16) return what == kCas ? &compare_and_swap<uint16_t> : nullptr;
    return t.bits == 32   ? bitwise<uint32_t>(what)
           : t.bits == 64 ? bitwise<uint64_t>(what)
                          : nullptr;
  }
  if (what == kInc || what == kDec) {
    if (t.name != "u32") return nullptr;
    return what == kInc ? &atomic<AInc, uint32_t, 1> : &atomic<ADec, uint32_t, 1>;
  }
  if (t.letter == 's')
    return t.bits == 32   ? arithmetic<int32_t>(what)
           : t.bits == 64 ? arithmetic<int64_t>(what)
                          : nullptr;
  if (t.letter == 'u')
    return t.bits == 32   ? arithmetic<uint32_t>(what)
           : t.bits == 64 ? arithmetic<uint64_t>(what)
                          : nullptr;
  return nullptr;
}

void decode_atomic(Emit& e) {
  const bool returns = e.in.opcode == "atom";
  MemoryModifiers m;
  m.order = Order::kRelaxed;
  m.scope = Scope::kGpu;
  int what = -1;
  unsigned n = 1;
  for (;;) {
    if (take_memory_modifier(e, m)) continue;
    if (e.take("noftz")) continue;
    if (e.take("v2")) n = 2;
    else if (e.take("v4")) n = 4;
    else if (e.take("v8")) n = 8;
    else if (what < 0 && (what = e.choice(kNames)) >= 0) continue;
    else break;
  }
  const auto t = e.type();
  if (!t || what < 0 || m.order == Order::kWeak || m.order == Order::kVolatile || m.nc)
    return e.unsupported();
  if (m.space != Space::kGeneric && m.space != Space::kGlobal && m.space != Space::kShared)
    return e.unsupported();
  const size_t n_operands =
      (returns ? 2u : 1u) + (what == kCas ? 2u : 1u) + (m.cache_hint ? 1u : 0u);
  if (e.count() != n_operands) return e.unsupported();
  e.op.run = choose(static_cast<What>(what), *t, n);
  if (e.op.run == nullptr) return e.unsupported();
  const size_t address = returns ? 1 : 0;
  const bool f = is_float(*t);
  if (n > 1) {
    const auto &in = e.operand(address + 1), &out = e.operand(0);
    if (in.elements.size() != n || (returns && out.elements.size() != n)) return e.unsupported();
    if (returns)
      for (const auto& x : out.elements) e.list_dst(x, t->bits);
    for (const auto& x : in.elements) e.list_src(x, t->bits, f);
  } else {
    // 128-bit handlers always write a destination.
    if (returns || t->bits == 128) {
      ptx::Operand sink;
      sink.kind = ptx::Operand::Kind::kSink;
      e.dst(0, returns ? e.operand(0) : sink, t->bits);
    }
    e.src(1, address + 1, t->bits, f);
    if (what == kCas) e.src(2, address + 2, t->bits, f);
  }
  const bool sink = returns && e.operand(0).kind == ptx::Operand::Kind::kSink;
  e.op.b = returns && !sink ? 1 : 0;
  if (sink && n > 1) e.op.b = 1;
  e.op.bytes = static_cast<uint8_t>(t->bits / 8 * n);
  e.no_overlap();
  address_operand(e, e.operand(address), m);
}

}  // namespace

void register_atomic(DecodeTable& t) {
  t["atom"] = &decode_atomic;
  t["red"] = &decode_atomic;
}

}  // namespace sculler::emu::vm
