// mbarrier objects: 64 bits in shared memory. Layout here: bits 0-19 arrivals a phase expects,
// 20-39 pending arrivals, 40-60 pending transactions (signed), 63 phase.
#include <algorithm>

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/async.h"

namespace sculler::emu::vm {
namespace {

constexpr uint64_t kCountMask = (1u << 20) - 1;
struct Fields {
  uint32_t expected, pending;
  int32_t transactions;
  bool phase;
};
Fields unpack_fields(uint64_t v) {
  return {static_cast<uint32_t>(v & kCountMask), static_cast<uint32_t>(v >> 20 & kCountMask),
          static_cast<int32_t>(static_cast<uint32_t>(v >> 40 & 0x1fffff) << 11) >> 11,
          (v >> 63) != 0};
}
uint64_t pack_fields(Fields f) {
  if (f.pending == 0 && f.transactions == 0) {
    f.phase = !f.phase;
    f.pending = f.expected;
  }
  return f.expected | uint64_t{f.pending} << 20 |
         (static_cast<uint64_t>(static_cast<uint32_t>(f.transactions)) & 0x1fffff) << 40 |
         uint64_t{f.phase} << 63;
}

enum What : uint8_t { kInit, kInval, kArrive, kArriveDrop, kExpectTx, kCompleteTx, kArriveExpect };

Act update(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 8, Access::kAtomic, t)) return Act::kFault;
  report(w, op, 8, op.b <= kInval ? Access::kStore : Access::kAtomic, t, w.exec);
  const auto* count = op.c != 0 ? lanes<uint32_t>(w, op.o[1]) : nullptr;
  auto* state = op.n != 0 ? lanes<uint64_t>(w, op.o[0]) : nullptr;
  bool bad = false;
  for_mask(w.exec, [&](int i) {
    uint8_t* p = lane_pointer(t, i, 8);
    uint64_t v = 0;
    std::memcpy(&v, p, 8);
    const uint64_t before = v;
    const uint32_t n = count != nullptr ? count[i] : 1;
    Fields f = unpack_fields(v);
    switch (op.b) {
      case kInit:
        bad = bad || n == 0 || n > kCountMask;
        v = n | uint64_t{n} << 20;
        break;
      case kInval: v = 0; break;
      case kExpectTx:
        f.transactions += static_cast<int32_t>(n);
        v = pack_fields(f);
        break;
      case kCompleteTx:
        f.transactions -= static_cast<int32_t>(n);
        v = pack_fields(f);
        break;
      case kArriveExpect:
        f.transactions += static_cast<int32_t>(n);
        bad = bad || f.pending < 1;
        f.pending -= 1;
        v = pack_fields(f);
        break;
      default:
        bad = bad || f.pending < n || f.expected < (op.b == kArriveDrop ? n : 0);
        f.pending -= n;
        if (op.b == kArriveDrop) f.expected -= n;
        v = pack_fields(f);
    }
    if (state != nullptr) state[i] = before;
    std::memcpy(p, &v, 8);
  });
  note_store(w, true);
  if (bad)
    return fault(w, Fault::Kind::kIllegalInstruction, t.address[std::countr_zero(w.exec)],
                 "an mbarrier gets more arrivals than it expects, or was not initialised");
  return Act::kNext;
}

// op.b 0: state in o[1]; 1: parity in o[1]. o[0] predicate. op.c: try_wait, which may suspend.
Act test(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 8, Access::kLoad, t)) return Act::kFault;
  uint32_t done = 0;
  for_mask(w.exec, [&](int i) {
    uint64_t v = 0;
    std::memcpy(&v, lane_pointer(t, i, 8), 8);
    const bool phase = v >> 63 != 0;
    const bool asked = op.b == 0 ? lanes<uint64_t>(w, op.o[1])[i] >> 63 != 0
                                 : (lanes<uint32_t>(w, op.o[1])[i] & 1u) != 0;
    done |= uint32_t{phase != asked} << i;
  });
  report(w, op, 8, Access::kLoad, t, 0);
  if ((w.exec & ~done) != 0) note_poll(w, 8, t);
  set_pred(w, op.o[0], done);
  return (w.exec & ~done) != 0 ? Act::kYield : Act::kNext;
}

bool take_shared(Emit& e, MemoryModifiers& m) {
  while (take_memory_modifier(e, m)) {}
  if (m.space == Space::kGeneric || m.space == Space::kShared) return true;
  e.unsupported();
  return false;
}

void decode_mbarrier(Emit& e) {
  static constexpr std::array<std::string_view, 9> kOps{
      "init",        "inval",     "arrive",   "arrive_drop",  "expect_tx",
      "complete_tx", "test_wait", "try_wait", "pending_count"};
  const int what = e.choice(kOps);
  if (what < 0 || what == 8) return e.unsupported();
  const bool expect = (what == 2) && e.take("expect_tx");
  if ((what == 2 || what == 3) && e.take("noComplete")) return e.unsupported();
  const bool parity = what >= 6 && e.take("parity");
  MemoryModifiers m;
  m.order = what <= 1   ? Order::kWeak
            : what >= 6 ? Order::kAcquire
            : what >= 4 ? Order::kRelaxed
                        : Order::kRelease;
  m.scope = Scope::kCta;
  const bool remote = e.in.modifiers.end() !=
                      std::find(e.in.modifiers.begin(), e.in.modifiers.end(), "shared::cluster");
  if (remote) return e.unsupported("barriers of other blocks");
  if (!take_shared(e, m)) return;
  if (!e.take("b64")) return e.unsupported();
  if (what >= 6) {
    if (e.count() != 3 && e.count() != 4) return e.unsupported();
    e.op.run = &test;
    e.op.b = parity ? 1 : 0;
    e.op.c = what == 7;
    e.pred_dst(0, e.operand(0));
    e.src(1, 2, parity ? 32 : 64);
    address_operand(e, e.operand(1), m);
    e.no_overlap();
    return;
  }
  static constexpr uint8_t kTo[] = {kInit, kInval, kArrive, kArriveDrop, kExpectTx, kCompleteTx};
  e.op.run = &update;
  e.op.b = expect ? uint8_t{kArriveExpect} : kTo[what];
  const bool returns = what == 2 || what == 3;
  size_t k = returns ? 1 : 0;
  if (e.count() <= k) return e.unsupported();
  if (returns) {
    e.dst(0, size_t{0}, 64);
    e.op.n = 1;
  }
  address_operand(e, e.operand(k++), m);
  if (k < e.count()) {
    e.src(1, k++, 32);
    e.op.c = 1;
  }
  const bool needs = what == 0 || what >= 4 || expect;
  if (k != e.count() || (needs && e.op.c == 0)) return e.unsupported();
  e.no_overlap();
}

// cp.async.mbarrier.arrive: the copies land and the barrier is told at once.
template <bool kNoInc>
Act copy_arrive(Warp& w, const Op& op) {
  for_mask(w.exec, [&](int i) { ++w.committed[i]; });
  land(w, w.exec, 0);
  Target t;
  if (!resolve(w, op, 8, Access::kAtomic, t)) return Act::kFault;
  report(w, op, 8, Access::kAtomic, t, w.exec);
  for_mask(w.exec, [&](int i) {
    uint8_t* p = lane_pointer(t, i, 8);
    uint64_t v = 0;
    std::memcpy(&v, p, 8);
    Fields f = unpack_fields(v);
    if (kNoInc && f.pending > 0) --f.pending;
    v = pack_fields(f);
    std::memcpy(p, &v, 8);
  });
  note_store(w, true);
  return Act::kNext;
}

}  // namespace

void decode_copy_arrive(Emit& e) {
  if (!e.take("arrive")) return e.unsupported();
  const bool noinc = e.take("noinc");
  MemoryModifiers m;
  m.order = Order::kRelease;
  m.scope = Scope::kCta;
  if (!take_shared(e, m)) return;
  if (!e.take("b64") || !e.operands(1)) return e.unsupported();
  e.op.run = noinc ? &copy_arrive<true> : &copy_arrive<false>;
  address_operand(e, e.operand(0), m);
}

void register_mbarrier(DecodeTable& t) { t["mbarrier"] = &decode_mbarrier; }

}  // namespace sculler::emu::vm
