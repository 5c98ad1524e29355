// mov cvta isspacep and reads of registers that change: clocks, activemask.
#include "emu/vm/arith.h"
#include "emu/vm/space.h"

namespace sculler::emu::vm {
namespace {

template <class T>
Act mov(Warp& w, const Op& op) {
  const T* a = lanes<T>(w, op.o[1]);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int i) { return a[i]; });
  return Act::kNext;
}
Act mov_128(Warp& w, const Op& op) {
  const auto* a = lanes<uint64_t>(w, op.o[1]);
  auto* d = lanes<uint64_t>(w, op.o[0]);
  each_lane(w.write, d, [=](int i) { return a[i]; });
  each_lane(w.write, d + 32, [=](int i) { return a[i + 32]; });
  return Act::kNext;
}
Act mov_pred(Warp& w, const Op& op) {
  set_pred(w, op.o[0], pred(w, op.o[1]));
  return Act::kNext;
}
// {a, b}, {a, b, c, d} → one register, and back. Elements of 8, 16, 32 or 64 bits.
template <class T, class Part, int kN>
Act pack(Warp& w, const Op& op) {
  const Stored<Part>* p[kN];
  for (int k = 0; k < kN; ++k)
    p[k] = lanes<Stored<Part>>(w, w.refs[op.list + static_cast<uint32_t>(k)]);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int i) {
    T r = 0;
    for (int k = 0; k < kN; ++k)
      r = static_cast<T>(r | static_cast<T>(static_cast<Part>(p[k][i]))
                                 << (sizeof(Part) * 8 * static_cast<unsigned>(k)));
    return r;
  });
  return Act::kNext;
}
template <class T, class Part, int kN>
Act unpack(Warp& w, const Op& op) {
  T v[32];
  std::memcpy(v, lanes<T>(w, op.o[0]), sizeof v);
  for (int k = 0; k < kN; ++k)
    each_lane(w.write, lanes<Stored<Part>>(w, w.refs[op.list + static_cast<uint32_t>(k)]),
              [&](int i) {
                return static_cast<Stored<Part>>(
                    static_cast<Part>(v[i] >> (sizeof(Part) * 8 * static_cast<unsigned>(k))));
              });
  return Act::kNext;
}
Act pack_128(Warp& w, const Op& op) {
  auto* d = lanes<uint64_t>(w, op.o[0]);
  for (uint32_t k = 0; k < 2; ++k) {
    const auto* p = lanes<uint64_t>(w, w.refs[op.list + k]);
    each_lane(w.write, d + 32 * k, [=](int i) { return p[i]; });
  }
  return Act::kNext;
}
Act unpack_128(Warp& w, const Op& op) {
  const auto* a = lanes<uint64_t>(w, op.o[0]);
  for (uint32_t k = 0; k < 2; ++k) {
    const auto* p = a + 32 * k;
    each_lane(w.write, lanes<uint64_t>(w, w.refs[op.list + k]), [=](int i) { return p[i]; });
  }
  return Act::kNext;
}

// Addresses of local variables depend on the frame.
template <class T>
Act mov_local(Warp& w, const Op& op) {
  const T v = static_cast<T>(w.local_base + static_cast<uint64_t>(op.imm));
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int) { return v; });
  return Act::kNext;
}

struct Widen {
  static uint64_t f(uint32_t v) { return v; }
};

// ---- Clocks: virtual, a tick an instruction of the whole machine.
uint64_t clock_now(const Warp& w) { return w.machine->instructions + w.machine->clock_bonus; }
template <class T, int kWhat>  // 0 clock, 1 clock_hi, 2 globaltimer in ns (at a nominal 1 GHz)
Act read_clock(Warp& w, const Op& op) {
  const uint64_t now = clock_now(w) + 1;
  w.last_clock = w.machine->instructions;
  const T v = static_cast<T>(kWhat == 1 ? now >> 32 : now);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int) { return v; });
  return Act::kNext;
}
Act read_activemask(Warp& w, const Op& op) {
  const uint32_t v = w.exec;
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]), [=](int) { return v; });
  return Act::kNext;
}
Act read_zero_pred(Warp& w, const Op& op) {
  set_pred(w, op.o[0], op.a != 0 ? ~0u : 0u);
  return Act::kNext;
}

Act read_explicit_cluster(Warp& w, const Op& op) {
  set_pred(w, op.o[0], w.grid->explicit_cluster ? ~0u : 0u);
  return Act::kNext;
}

template <class T, class Part, int kN>
void set_pack(Emit& e, bool packing) {
  e.op.run = packing ? &pack<T, Part, kN> : &unpack<T, Part, kN>;
}
void decode_vector_mov(Emit& e, unsigned bits) {
  using Kind = ptx::Operand::Kind;
  const bool packing = e.operand(1).kind == Kind::kVector;
  const ptx::Operand& vector = e.operand(packing ? 1 : 0);
  const ptx::Operand& scalar = e.operand(packing ? 0 : 1);
  const size_t n = vector.elements.size();
  if (n < 2 || n > 8 || bits % n != 0) return e.unsupported();
  const auto part = static_cast<unsigned>(bits / n);
  if (bits == 128 && part == 64) e.op.run = packing ? &pack_128 : &unpack_128;
  else if (bits == 64 && part == 32) set_pack<uint64_t, uint32_t, 2>(e, packing);
  else if (bits == 64 && part == 16) set_pack<uint64_t, uint16_t, 4>(e, packing);
  else if (bits == 64 && part == 8) set_pack<uint64_t, uint8_t, 8>(e, packing);
  else if (bits == 32 && part == 16) set_pack<uint32_t, uint16_t, 2>(e, packing);
  else if (bits == 32 && part == 8) set_pack<uint32_t, uint8_t, 4>(e, packing);
  else if (bits == 16 && part == 8) set_pack<uint32_t, uint8_t, 2>(e, packing);
  else return e.unsupported();
  if (packing) e.dst(0, scalar, bits);
  else e.src(0, scalar, bits);
  for (const auto& element : vector.elements) {
    if (packing) e.list_src(element, part);
    else e.list_dst(element, part);
  }
  e.no_overlap();
}
bool decode_changing(Emit& e, unsigned bits) {
  const std::string_view name = e.operand(1).symbol;
  if (name == "%clock" && bits == 32) e.op.run = &read_clock<uint32_t, 0>;
  else if (name == "%clock_hi" && bits == 32) e.op.run = &read_clock<uint32_t, 1>;
  else if (name == "%clock64" && bits == 64) e.op.run = &read_clock<uint64_t, 0>;
  else if (name == "%globaltimer" && bits == 64) e.op.run = &read_clock<uint64_t, 2>;
  else if (name == "%globaltimer_lo" && bits == 32) e.op.run = &read_clock<uint32_t, 0>;
  else if (name == "%globaltimer_hi" && bits == 32) e.op.run = &read_clock<uint32_t, 1>;
  else return false;
  e.dst(0, size_t{0}, bits);
  return true;
}
void decode_mov(Emit& e) {
  using Kind = ptx::Operand::Kind;
  const auto t = e.type();
  if (!t || !e.operands(2)) return e.unsupported();
  if (t->letter == 'p') {
    e.pred_dst(0, e.operand(0));
    if (e.operand(1).kind == Kind::kSpecial && e.operand(1).symbol == "%is_explicit_cluster") {
      e.op.run = &read_explicit_cluster;
    } else if (int64_t v = 0; e.immediate(e.operand(1), &v)) {
      e.op.run = &read_zero_pred;
      e.op.a = v != 0;
    } else {
      e.op.run = &mov_pred;
      e.pred_src(1, e.operand(1));
    }
    return;
  }
  if (e.operand(0).kind == Kind::kVector || e.operand(1).kind == Kind::kVector)
    return decode_vector_mov(e, t->bits);
  if (e.operand(1).kind == Kind::kSpecial && decode_changing(e, t->bits)) return;
  if (e.operand(1).kind == Kind::kSpecial && t->bits == 64 && e.operand(1).symbol == "%gridid") {
    e.op.run = &unary<Widen, uint64_t, uint32_t>;
    e.dst(0, size_t{0}, 64);
    e.src(1, 1, 32);
    return;
  }
  if (e.operand(1).kind == Kind::kSymbol) {
    if (const auto* slot = e.frame_slot(e.operand(1).symbol)) {
      e.op.run = t->bits == 64 ? &mov_local<uint64_t> : &mov_local<uint32_t>;
      e.op.imm = slot->offset + e.operand(1).imm;
      e.dst(0, size_t{0}, t->bits);
      return;
    }
  }
  e.op.run = t->bits == 128 ? &mov_128 : t->bits == 64 ? &mov<uint64_t> : &mov<uint32_t>;
  e.dst(0, size_t{0}, t->bits);
  e.src(1, 1, t->bits, is_float(*t));
}

// cvta: op.a 0 nothing to do (global, const), 1 to generic: + window, 2 from generic: - window.
template <class T>
Act cvta(Warp& w, const Op& op) {
  const Address window = op.space == uint8_t(Space::kShared)  ? w.shared_window
                         : op.space == uint8_t(Space::kLocal) ? kLocalBase
                                                              : kParamWindow;
  const T delta = static_cast<T>(op.a == 0 ? 0 : op.a == 1 ? window : 0 - window);
  const T* a = lanes<T>(w, op.o[1]);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int i) { return static_cast<T>(a[i] + delta); });
  return Act::kNext;
}
void decode_cvta(Emit& e) {
  const bool to = e.take("to");
  static constexpr std::array<std::string_view, 6> kSpaces{"global", "const", "shared",
                                                           "local",  "param", "shared::cta"};
  const int s = e.choice(kSpaces);
  if (s == 4) e.take("entry");
  const auto t = e.type();
  if (!t || t->bits != 64 || s < 0 || !e.operands(2)) return e.unsupported();
  e.op.run = &cvta<uint64_t>;
  e.op.a = s < 2 ? 0 : to ? 2 : 1;
  e.op.space = static_cast<uint8_t>(s == 2 || s == 5 ? Space::kShared
                                    : s == 3         ? Space::kLocal
                                                     : Space::kParam);
  const auto& from = e.operand(1);
  if (from.kind == ptx::Operand::Kind::kSymbol && e.frame_slot(from.symbol) != nullptr)
    return e.unsupported("address of a local variable");
  e.dst(0, size_t{0}, 64);
  e.src(1, 1, 64);
}

Act isspacep(Warp& w, const Op& op) {
  const auto* a = lanes<uint64_t>(w, op.o[1]);
  const auto space = static_cast<Space>(op.space);
  uint32_t m = 0;
  for_mask(w.exec, [&](int i) {
    const Space s = space_of(w, a[i]);
    const bool own = op.a == 0 || a[i] - w.shared_window < kSharedWindow;
    m |= uint32_t{(s == space && own) || (space == Space::kGlobal && s == Space::kParam)} << i;
  });
  set_pred(w, op.o[0], m);
  return Act::kNext;
}
void decode_isspacep(Emit& e) {
  static constexpr std::array<std::string_view, 7> kSpaces{
      "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param"};
  static constexpr Space kTo[] = {Space::kGlobal, Space::kShared, Space::kShared, Space::kShared,
                                  Space::kLocal,  Space::kConst,  Space::kParam};
  const int s = e.choice(kSpaces);
  if (s < 0 || !e.operands(2)) return e.unsupported();
  e.op.run = &isspacep;
  e.op.a = s == 1 || s == 2;  // of the own block
  e.op.space = static_cast<uint8_t>(kTo[s]);
  e.pred_dst(0, e.operand(0));
  e.src(1, 1, 64);
}

}  // namespace

void register_move(DecodeTable& t) {
  t["mov"] = &decode_mov;
  t["cvta"] = &decode_cvta;
  t["isspacep"] = &decode_isspacep;
  t["activemask"] = [](Emit& e) {
    if (!e.take("b32") || !e.operands(1)) return e.unsupported();
    e.op.run = &read_activemask;
    e.dst(0, size_t{0}, 32);
  };
}

}  // namespace sculler::emu::vm
