// cp.async: the data are read when the copy is issued and become visible when its group is waited
// for, so that a missing wait reads what was there before. The observer sees the store twice, when
// it is issued and when it lands: anything unordered with either is a race.
#include "emu/vm/async.h"

#include "emu/vm/access.h"
#include "emu/vm/arith.h"

namespace sculler::emu::vm {
namespace {

constexpr size_t kMostCopies = 1u << 14;  // in flight a warp

// op.n: bytes copied; o[0] destination address (op.b its base, op.target its offset), o[1] source
// bytes or the predicate to ignore the source (op.c), o[4] source address.
enum Extra : uint8_t { kNothing, kSourceBytes, kIgnore };

AsyncCopy& new_copy(Warp& w) {
  const size_t n = w.copies.size();
  if (w.copies_end - w.copies_begin == n) {  // full: unroll into a larger ring
    std::vector<AsyncCopy> larger(n == 0 ? 16 : 2 * n);
    for (size_t k = 0; k < n; ++k) larger[k] = w.copies[(w.copies_begin + k) & (n - 1)];
    w.copies = std::move(larger);
    w.copies_begin = 0;
    w.copies_end = n;
  }
  AsyncCopy& c = w.copies[w.copies_end++ & (w.copies.size() - 1)];
  c.mask = 0;
  return c;
}

Act copy(Warp& w, const Op& op) {
  const uint32_t bytes = op.n;
  if (w.copies_end - w.copies_begin >= kMostCopies)
    return fault(w, Fault::Kind::kIllegalInstruction, 0,
                 "more than 16384 cp.async of one warp are not waited for");
  // Source bytes a lane: fewer leave zeros behind.
  uint32_t reads[32];
  bool partial = false;
  if (op.c == kSourceBytes) {
    const auto* n = lanes<uint32_t>(w, op.o[1]);
    bool over = false;
    for_mask(w.exec, [&](int i) {
      reads[i] = n[i];
      over = over || n[i] > bytes;
      partial = partial || n[i] != bytes;
    });
    if (over)
      return fault(w, Fault::Kind::kIllegalInstruction, 0,
                   "cp.async with more source bytes than it copies");
  } else if (op.c == kIgnore) {
    const uint32_t p = pred(w, op.o[1]);
    for_mask(w.exec, [&](int i) { reads[i] = (p >> i & 1u) != 0 ? 0 : bytes; });
    partial = (p & w.exec) != 0;
  }
  AsyncCopy& c = new_copy(w);
  c.mask = w.exec;
  c.bytes = bytes;
  c.code = code_ref(w);
  c.pc = w.pc;
  // The source.
  Target source;
  if (!partial) {
    if (!resolve(w, op, bytes, Access::kLoad, source)) return Act::kFault;
    report(w, op, bytes, Access::kLoad, source, 0);
    if (bytes == 16)
      for_mask(w.exec, [&](int i) { std::memcpy(c.data[i], lane_pointer(source, i, 16), 16); });
    else
      for_mask(w.exec,
               [&](int i) { std::memcpy(c.data[i], lane_pointer(source, i, bytes), bytes); });
  } else {
    const auto* at = lanes<uint64_t>(w, op.o[4]);
    uint32_t whole = 0;
    for_mask(w.exec, [&](int i) {
      std::memset(c.data[i], 0, 16);
      if (reads[i] == bytes) whole |= 1u << i;
    });
    const uint32_t saved = w.exec;
    bool ok = true;
    if (whole != 0) {
      w.exec = whole;
      ok = resolve(w, op, bytes, Access::kLoad, source);
      if (ok) {
        report(w, op, bytes, Access::kLoad, source, 0);
        for_mask(whole,
                 [&](int i) { std::memcpy(c.data[i], lane_pointer(source, i, bytes), bytes); });
      }
    }
    for (uint32_t rest = saved & ~whole; ok && rest != 0; rest &= rest - 1) {  // a byte at a time
      const int i = std::countr_zero(rest);
      w.exec = 1u << i;
      for (uint32_t k = 0; ok && k < reads[i]; ++k) {
        source.address[i] = at[i] + static_cast<uint64_t>(op.imm) + k;
        ok = resolve_addresses(w, op, static_cast<Space>(op.space), 1, Access::kLoad, source);
        if (!ok) break;
        report(w, op, 1, Access::kLoad, source, 0);
        std::memcpy(c.data[i] + k, lane_pointer(source, i, 1), 1);
      }
    }
    w.exec = saved;
    if (!ok) return Act::kFault;
  }
  // The destination, in shared memory.
  Target to;
  const auto delta = static_cast<int64_t>(static_cast<int32_t>(op.target));
  if (op.b == kBaseWide) {
    const auto* r = lanes<uint64_t>(w, op.o[0]);
    for (int i = 0; i < 32; ++i) to.address[i] = r[i] + static_cast<uint64_t>(delta);
  } else {
    const auto* r = lanes<uint32_t>(w, op.o[0]);
    for (int i = 0; i < 32; ++i) to.address[i] = r[i] + static_cast<uint32_t>(delta);
  }
  if (!resolve_addresses(w, op, Space::kShared, bytes, Access::kStore, to)) return Act::kFault;
  Op weak{};
  report(w, weak, bytes, Access::kStore, to, w.exec);
  for_mask(w.exec, [&](int i) { c.to[i] = to.address[i]; });
  // Lanes of one warp nearly always have committed equally often; else one record a lane.
  const uint32_t count = w.committed[std::countr_zero(w.exec)];
  uint32_t same = 0;
  for_mask(w.exec, [&](int i) {
    if (w.committed[i] == count) same |= 1u << i;
  });
  c.group = count;
  c.mask = same;
  const AsyncCopy whole = same == w.exec ? AsyncCopy{} : c;
  for (uint32_t rest = w.exec & ~same; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    AsyncCopy& one = new_copy(w);
    one = whole;
    one.mask = 1u << i;
    one.group = w.committed[i];
  }
  return Act::kNext;
}

Act commit(Warp& w, const Op&) {
  for_mask(w.exec, [&](int i) { ++w.committed[i]; });
  return Act::kNext;
}

// All but the last op.imm groups; op.a: also what is not committed.
Act wait(Warp& w, const Op& op) {
  const auto keep = static_cast<uint32_t>(op.imm);
  const bool all = op.a != 0;
  if (all) commit(w, op);
  land(w, w.exec, all ? 0 : keep);
  return Act::kNext;
}

void decode_cp(Emit& e) {
  const bool reduces = e.take("reduce");
  if (!e.take("async")) return e.unsupported();
  if (e.take("bulk")) return e.take("tensor") ? decode_tensor(e, reduces) : decode_bulk(e, reduces);
  if (reduces) return e.unsupported();
  if (e.take("commit_group")) {
    e.op.run = &commit;
    return;
  }
  if (e.take("wait_all")) {
    e.op.run = &wait;
    e.op.a = 1;
    return;
  }
  if (e.take("wait_group")) {
    int64_t n = 0;
    if (!e.operands(1) || !e.immediate(e.operand(0), &n) || n < 0) return e.unsupported();
    e.op.run = &wait;
    e.op.imm = n;
    return;
  }
  if (e.take("mbarrier")) return decode_copy_arrive(e);
  const bool cg = e.take("cg");
  if (!cg && !e.take("ca")) return e.unsupported();
  if (!e.take("shared") && !e.take("shared::cta") && !e.take("shared::cluster"))
    return e.unsupported();
  if (!e.take("global")) return e.unsupported();
  bool hint = false;
  while (!e.modifiers_done()) {
    if (e.take("L2::cache_hint")) hint = true;
    else if (e.take("L2::64B") || e.take("L2::128B") || e.take("L2::256B")) {
    } else return;
  }
  int64_t bytes = 0;
  const size_t plain = e.count() - (hint ? 1u : 0u);
  if (e.count() < 3 || !e.immediate(e.operand(2), &bytes) || (plain != 3 && plain != 4))
    return e.unsupported();
  if (cg ? bytes != 16 : bytes != 4 && bytes != 8 && bytes != 16) return e.unsupported("size");
  MemoryModifiers shared;
  shared.space = Space::kShared;
  address_operand(e, e.operand(0), shared);
  if (e.failed() || e.op.a == kBaseNone) return e.unsupported("address");
  e.move_to(4, 0);
  e.op.b = e.op.a;
  if (e.op.imm < INT32_MIN || e.op.imm > INT32_MAX) return e.unsupported("offset");
  e.op.target = static_cast<uint32_t>(static_cast<int32_t>(e.op.imm));
  MemoryModifiers global;
  global.space = Space::kGlobal;
  address_operand(e, e.operand(1), global);
  if (e.op.a != kBaseWide) return e.unsupported("address");
  e.op.n = static_cast<uint8_t>(bytes);
  if (plain == 4) {
    const auto& x = e.operand(3);
    if (e.bits_of(x) == 1) {
      e.op.c = kIgnore;
      e.pred_src(1, x);
    } else {
      e.op.c = kSourceBytes;
      e.src(1, x, 32);
    }
  }
  e.op.run = &copy;
}

}  // namespace

void land(Warp& w, uint32_t lane_mask, uint32_t keep) {
  bool changed = false;
  const size_t ring = w.copies.size() - 1;
  // All lanes have committed equally often, nearly always.
  const uint32_t first = w.committed[std::countr_zero(lane_mask | 1u << 31)];
  bool uniform = true;
  for (int i = 0; i < 32; ++i)
    uniform = uniform && ((lane_mask >> i & 1u) == 0 || w.committed[i] == first);
  for (size_t k = w.copies_begin; k != w.copies_end; ++k) {
    AsyncCopy& c = w.copies[k & ring];
    uint32_t done = 0;
    if (uniform) {
      if (first > keep && c.group < first - keep) done = c.mask & lane_mask;
    } else {
      for_mask(c.mask & lane_mask, [&](int i) {
        if (w.committed[i] > keep && c.group < w.committed[i] - keep) done |= 1u << i;
      });
    }
    if (done == 0) continue;
    for_mask(done, [&](int i) {
      uint8_t* p = w.shared + (c.to[i] - w.shared_window);
      if (c.bytes == 16) {
        uint64_t was[2], now[2];
        std::memcpy(was, p, 16);
        std::memcpy(now, c.data[i], 16);
        changed = changed || ((was[0] ^ now[0]) | (was[1] ^ now[1])) != 0;
        std::memcpy(p, now, 16);
      } else {
        changed = changed || std::memcmp(p, c.data[i], c.bytes) != 0;
        std::memcpy(p, c.data[i], c.bytes);
      }
    });
    if (w.observer != nullptr) {
      WarpAccess a;
      a.actor = w.actor;
      a.access = Access::kStore;
      a.space = MemorySpace::kShared;
      a.bytes = static_cast<uint8_t>(c.bytes);
      a.mask = done;
      a.address = c.to;
      a.wrote = done;
      a.code = c.code;
      w.observer->access(a);
    }
    c.mask &= ~done;
  }
  while (w.copies_begin != w.copies_end && w.copies[w.copies_begin & ring].mask == 0)
    ++w.copies_begin;
  note_store(w, changed);
}

void register_async(DecodeTable& t) {
  t["cp"] = &decode_cp;
  register_mbarrier(t);
}

}  // namespace sculler::emu::vm
