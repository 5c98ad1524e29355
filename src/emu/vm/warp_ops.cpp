// Lanes of one warp together: shfl vote match redux elect bar.warp.sync.
#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/collective.h"

namespace sculler::emu::vm {
namespace {

// The member mask of each lane (op.o[4]); false where some member has not come yet (w.wait is
// filled in).
bool together(Warp& w, const uint32_t* members, Act* act) {
  uint32_t need = 0;
  bool outside = false;
  for_mask(w.exec, [&](int i) {
    need |= members[i];
    outside = outside || (members[i] >> i & 1u) == 0;
  });
  if (outside) {
    *act =
        fault(w, Fault::Kind::kIllegalInstruction, 0,
              "a lane executes a warp-synchronous instruction whose member mask does not name it");
    return false;
  }
  if (!gathered(w, need)) {
    *act = Act::kRetry;
    return false;
  }
  return true;
}

template <int kMode>  // 0 up, 1 down, 2 bfly, 3 idx; op.b: o[4] takes whether the source lane is in
                      // range
Act shfl(Warp& w, const Op& op) {
  Act act;
  const auto* members = lanes<uint32_t>(w, w.refs[op.list]);
  if (!together(w, members, &act)) return act;
  const auto *a = lanes<uint32_t>(w, op.o[1]), *b = lanes<uint32_t>(w, op.o[2]),
             *c = lanes<uint32_t>(w, op.o[3]);
  uint32_t source[32], r[32], in[32];
  std::memcpy(in, a, sizeof in);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t n = b[i] & 31u, clamp = c[i] & 31u, seg = c[i] >> 8 & 31u;
    const uint32_t top = (i & seg) | (clamp & ~seg), low = i & seg;
    const auto s = static_cast<int32_t>(i), max = static_cast<int32_t>(top);
    int32_t j;
    bool ok;
    if (kMode == 0) j = s - static_cast<int32_t>(n), ok = j >= max;
    else if (kMode == 1) j = s + static_cast<int32_t>(n), ok = j <= max;
    else if (kMode == 2) j = static_cast<int32_t>(i ^ n), ok = j <= max;
    else j = static_cast<int32_t>(low | (n & ~seg)), ok = j <= max;
    source[i] = (ok ? static_cast<uint32_t>(j) & 31u : i) | (ok ? 32u : 0u);
  }
  for (int i = 0; i < 32; ++i) r[i] = in[source[i] & 31u];
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]), [&](int i) { return r[i]; });
  if (op.b != 0) set_pred(w, op.o[4], mask_of([&](int i) { return source[i] >= 32; }));
  return Act::kNext;
}
void decode_shfl(Emit& e) {
  if (!e.take("sync")) return e.unsupported("shfl without .sync");
  static constexpr std::array<std::string_view, 4> kModes{"up", "down", "bfly", "idx"};
  static constexpr Handler kHandlers[] = {&shfl<0>, &shfl<1>, &shfl<2>, &shfl<3>};
  const int mode = e.choice(kModes);
  if (mode < 0 || !e.take("b32") || !e.operands(5)) return e.unsupported();
  e.op.run = kHandlers[mode];
  const auto& d = e.operand(0);
  if (d.kind == ptx::Operand::Kind::kPair && d.elements.size() == 2) {
    e.dst(0, d.elements[0], 32);
    e.pred_dst(4, d.elements[1]);
    e.op.b = 1;
  } else {
    e.dst(0, d, 32);
  }
  for (size_t k = 1; k < 4; ++k) e.src(k, k, 32);
  e.list_src(e.operand(4), 32);
  e.no_overlap();
}

// f(lanes that share a member mask) for each such set.
template <class F>
void each_team(const Warp& w, const uint32_t* members, F f) {
  for (uint32_t rest = w.exec; rest != 0;) {
    const uint32_t m = members[std::countr_zero(rest)];
    uint32_t team = 0;
    for_mask(rest, [&](int i) {
      if (members[i] == m) team |= 1u << i;
    });
    f(team);
    rest &= ~team;
  }
}

// vote: op.a 0 all, 1 any, 2 uni, 3 ballot.
Act vote(Warp& w, const Op& op) {
  Act act;
  const auto* members = lanes<uint32_t>(w, op.o[2]);
  if (!together(w, members, &act)) return act;
  const uint32_t p = pred(w, op.o[1]);
  uint32_t result = 0;
  uint32_t ballot[32] = {};
  each_team(w, members, [&](uint32_t team) {
    const uint32_t yes = p & team;
    const bool r = op.a == 0 ? yes == team : op.a == 1 ? yes != 0 : yes == 0 || yes == team;
    if (r) result |= team;
    for_mask(team, [&](int i) { ballot[i] = yes; });
  });
  if (op.a == 3) each_lane(w.write, lanes<uint32_t>(w, op.o[0]), [&](int i) { return ballot[i]; });
  else set_pred(w, op.o[0], result);
  return Act::kNext;
}
void decode_vote(Emit& e) {
  if (!e.take("sync")) return e.unsupported("vote without .sync");
  static constexpr std::array<std::string_view, 4> kModes{"all", "any", "uni", "ballot"};
  const int mode = e.choice(kModes);
  if (mode < 0 || !e.take(mode == 3 ? "b32" : "pred") || !e.operands(3)) return e.unsupported();
  e.op.run = &vote;
  e.op.a = static_cast<uint8_t>(mode);
  if (mode == 3) e.dst(0, size_t{0}, 32);
  else e.pred_dst(0, e.operand(0));
  if (int64_t v = 0; e.immediate(e.operand(1), &v)) {
    if (v == 0) return e.unsupported("a constant false");
    e.op.o[1] = kAlways;
  } else {
    e.pred_src(1, e.operand(1));
  }
  e.src(2, 2, 32);
  e.no_overlap();
}

template <class T, bool kAll>
Act match(Warp& w, const Op& op) {
  Act act;
  const auto* members = lanes<uint32_t>(w, op.o[2]);
  if (!together(w, members, &act)) return act;
  const T* a = lanes<T>(w, op.o[1]);
  uint32_t r[32] = {}, same = 0;
  each_team(w, members, [&](uint32_t team) {
    if (kAll) {
      bool equal = true;
      const T first = a[std::countr_zero(team)];
      for_mask(team, [&](int i) { equal = equal && a[i] == first; });
      if (equal) same |= team;
      for_mask(team, [&](int i) { r[i] = equal ? team : 0; });
    } else {
      for_mask(team,
               [&](int i) { for_mask(team, [&](int k) { r[i] |= a[k] == a[i] ? 1u << k : 0u; }); });
    }
  });
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]), [&](int i) { return r[i]; });
  if (op.b != 0) set_pred(w, op.o[3], same);
  return Act::kNext;
}
void decode_match(Emit& e) {
  const bool all = e.take("all");
  if ((!all && !e.take("any")) || !e.take("sync")) return e.unsupported();
  const auto t = e.type();
  if (!t || t->letter != 'b' || (t->bits != 32 && t->bits != 64) || !e.operands(3))
    return e.unsupported();
  e.op.run = t->bits == 32 ? (all ? &match<uint32_t, true> : &match<uint32_t, false>)
                           : (all ? &match<uint64_t, true> : &match<uint64_t, false>);
  const auto& d = e.operand(0);
  if (d.kind == ptx::Operand::Kind::kPair && d.elements.size() == 2 && all) {
    e.dst(0, d.elements[0], 32);
    e.pred_dst(3, d.elements[1]);
    e.op.b = 1;
  } else {
    e.dst(0, d, 32);
  }
  e.src(1, 1, t->bits);
  e.src(2, 2, 32);
  e.no_overlap();
}

enum Reduction : uint8_t { kRAdd, kRMin, kRMax, kRAnd, kROr, kRXor };
template <class T>
Act redux(Warp& w, const Op& op) {
  Act act;
  const auto* members = lanes<uint32_t>(w, op.o[2]);
  if (!together(w, members, &act)) return act;
  const T* a = lanes<T>(w, op.o[1]);
  T r[32] = {};
  each_team(w, members, [&](uint32_t team) {
    T sum = a[std::countr_zero(team)];
    for_mask(team & (team - 1), [&](int i) {
      switch (op.a) {
        case kRAdd:
          sum = static_cast<T>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(a[i]));
          break;
        case kRMin: sum = a[i] < sum ? a[i] : sum; break;
        case kRMax: sum = a[i] > sum ? a[i] : sum; break;
        case kRAnd: sum = sum & a[i]; break;
        case kROr: sum = sum | a[i]; break;
        default: sum = sum ^ a[i]; break;
      }
    });
    for_mask(team, [&](int i) { r[i] = sum; });
  });
  each_lane(w.write, lanes<T>(w, op.o[0]), [&](int i) { return r[i]; });
  return Act::kNext;
}
void decode_redux(Emit& e) {
  if (!e.take("sync")) return e.unsupported();
  static constexpr std::array<std::string_view, 6> kOps{"add", "min", "max", "and", "or", "xor"};
  const int what = e.choice(kOps);
  const auto t = e.type();
  if (!t || what < 0 || t->bits != 32 || t->letter == 'f' ||
      (t->letter == 'b') != (what >= kRAnd) || !e.operands(3))
    return e.unsupported();
  e.op.a = static_cast<uint8_t>(what);
  e.op.run = t->letter == 's' ? &redux<int32_t> : &redux<uint32_t>;
  e.dst(0, size_t{0}, 32);
  e.src(1, 1, 32);
  e.src(2, 2, 32);
  e.no_overlap();
}

Act elect(Warp& w, const Op& op) {
  Act act;
  const auto* members = lanes<uint32_t>(w, op.o[1]);
  if (!together(w, members, &act)) return act;
  uint32_t leaders = 0;
  uint32_t r[32] = {};
  each_team(w, members, [&](uint32_t team) {
    const int first = std::countr_zero(team);
    leaders |= 1u << first;
    for_mask(team, [&](int i) { r[i] = static_cast<uint32_t>(first); });
  });
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]), [&](int i) { return r[i]; });
  set_pred(w, op.o[2], leaders);
  return Act::kNext;
}

Act warp_barrier(Warp& w, const Op& op) {
  Act act;
  return together(w, lanes<uint32_t>(w, op.o[1]), &act) ? Act::kNext : act;
}

}  // namespace

bool gathered(Warp& w, uint32_t members) {
  if ((members & ~w.dead & ~w.exec) == 0) return true;
  w.wait.members = members;
  return false;
}

bool decode_warp_barrier(Emit& e) {
  if (!e.take("warp")) return false;
  if (!e.take("sync") || !e.operands(1)) return e.unsupported(), true;
  e.op.run = &warp_barrier;
  e.op.space = 1;  // lanes may meet here from different places
  e.src(1, size_t{0}, 32);
  return true;
}

void register_warp(DecodeTable& t) {
  t["shfl"] = &decode_shfl;
  t["vote"] = &decode_vote;
  t["match"] = &decode_match;
  t["redux"] = &decode_redux;
  t["elect"] = [](Emit& e) {
    if (!e.take("sync") || !e.operands(2) || e.operand(0).kind != ptx::Operand::Kind::kPair)
      return e.unsupported();
    e.op.run = &elect;
    e.dst(0, e.operand(0).elements[0], 32);
    e.pred_dst(2, e.operand(0).elements[1]);
    e.src(1, 1, 32);
    e.no_overlap();
  };
}

}  // namespace sculler::emu::vm
