// setp set selp slct.
#include "emu/vm/arith.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {
namespace {

enum Cmp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <Cmp kCmp, class T>
bool compare(T a, T b) {
  const bool unordered = a != a || b != b;
  switch (kCmp) {
    case kEq: return a == b;
    case kNe: return a != b && !unordered;
    case kLt: return a < b;
    case kLe: return a <= b;
    case kGt: return a > b;
    case kGe: return a >= b;
    case kEqu: return a == b || unordered;
    case kNeu: return a != b;
    case kLtu: return !(a >= b);
    case kLeu: return !(a > b);
    case kGtu: return !(a <= b);
    case kGeu: return !(a < b);
    case kNum: return !unordered;
    default: return unordered;
  }
}

// How a lane of type T is read.
template <class T>
struct Lane {
  using Row = Stored<T>;
  static T get(Row v) { return from_lane<T>(v); }
};
template <class H>
struct HalfLane {
  using Row = uint32_t;
  static float get(uint32_t v) { return H::get(v); }
};
template <>
struct Lane<F16> : HalfLane<F16> {};
template <>
struct Lane<Bf16> : HalfLane<Bf16> {};

template <class T, Cmp kCmp>
uint32_t compare_lanes(const Warp& w, Ref a_ref, Ref b_ref) {
  const auto* a = lanes<typename Lane<T>::Row>(w, a_ref);
  const auto* b = lanes<typename Lane<T>::Row>(w, b_ref);
  return mask_of([=](int i) { return compare<kCmp>(Lane<T>::get(a[i]), Lane<T>::get(b[i])); });
}
// op.a: combine with the predicate o[4] (0 none, 1 and, 2 or, 3 xor); op.b: there is a second
// destination o[1].
template <class T, Cmp kCmp>
Act setp(Warp& w, const Op& op) {
  uint32_t r = compare_lanes<T, kCmp>(w, op.o[2], op.o[3]), not_r = ~r;
  if (op.a != 0) {
    const uint32_t c = pred(w, op.o[4]);
    r = op.a == 1 ? r & c : op.a == 2 ? r | c : r ^ c;
    not_r = op.a == 1 ? not_r & c : op.a == 2 ? not_r | c : not_r ^ c;
  }
  set_pred(w, op.o[0], r);
  if (op.b != 0) set_pred(w, op.o[1], not_r);
  return Act::kNext;
}
// op.c: destination is 1.0f rather than all ones.
template <class T, Cmp kCmp>
Act set(Warp& w, const Op& op) {
  uint32_t r = compare_lanes<T, kCmp>(w, op.o[2], op.o[3]);
  if (op.a != 0) {
    const uint32_t c = pred(w, op.o[4]);
    r = op.a == 1 ? r & c : op.a == 2 ? r | c : r ^ c;
  }
  const uint32_t one = op.c != 0 ? 0x3f800000u : ~0u;
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]),
            [=](int i) { return (r >> i & 1u) != 0 ? one : 0u; });
  return Act::kNext;
}
// Pairs of halves: p takes the low half, q the high one; set gives 1.0 or 0.0 (or ones) a half.
template <class H, Cmp kCmp>
Act setp_pair(Warp& w, const Op& op) {
  const auto *a = lanes<uint32_t>(w, op.o[2]), *b = lanes<uint32_t>(w, op.o[3]);
  uint32_t lo =
      mask_of([=](int i) { return compare<kCmp>(H::get(a[i] & 0xffffu), H::get(b[i] & 0xffffu)); });
  uint32_t hi =
      mask_of([=](int i) { return compare<kCmp>(H::get(a[i] >> 16), H::get(b[i] >> 16)); });
  if (op.a != 0) {
    const uint32_t c = pred(w, op.o[4]);
    lo = op.a == 1 ? lo & c : op.a == 2 ? lo | c : lo ^ c;
    hi = op.a == 1 ? hi & c : op.a == 2 ? hi | c : hi ^ c;
  }
  set_pred(w, op.o[0], lo);
  if (op.b != 0) set_pred(w, op.o[1], hi);
  return Act::kNext;
}
template <class H, Cmp kCmp>
Act set_pair(Warp& w, const Op& op) {
  const auto *a = lanes<uint32_t>(w, op.o[2]), *b = lanes<uint32_t>(w, op.o[3]);
  auto* d = lanes<uint32_t>(w, op.o[0]);
  const uint32_t one = op.c != 0 ? H::put(1.0f) : 0xffffu;
  for_mask(w.exec, [&](int i) {
    const uint32_t lo = compare<kCmp>(H::get(a[i] & 0xffffu), H::get(b[i] & 0xffffu)) ? one : 0;
    const uint32_t hi = compare<kCmp>(H::get(a[i] >> 16), H::get(b[i] >> 16)) ? one : 0;
    d[i] = lo | hi << 16;
  });
  return Act::kNext;
}

template <template <class, Cmp> class Fn, class T>
Handler by_comparison(int cmp) {
  static constexpr Handler kAll[] = {
      &Fn<T, kEq>::run,  &Fn<T, kNe>::run,  &Fn<T, kLt>::run,  &Fn<T, kLe>::run,  &Fn<T, kGt>::run,
      &Fn<T, kGe>::run,  &Fn<T, kEqu>::run, &Fn<T, kNeu>::run, &Fn<T, kLtu>::run, &Fn<T, kLeu>::run,
      &Fn<T, kGtu>::run, &Fn<T, kGeu>::run, &Fn<T, kNum>::run, &Fn<T, kNan>::run};
  return kAll[cmp];
}
template <class T, Cmp kCmp>
struct Setp {
  static Act run(Warp& w, const Op& op) { return setp<T, kCmp>(w, op); }
};
template <class T, Cmp kCmp>
struct Set {
  static Act run(Warp& w, const Op& op) { return set<T, kCmp>(w, op); }
};
template <class T, Cmp kCmp>
struct SetpPair {
  static Act run(Warp& w, const Op& op) { return setp_pair<T, kCmp>(w, op); }
};
template <class T, Cmp kCmp>
struct SetPair {
  static Act run(Warp& w, const Op& op) { return set_pair<T, kCmp>(w, op); }
};

template <template <class, Cmp> class Fn>
Handler by_type(const ptx::Type& t, int cmp) {
  const bool s = t.letter == 's';
  if (t.letter == 'f')
    return t.bits == 32 ? by_comparison<Fn, float>(cmp) : by_comparison<Fn, double>(cmp);
  if (t.letter == 'h') return by_comparison<Fn, F16>(cmp);
  if (t.letter == 'H') return by_comparison<Fn, Bf16>(cmp);
  if (cmp >= kEqu) return nullptr;
  switch (t.bits) {
    case 16: return s ? by_comparison<Fn, int16_t>(cmp) : by_comparison<Fn, uint16_t>(cmp);
    case 32: return s ? by_comparison<Fn, int32_t>(cmp) : by_comparison<Fn, uint32_t>(cmp);
    case 64: return s ? by_comparison<Fn, int64_t>(cmp) : by_comparison<Fn, uint64_t>(cmp);
    default: return nullptr;
  }
}

int comparison(Emit& e) {
  static constexpr std::array<std::string_view, 14> kNames{
      "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  const int c = e.choice(kNames);
  if (c >= 0) return c;
  static constexpr std::array<std::string_view, 4> kUnsigned{"lo", "ls", "hi", "hs"};
  const int u = e.choice(kUnsigned);
  return u < 0 ? -1 : u + kLt;
}
uint8_t combination(Emit& e) {
  return e.take("and") ? 1 : e.take("or") ? 2 : e.take("xor") ? 3 : 0;
}

void decode_setp(Emit& e) {
  const int cmp = comparison(e);
  e.op.a = combination(e);
  e.take("ftz");
  const auto t = e.type();
  if (!t || cmp < 0 || e.count() != (e.op.a != 0 ? 4u : 3u)) return e.unsupported();
  if (t->name == "f16x2") e.op.run = by_comparison<SetpPair, F16>(cmp);
  else if (t->name == "bf16x2") e.op.run = by_comparison<SetpPair, Bf16>(cmp);
  else if (t->letter != 'x') e.op.run = by_type<Setp>(*t, cmp);
  const ptx::Operand& d = e.operand(0);
  if (d.kind == ptx::Operand::Kind::kPair && d.elements.size() == 2) {
    e.pred_dst(0, d.elements[0]);
    e.pred_dst(1, d.elements[1]);
    e.op.b = 1;
  } else {
    e.pred_dst(0, d);
  }
  e.src(2, 1, t->bits, is_float(*t));
  e.src(3, 2, t->bits, is_float(*t));
  if (e.op.a != 0) e.pred_src(4, e.operand(3));
  e.no_overlap();
}
void decode_set(Emit& e) {
  const int cmp = comparison(e);
  e.op.a = combination(e);
  e.take("ftz");
  const auto dt = e.type(), t = e.type();
  if (!dt || !t || cmp < 0 || e.count() != (e.op.a != 0 ? 4u : 3u)) return e.unsupported();
  if (t->letter == 'x') {
    if (e.op.a != 0 || dt->bits != 32) return e.unsupported();
    if (t->name == "f16x2") e.op.run = by_comparison<SetPair, F16>(cmp);
    else if (t->name == "bf16x2") e.op.run = by_comparison<SetPair, Bf16>(cmp);
    e.op.c = dt->name == t->name;
    if (!e.operands(3)) return;
    e.dst(0, size_t{0}, 32);
    e.src(2, 1, 32);
    e.src(3, 2, 32);
    return;
  }
  if (dt->bits != 32) return e.unsupported();
  e.op.run = by_type<Set>(*t, cmp);
  e.op.c = dt->letter == 'f';
  e.dst(0, size_t{0}, 32);
  e.src(2, 1, t->bits, is_float(*t));
  e.src(3, 2, t->bits, is_float(*t));
  if (e.op.a != 0) e.pred_src(4, e.operand(3));
}

template <class T>
Act selp(Warp& w, const Op& op) {
  const T *a = lanes<T>(w, op.o[1]), *b = lanes<T>(w, op.o[2]);
  const uint32_t p = pred(w, op.o[3]);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int i) { return (p >> i & 1u) != 0 ? a[i] : b[i]; });
  return Act::kNext;
}
template <class T, class C>
Act slct(Warp& w, const Op& op) {
  const T *a = lanes<T>(w, op.o[1]), *b = lanes<T>(w, op.o[2]);
  const C* c = lanes<C>(w, op.o[3]);
  each_lane(w.write, lanes<T>(w, op.o[0]), [=](int i) { return c[i] >= 0 ? a[i] : b[i]; });
  return Act::kNext;
}

}  // namespace

void register_compare(DecodeTable& t) {
  t["setp"] = &decode_setp;
  t["set"] = &decode_set;
  t["selp"] = [](Emit& e) {
    const auto type = e.type();
    if (!type || !e.operands(4)) return e.unsupported();
    e.op.run = type->bits == 64 ? &selp<uint64_t> : &selp<uint32_t>;
    if (type->bits > 64) return e.unsupported();
    e.dst(0, size_t{0}, type->bits);
    e.src(1, 1, type->bits, is_float(*type));
    e.src(2, 2, type->bits, is_float(*type));
    e.pred_src(3, e.operand(3));
  };
  t["slct"] = [](Emit& e) {
    e.take("ftz");
    const auto type = e.type(), by = e.type();
    if (!type || !by || by->bits != 32 || !e.operands(4)) return e.unsupported();
    const bool f = by->letter == 'f';
    if (type->bits == 64) e.op.run = f ? &slct<uint64_t, float> : &slct<uint64_t, int32_t>;
    else e.op.run = f ? &slct<uint32_t, float> : &slct<uint32_t, int32_t>;
    e.dst(0, size_t{0}, type->bits);
    e.src(1, 1, type->bits, is_float(*type));
    e.src(2, 2, type->bits, is_float(*type));
    e.src(3, 3, 32, f);
  };
}

}  // namespace sculler::emu::vm
