// mbarrier objects: 64 bits in shared memory. Layout here: bits 0-19 arrivals a phase expects,
// 20-39 pending arrivals, 40-60 pending transactions (signed), 63 phase.
#include <algorithm>

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/async.h"

namespace sculler::emu::vm {
namespace {

constexpr uint64_t kCountMask = (1u << 20) - 1;
constexpr int64_t kMostTransactions = 1 << 20;
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

enum What : uint8_t {
  kInit,
  kInval,
  kArrive,
  kArriveDrop,
  kExpectTx,
  kCompleteTx,
  kArriveExpect,
  kArriveNoComplete
};

// Tells the observer what a lane did. op.order: kRelaxed synchronises nothing.
void tell(Warp& w, Address at, BarrierStep step) {
  if (w.observer != nullptr) w.observer->mbarrier({w.actor, step, at, code_ref(w)});
}
BarrierStep step_of(const Op& op) {
  switch (op.b) {
    case kInit: return BarrierStep::kInit;
    case kInval: return BarrierStep::kInvalidate;
    case kExpectTx:
    case kCompleteTx: return BarrierStep::kArriveRelaxed;
    default:
      return op.order == static_cast<uint8_t>(Order::kRelaxed) ? BarrierStep::kArriveRelaxed
                                                               : BarrierStep::kArrive;
  }
}

// Of one lane; false where the barrier cannot take it.
bool apply(uint8_t what, uint32_t n, uint64_t& v) {
  Fields f = unpack_fields(v);
  const auto transactions = [&](int64_t more) {
    const int64_t sum = f.transactions + more;
    f.transactions = static_cast<int32_t>(sum);
    return sum > -kMostTransactions && sum < kMostTransactions;
  };
  switch (what) {
    case kInit: v = n | uint64_t{n} << 20; return n != 0 && n <= kCountMask;
    case kInval: v = 0; return true;
    case kExpectTx:
      if (!transactions(n)) return false;
      break;
    case kCompleteTx:
      if (!transactions(-static_cast<int64_t>(n))) return false;
      break;
    case kArriveExpect:
      if (f.pending < 1 || !transactions(n)) return false;
      f.pending -= 1;
      break;
    default:
      if (f.pending < n || f.expected < (what == kArriveDrop ? n : 0)) return false;
      f.pending -= n;
      if (what == kArriveDrop) f.expected -= n;
      if (what == kArriveNoComplete && f.pending == 0 && f.transactions == 0) return false;
  }
  v = pack_fields(f);
  return true;
}

Act update(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 8, op.b <= kInval ? Access::kStore : Access::kAtomic, t)) return Act::kFault;
  ++w.loads;
  const auto* count = op.c != 0 ? lanes<uint32_t>(w, op.o[1]) : nullptr;
  auto* state = op.n != 0 ? lanes<uint64_t>(w, op.o[0]) : nullptr;
  const BarrierStep step = step_of(op);
  Address last = 0;
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    uint8_t* p = lane_pointer(t, i, 8);
    uint64_t v = 0;
    std::memcpy(&v, p, 8);
    const uint64_t before = v;
    // Lanes of one warp know the same: one of them tells for those that follow.
    if (t.address[i] != last) tell(w, t.address[i], step);
    last = t.address[i];
    if (!apply(op.b, count != nullptr ? count[i] : 1, v))
      return fault(w, Fault::Kind::kIllegalInstruction, t.address[i],
                   "an mbarrier gets more arrivals or bytes than it expects, or was not "
                   "initialised");
    if (op.b > kInval && (v ^ before) >> 63 != 0) {
      tell(w, t.address[i], BarrierStep::kPhase);
      last = 0;
    }
    if (state != nullptr) state[i] = before;
    std::memcpy(p, &v, 8);
  }
  note_store(w, true);
  return Act::kNext;
}

// op.b 0: state in o[1]; 1: parity in o[1]. o[0] predicate. op.c: try_wait, which may suspend.
Act test(Warp& w, const Op& op) {
  Target t;
  if (!resolve(w, op, 8, Access::kLoad, t)) return Act::kFault;
  ++w.loads;
  uint32_t done = 0;
  Address last = 0;
  BarrierStep last_step = BarrierStep::kInit;
  const bool acquires = op.order != static_cast<uint8_t>(Order::kRelaxed);
  for_mask(w.exec, [&](int i) {
    uint64_t v = 0;
    std::memcpy(&v, lane_pointer(t, i, 8), 8);
    const bool phase = v >> 63 != 0;
    const bool asked = op.b == 0 ? lanes<uint64_t>(w, op.o[1])[i] >> 63 != 0
                                 : (lanes<uint32_t>(w, op.o[1])[i] & 1u) != 0;
    done |= uint32_t{phase != asked} << i;
    const BarrierStep step = phase != asked && acquires ? BarrierStep::kWait : BarrierStep::kTest;
    if (t.address[i] != last || step != last_step) tell(w, t.address[i], step);
    last = t.address[i];
    last_step = step;
  });
  if ((w.exec & ~done) != 0) note_poll(w, 8, t);
  set_pred(w, op.o[0], done);
  return (w.exec & ~done) != 0 ? Act::kYield : Act::kNext;
}

Act pending_count(Warp& w, const Op& op) {
  const auto* state = lanes<uint64_t>(w, op.o[1]);
  each_lane(w.write, lanes<uint32_t>(w, op.o[0]),
            [=](int i) { return static_cast<uint32_t>(state[i] >> 20 & kCountMask); });
  return Act::kNext;
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
  if (what < 0) return e.unsupported();
  if (what == 8) {
    if (!e.take("b64") || !e.operands(2)) return e.unsupported();
    e.op.run = &pending_count;
    e.dst(0, size_t{0}, 32);
    e.src(1, 1, 64);
    return;
  }
  const bool expect = (what == 2) && e.take("expect_tx");
  const bool no_complete = what == 2 && e.take("noComplete");
  if (what == 3 && (e.take("noComplete") || e.take("expect_tx"))) return e.unsupported();
  const bool parity = what >= 6 && e.take("parity");
  MemoryModifiers m;
  m.order = what <= 1   ? Order::kWeak
            : what >= 6 ? Order::kAcquire
            : what >= 4 ? Order::kRelaxed
                        : Order::kRelease;
  m.scope = Scope::kCta;
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
  e.op.b = expect ? uint8_t{kArriveExpect} : no_complete ? uint8_t{kArriveNoComplete} : kTo[what];
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
  const bool needs = what == 0 || what >= 4 || expect || no_complete;
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
  ++w.loads;
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    uint8_t* p = lane_pointer(t, i, 8);
    uint64_t v = 0;
    std::memcpy(&v, p, 8);
    tell(w, t.address[i], BarrierStep::kArrive);
    // Without .noinc the arrival is one more than the barrier expects: it leaves nothing behind.
    const uint64_t before = v;
    if (kNoInc && !apply(kArrive, 1, v))
      return fault(w, Fault::Kind::kIllegalInstruction, t.address[i],
                   "an mbarrier gets more arrivals than it expects, or was not initialised");
    if ((v ^ before) >> 63 != 0) tell(w, t.address[i], BarrierStep::kPhase);
    std::memcpy(p, &v, 8);
  }
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

bool complete_transactions(Warp& w, const SharedPlace& barrier, uint32_t bytes) {
  uint64_t v = 0;
  std::memcpy(&v, barrier.pointer, 8);
  const uint64_t before = v;
  if (!apply(kCompleteTx, bytes, v)) {
    fault(w, Fault::Kind::kIllegalInstruction, barrier.generic,
          "an mbarrier gets more bytes than it can count, or was not initialised");
    return false;
  }
  std::memcpy(barrier.pointer, &v, 8);
  if ((v ^ before) >> 63 != 0) tell(w, barrier.generic, BarrierStep::kPhase);
  return true;
}

MbarrierState mbarrier_state(uint64_t word) {
  const Fields f = unpack_fields(word);
  return {f.expected, f.expected - f.pending, f.transactions, f.phase};
}

void register_mbarrier(DecodeTable& t) { t["mbarrier"] = &decode_mbarrier; }

}  // namespace sculler::emu::vm
