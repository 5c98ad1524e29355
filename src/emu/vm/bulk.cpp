// cp.async.bulk and cp.reduce.async.bulk of bytes, bulk groups, prefetches.
#include "emu/vm/bulk.h"

#include "emu/vm/access.h"
#include "emu/vm/arith.h"
#include "emu/vm/half.h"

namespace sculler::emu::vm {

uint64_t value_of(const Warp& w, const BulkSite::Part& part, int lane) {
  const Ref ref = w.refs[part.index];
  const uint64_t v = part.wide ? lanes<uint64_t>(w, ref)[lane] + static_cast<uint64_t>(part.imm)
                               : lanes<uint32_t>(w, ref)[lane] + static_cast<uint32_t>(part.imm);
  return part.wide ? v : static_cast<uint32_t>(v);
}

BulkSite::Part value_part(Emit& e, const ptx::Operand& o, unsigned bits) {
  BulkSite::Part part;
  part.index = static_cast<uint32_t>(e.program.refs.size());
  part.wide = bits == 64;
  e.list_src(o, bits);
  return part;
}

BulkSite::Part address_part(Emit& e, const ptx::Operand& o) {
  if (o.kind != ptx::Operand::Kind::kAddress) {
    e.unsupported("an address is expected");
    return {};
  }
  ptx::Operand base;
  if (o.reg >= 0) {
    base.kind = ptx::Operand::Kind::kRegister;
    base.reg = o.reg;
    const unsigned bits = e.bits_of(base);
    if (bits != 32 && bits != 64) {
      e.unsupported("an address register of " + std::to_string(bits) + " bits");
      return {};
    }
    BulkSite::Part part = value_part(e, base, bits);
    part.imm = o.imm;
    return part;
  }
  if (o.symbol.empty()) {
    e.unsupported("an absolute address");
    return {};
  }
  base.kind = ptx::Operand::Kind::kSymbol;
  base.symbol = o.symbol;
  base.imm = o.imm;
  BulkSite::Part part = value_part(e, base, 64);
  if (e.entry_param(o.symbol) != nullptr) part.imm = static_cast<int64_t>(kParamWindow);
  return part;
}

bool take_reduction(Emit& e, BulkSite& site) {
  static constexpr std::array<std::string_view, 8> kNames{"add", "min", "max", "inc",
                                                          "dec", "and", "or",  "xor"};
  const int op = e.choice(kNames);
  if (op < 0) return false;
  site.reduce = static_cast<BulkSite::Reduce>(BulkSite::kAdd + op);
  return true;
}

bool can_reduce(BulkSite::Reduce op, BulkSite::Element element) {
  using S = BulkSite;
  const bool real = element >= S::kF16 && element <= S::kF64;
  switch (op) {
    case S::kCopy: return false;
    case S::kAdd: return element != S::kNoElement;
    case S::kMin:
    case S::kMax: return element <= S::kBf16;
    case S::kInc:
    case S::kDec: return element == S::kU32;
    default: return !real && element != S::kNoElement;
  }
}

uint32_t element_bytes(BulkSite::Element element) {
  static constexpr uint32_t kBytes[] = {4, 4, 8, 8, 2, 2, 4, 8, 1};
  return kBytes[element];
}

namespace {

template <class T, class F>
void each_element(uint8_t* to, const uint8_t* from, uint64_t bytes, F f) {
  for (uint64_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    a = static_cast<T>(f(a, b));
    std::memcpy(to + at, &a, sizeof a);
  }
}
template <class T>
void reduce_integers(BulkSite::Reduce op, uint8_t* to, const uint8_t* from, uint64_t bytes) {
  using U = std::make_unsigned_t<T>;
  each_element<T>(to, from, bytes, [op](T a, T b) -> T {
    switch (op) {
      case BulkSite::kAdd: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case BulkSite::kMin: return a < b ? a : b;
      case BulkSite::kMax: return a > b ? a : b;
      case BulkSite::kInc: return a >= b ? T{0} : static_cast<T>(static_cast<U>(a) + 1u);
      case BulkSite::kDec: return a == 0 || a > b ? b : static_cast<T>(static_cast<U>(a) - 1u);
      case BulkSite::kAnd: return static_cast<T>(a & b);
      case BulkSite::kOr: return static_cast<T>(a | b);
      default: return static_cast<T>(a ^ b);
    }
  });
}
template <class F>
void reduce_halves(BulkSite::Reduce op, uint8_t* to, const uint8_t* from, uint64_t bytes) {
  each_element<uint16_t>(to, from, bytes, [op](uint16_t a, uint16_t b) {
    const float x = F::get(a), y = F::get(b);
    const float r = op == BulkSite::kAdd   ? x + y
                    : op == BulkSite::kMin ? std::fmin(x, y)
                                           : std::fmax(x, y);
    return F::put(r);
  });
}

}  // namespace

void reduce_bytes(BulkSite::Reduce op, BulkSite::Element element, uint8_t* to, const uint8_t* from,
                  uint64_t bytes) {
  switch (element) {
    case BulkSite::kU32: return reduce_integers<uint32_t>(op, to, from, bytes);
    case BulkSite::kS32: return reduce_integers<int32_t>(op, to, from, bytes);
    case BulkSite::kU64: return reduce_integers<uint64_t>(op, to, from, bytes);
    case BulkSite::kS64: return reduce_integers<int64_t>(op, to, from, bytes);
    case BulkSite::kF16: return reduce_halves<F16>(op, to, from, bytes);
    case BulkSite::kBf16: return reduce_halves<Bf16>(op, to, from, bytes);
    case BulkSite::kF32:
      return each_element<float>(to, from, bytes, [](float a, float b) { return a + b; });
    case BulkSite::kF64:
      return each_element<double>(to, from, bytes, [](double a, double b) { return a + b; });
    case BulkSite::kNoElement: break;
  }
}

uint8_t* global_place(Warp& w, Address address, uint64_t bytes, uint32_t align, Access access,
                      int lane) {
  if (address % align != 0) {
    access_fault(w, Finding::Kind::kMisaligned, access, address, static_cast<uint32_t>(bytes), lane,
                 w.memory->describe(address), align);
    return nullptr;
  }
  if (const Allocation* a = w.memory->reach(w.rank, address, bytes)) {
    count_bytes(w, *a, access, bytes);
    w.counters->global_transactions += ((address + bytes - 1) >> 5) - (address >> 5) + 1;
    return reinterpret_cast<uint8_t*>(address);
  }
  const Finding* f = w.memory->check(w.rank, address, bytes);
  access_fault(w, f != nullptr ? f->kind : Finding::Kind::kBounds, access, address,
               static_cast<uint32_t>(bytes), lane,
               f != nullptr ? f->place : w.memory->describe(address), align);
  return nullptr;
}

void tell_async(Warp& w, AsyncKind kind, Access access, Address begin, uint64_t bytes,
                Address barrier) {
  if (w.observer == nullptr) return;
  AsyncAccess a;
  a.actor = w.actor;
  a.kind = kind;
  a.access = access;
  a.barrier = barrier;
  a.begin = begin;
  a.bytes = bytes;
  a.code = code_ref(w);
  w.observer->async(a);
}

bool find_destinations(Warp& w, const BulkSite& site, int lane, uint64_t bytes, uint32_t align,
                       Destinations* out) {
  const uint64_t to = value_of(w, site.to, lane), barrier = value_of(w, site.barrier, lane);
  out->n = 0;
  const auto add = [&](uint64_t data, uint64_t counter) {
    const uint32_t k = out->n++;
    return shared_place(w, data, bytes, align, Access::kStore, lane, &out->to[k]) &&
           shared_place(w, counter, 8, 8, Access::kAtomic, lane, &out->barrier[k]);
  };
  if (site.mask.index == ~0u) return add(to, barrier);
  const auto mask = static_cast<uint32_t>(value_of(w, site.mask, lane)) & 0xffffu;
  const Cluster& c = *w.block->cluster;
  if (mask == 0 || mask >> c.size != 0) {
    fault(w, Fault::Kind::kIllegalInstruction, 0,
          "a multicast mask of " + std::to_string(mask) + " in a cluster of " +
              std::to_string(c.size) + " blocks");
    return false;
  }
  uint64_t offset = 0, counter = 0;
  (void)block_of(w, to, &offset);
  (void)block_of(w, barrier, &counter);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint64_t rank = uint64_t{static_cast<uint32_t>(std::countr_zero(rest)) + 1}
                          << kClusterShift;
    if (!add(rank | offset, rank | counter)) return false;
  }
  return true;
}

bool deliver(Warp& w, const Destinations& to, const uint8_t* data, uint32_t bytes) {
  for (uint32_t k = 0; k < to.n; ++k) {
    std::memcpy(to.to[k].pointer, data, bytes);
    const Address barrier = to.barrier[k].generic;
    tell_async(w, AsyncKind::kTransaction, Access::kStore, to.to[k].generic, bytes, barrier);
    tell_async(w, AsyncKind::kTransaction, Access::kAtomic, barrier, 8, barrier);
    if (!complete_transactions(w, to.barrier[k], bytes)) return false;
  }
  w.counters->shared_bytes += uint64_t{bytes} * to.n;
  note_store(w, true);
  return true;
}

namespace {

constexpr uint32_t kAlign = 16;

// One lane's copy.
bool copy(Warp& w, const BulkSite& s, int lane) {
  const uint64_t bytes = value_of(w, s.size, lane);
  if (bytes % kAlign != 0 || bytes > kSharedWindow) {
    fault(w, Fault::Kind::kIllegalInstruction, 0,
          "a bulk copy of " + std::to_string(bytes) +
              " bytes: it has to be a multiple of 16 and fit into shared memory");
    return false;
  }
  if (bytes == 0) return true;
  const auto n = static_cast<uint32_t>(bytes);
  const uint64_t from = value_of(w, s.from, lane), to = value_of(w, s.to, lane);
  if (s.to_global) {
    SharedPlace source;
    if (!shared_place(w, from, bytes, kAlign, Access::kLoad, lane, &source)) return false;
    const Access access = s.reduce == BulkSite::kCopy ? Access::kStore : Access::kAtomic;
    uint8_t* const p = global_place(w, to, bytes, kAlign, access, lane);
    if (p == nullptr) return false;
    tell_async(w, AsyncKind::kBulkRead, Access::kLoad, source.generic, bytes);
    tell_async(w, AsyncKind::kBulkWrite, access, to, bytes);
    if (s.reduce == BulkSite::kCopy) std::memmove(p, source.pointer, bytes);
    else reduce_bytes(s.reduce, s.element, p, source.pointer, bytes);
    note_store(w, true);
    return true;
  }
  Destinations d;
  if (!find_destinations(w, s, lane, bytes, kAlign, &d)) return false;
  const Address barrier = d.barrier[0].generic;
  if (s.from_global) {
    const uint8_t* const p = global_place(w, from, bytes, kAlign, Access::kLoad, lane);
    if (p == nullptr) return false;
    tell_async(w, AsyncKind::kTransaction, Access::kLoad, from, bytes, barrier);
    return deliver(w, d, p, n);
  }
  SharedPlace source;
  if (!shared_place(w, from, bytes, kAlign, Access::kLoad, lane, &source)) return false;
  tell_async(w, AsyncKind::kTransaction, Access::kLoad, source.generic, bytes, barrier);
  Bytes& scratch = w.machine->scratch;
  scratch.assign(source.pointer, source.pointer + bytes);
  if (s.reduce == BulkSite::kCopy) return deliver(w, d, scratch.data(), n);
  Bytes sum(d.to[0].pointer, d.to[0].pointer + bytes);
  reduce_bytes(s.reduce, s.element, sum.data(), scratch.data(), bytes);
  return deliver(w, d, sum.data(), n);
}
Act bulk_copy(Warp& w, const Op& op) {
  const BulkSite& site = w.program->bulks[op.target];
  for (uint32_t rest = w.exec; rest != 0; rest &= rest - 1)
    if (!copy(w, site, std::countr_zero(rest))) return Act::kFault;
  return Act::kNext;
}

// ---- Bulk groups.
Act commit(Warp& w, const Op&) {
  if (w.observer != nullptr) w.observer->async_commit(w.actor, AsyncKind::kBulkWrite);
  return Act::kNext;
}
Act wait(Warp& w, const Op& op) {
  if (w.observer != nullptr)
    w.observer->async_wait(w.actor, op.a != 0 ? AsyncKind::kBulkRead : AsyncKind::kBulkWrite,
                           static_cast<uint32_t>(op.imm));
  return Act::kNext;
}
Act hint(Warp&, const Op&) { return Act::kNext; }

bool decode_group(Emit& e) {
  if (e.take("commit_group")) {
    if (e.count() != 0) e.unsupported();
    e.op.run = &commit;
    return true;
  }
  if (!e.take("wait_group")) return false;
  e.op.a = e.take("read") ? 1 : 0;
  int64_t n = 0;
  if (!e.operands(1) || !e.immediate(e.operand(0), &n) || n < 0 || n > INT32_MAX) e.unsupported();
  e.op.imm = n;
  e.op.run = &wait;
  return true;
}

std::optional<BulkSite::Element> take_element(Emit& e) {
  const bool noftz = e.take("noftz");
  static constexpr std::array<std::string_view, 10> kNames{"u32",  "s32", "u64", "s64", "f16",
                                                           "bf16", "f32", "f64", "b32", "b64"};
  const int k = e.choice(kNames);
  if (k < 0) return std::nullopt;
  const auto element = k == 8   ? BulkSite::kU32
                       : k == 9 ? BulkSite::kU64
                                : static_cast<BulkSite::Element>(k);
  const bool half = element == BulkSite::kF16 || element == BulkSite::kBf16;
  return noftz && !half ? std::nullopt : std::optional(element);
}

}  // namespace

void decode_bulk(Emit& e, bool reduces) {
  if (!reduces && decode_group(e)) return;
  if (!reduces && e.take("prefetch")) {
    if (e.take("tensor")) {  // form only: it is a hint
      while (!e.modifiers_done()) e.take(e.peek());
      e.op.run = &hint;
      return;
    }
    if (!e.take("L2") || !e.take("global")) return e.unsupported();
    e.take("L2::cache_hint");
    e.op.run = &hint;
    return;
  }
  BulkSite s;
  static constexpr std::array<std::string_view, 3> kSpaces{"shared::cluster", "shared::cta",
                                                           "global"};
  const int to = e.choice(kSpaces), from = e.choice(kSpaces);
  if (to < 0 || from < 0) return e.unsupported();
  s.to_global = to == 2;
  s.from_global = from == 2;
  if (from == 0 || (s.to_global && s.from_global) || (to == 1 && from == 1)) return e.unsupported();
  const bool grouped = e.take("bulk_group");
  if (grouped != s.to_global || (!grouped && !e.take("mbarrier::complete_tx::bytes")))
    return e.unsupported();
  const bool multicast = e.take("multicast::cluster");
  const bool cached = e.take("L2::cache_hint");
  if (reduces) {
    if (multicast || s.from_global || !take_reduction(e, s)) return e.unsupported();
    const auto element = take_element(e);
    if (!element || !can_reduce(s.reduce, *element)) return e.unsupported();
    s.element = *element;
    if (!s.to_global && s.element >= BulkSite::kF16) return e.unsupported();
  }
  if (multicast && !s.from_global) return e.unsupported();
  const size_t n = 3 + (grouped ? 0u : 1u) + (multicast ? 1u : 0u) + (cached ? 1u : 0u);
  if (!e.operands(n)) return;
  size_t k = 0;
  s.to = address_part(e, e.operand(k++));
  s.from = address_part(e, e.operand(k++));
  s.size = value_part(e, e.operand(k++), 32);
  if (!grouped) s.barrier = address_part(e, e.operand(k++));
  if (multicast) s.mask = value_part(e, e.operand(k++), 16);
  if (e.failed()) return;
  e.op.target = static_cast<uint32_t>(e.program.bulks.size());
  e.program.bulks.push_back(s);
  e.op.run = &bulk_copy;
}

}  // namespace sculler::emu::vm
