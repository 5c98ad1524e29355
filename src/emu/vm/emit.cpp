#include "emu/vm/emit.h"

#include <bit>

#include "emu/ptx/type.h"
#include "emu/vm/special.h"

namespace sculler::emu::vm {

bool Emit::take(std::string_view name) {
  if (peek() != name || name.empty()) return false;
  ++mod_;
  return true;
}

std::optional<ptx::Type> Emit::type() {
  auto t = ptx::type_from(peek());
  if (t) ++mod_;
  return t;
}

bool Emit::operands(size_t n) {
  if (count() == n) return true;
  unsupported("it has " + std::to_string(count()) + " operands");
  return false;
}

void Emit::unsupported(std::string why) {
  if (failed_) return;
  failed_ = true;
  why_ = std::move(why);
}

uint32_t Emit::sink(uint8_t kind) {
  int& s = draft.scratch[kind];
  if (s < 0) {
    s = static_cast<int>(draft.kinds.size());
    draft.kinds.push_back(kind);
    draft.bits.push_back(kind == 0 ? 32 : kind == 1 ? 64 : kind == 2 ? 1 : 128);
  }
  return static_cast<uint32_t>(s);
}

Ref Emit::vreg(uint32_t reg, uint8_t slot, bool is_dst, uint32_t index) {
  draft.fixups.push_back({at_, slot, draft.kinds[reg], is_dst, index, reg});
  return reg;
}

unsigned Emit::bits_of(const ptx::Operand& o) const {
  return o.kind == ptx::Operand::Kind::kRegister ? draft.bits[static_cast<size_t>(o.reg)] : 0;
}

bool Emit::immediate(const ptx::Operand& o, int64_t* value) const {
  if (o.kind != ptx::Operand::Kind::kImmediate || o.is_float) return false;
  *value = o.imm;
  return true;
}

Ref Emit::constant(uint64_t value, bool wide) {
  if (!wide) value &= 0xffffffffu;
  for (const Constant& c : program.constants)
    if (c.symbol.empty() && c.value == value && c.wide == wide)
      return kConstants << kBankShift | c.offset;
  Constant c;
  c.value = value;
  c.wide = wide;
  c.offset = program.constant_bytes;
  program.constant_bytes += wide ? kRow64 : kRow32;
  program.constants.push_back(c);
  return kConstants << kBankShift | c.offset;
}

Ref Emit::symbol(std::string_view name, int64_t addend, bool wide) {
  if (!know_symbol(name)) {
    unsupported("the symbol " + std::string(name) + " is no variable");
    return 0;
  }
  for (const Constant& c : program.constants)
    if (c.symbol == name && c.value == static_cast<uint64_t>(addend) && c.wide == wide)
      return kConstants << kBankShift | c.offset;
  Constant c;
  c.value = static_cast<uint64_t>(addend);
  c.symbol = name;
  c.wide = wide;
  c.offset = program.constant_bytes;
  program.constant_bytes += wide ? kRow64 : kRow32;
  program.constants.push_back(c);
  return kConstants << kBankShift | c.offset;
}

// Global and constant variables get their address when the kernel is bound to a rank; shared ones
// their place once all that the kernel uses are known.
bool Emit::know_symbol(std::string_view name) {
  const auto shared = [&](const ptx::Variable& v) {
    for (const auto& s : program.shared_symbols)
      if (s.variable == &v) return;
    program.shared_symbols.push_back({name, &v, 0});
  };
  for (const ptx::Variable& v : draft.source->locals)
    if (v.name == name && v.space == ptx::Space::kShared) {
      shared(v);
      return true;
    }
  for (const ptx::Variable& v : program.module->globals) {
    if (v.name != name) continue;
    if (v.space == ptx::Space::kShared) shared(v);
    return v.space == ptx::Space::kShared || v.space == ptx::Space::kGlobal ||
           v.space == ptx::Space::kConst;
  }
  return false;
}

Ref Emit::special(Special::Kind kind) {
  size_t k = 0;
  while (k < program.specials.size() && program.specials[k] != kind) ++k;
  if (k == program.specials.size()) program.specials.push_back(kind);
  return kSpecials << kBankShift | static_cast<uint32_t>(k * kRow32);
}

const FunctionCode::Slot* Emit::frame_slot(std::string_view name) const {
  auto it = draft.frame.find(name);
  return it == draft.frame.end() ? nullptr : &it->second;
}

const FunctionCode::Slot* Emit::entry_param(std::string_view name) const {
  if (!draft.source->is_entry) return nullptr;
  for (size_t k = 0; k < draft.source->params.size(); ++k)
    if (draft.source->params[k].name == name) return &program.params[k];
  return nullptr;
}

Ref Emit::resolve(const ptx::Operand& o, unsigned bits, bool is_float, uint8_t slot, bool is_dst,
                  uint32_t index) {
  using Kind = ptx::Operand::Kind;
  const bool wide = bits > 32;
  switch (o.kind) {
    case Kind::kRegister: {
      const unsigned have = bits_of(o);
      const bool narrow = bits < 32 && have < 32 && have > 1;  // 8 and 16 bits share a row
      if (o.negated || (have != bits && !narrow)) {
        unsupported("an operand of " + std::to_string(have) + " bits where " +
                    std::to_string(bits) + " are expected");
        return 0;
      }
      return vreg(static_cast<uint32_t>(o.reg), slot, is_dst, index);
    }
    case Kind::kSink:
      if (is_dst) return vreg(sink(bits == 128 ? 3 : wide ? 1 : 0), slot, true, index);
      break;
    case Kind::kImmediate: {
      if (is_dst || bits == 128) break;
      uint64_t v = static_cast<uint64_t>(o.imm);
      if (o.is_float && is_float) {
        if (o.float_bits == 64 && bits == 32)
          v = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(v)));
        if (o.float_bits == 32 && bits == 64)
          v = std::bit_cast<uint64_t>(
              static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(v))));
      }
      if (bits < 64) v &= (uint64_t{1} << bits) - 1;
      return constant(v, wide);
    }
    case Kind::kSpecial: {
      if (is_dst || bits != 32) break;
      if (auto kind = special_from(o.symbol)) return special(*kind);
      break;
    }
    case Kind::kSymbol:
      if (is_dst || bits < 32 || bits > 64) break;
      if (const auto* p = entry_param(o.symbol))
        return constant(p->offset + static_cast<uint64_t>(o.imm), wide);
      if (frame_slot(o.symbol) != nullptr) break;  // only mov knows local addresses
      return symbol(o.symbol, o.imm, wide);
    default: break;
  }
  unsupported("operand form");
  return 0;
}

void Emit::dst(size_t slot, const ptx::Operand& o, unsigned bits) {
  op.o[slot] = resolve(o, bits, false, static_cast<uint8_t>(slot), true, 0);
}
void Emit::src(size_t slot, const ptx::Operand& o, unsigned bits, bool is_float) {
  op.o[slot] = resolve(o, bits, is_float, static_cast<uint8_t>(slot), false, 0);
}

unsigned Emit::dst_any(size_t slot, const ptx::Operand& o, unsigned at_least) {
  unsigned bits = bits_of(o);
  if (o.kind == ptx::Operand::Kind::kSink) bits = at_least < 32 ? 32 : at_least;
  if (bits < at_least)
    unsupported("a destination of " + std::to_string(bits) + " bits is too narrow");
  else dst(slot, o, bits);
  return bits;
}
unsigned Emit::src_any(size_t slot, const ptx::Operand& o, unsigned at_least, bool is_float) {
  unsigned bits = bits_of(o);
  if (o.kind != ptx::Operand::Kind::kRegister) bits = at_least;
  if (bits < at_least) unsupported("a source of " + std::to_string(bits) + " bits is too narrow");
  else src(slot, o, bits, is_float);
  return bits;
}

void Emit::start_list() {
  if (!listing_) op.list = static_cast<uint32_t>(program.refs.size());
  listing_ = true;
}
void Emit::list_dst(const ptx::Operand& o, unsigned bits) {
  start_list();
  const auto index = static_cast<uint32_t>(program.refs.size());
  program.refs.push_back(resolve(o, bits, false, kListSlot, true, index));
}
void Emit::list_src(const ptx::Operand& o, unsigned bits, bool is_float) {
  start_list();
  const auto index = static_cast<uint32_t>(program.refs.size());
  program.refs.push_back(resolve(o, bits, is_float, kListSlot, false, index));
}
void Emit::list_inout(const ptx::Operand& o, unsigned bits) {
  list_dst(o, bits);
  if (failed_ || draft.fixups.empty() || o.kind == ptx::Operand::Kind::kSink) return;
  Fixup source = draft.fixups.back();
  source.is_dst = false;
  draft.fixups.push_back(source);
}
unsigned Emit::list_dst_any(const ptx::Operand& o, unsigned at_least) {
  unsigned bits = bits_of(o);
  if (o.kind == ptx::Operand::Kind::kSink) bits = at_least < 32 ? 32 : at_least;
  if (bits < at_least)
    unsupported("a destination of " + std::to_string(bits) + " bits is too narrow");
  else list_dst(o, bits);
  return bits;
}
unsigned Emit::list_src_any(const ptx::Operand& o, unsigned at_least, bool is_float) {
  unsigned bits = bits_of(o);
  if (o.kind != ptx::Operand::Kind::kRegister) bits = at_least;
  if (bits < at_least) unsupported("a source of " + std::to_string(bits) + " bits is too narrow");
  else list_src(o, bits, is_float);
  return bits;
}

void Emit::pred_dst(size_t slot, const ptx::Operand& o) {
  using Kind = ptx::Operand::Kind;
  if (o.kind == Kind::kSink) {
    op.o[slot] = vreg(sink(2), static_cast<uint8_t>(slot), true, 0);
  } else if (o.kind == Kind::kRegister && bits_of(o) == 1 && !o.negated) {
    op.o[slot] = vreg(static_cast<uint32_t>(o.reg), static_cast<uint8_t>(slot), true, 0);
  } else {
    unsupported("a predicate is expected");
  }
  op.o[slot] <<= 1;
}
void Emit::pred_src(size_t slot, const ptx::Operand& o) {
  if (o.kind != ptx::Operand::Kind::kRegister || bits_of(o) != 1)
    return unsupported("a predicate is expected");
  op.o[slot] = vreg(static_cast<uint32_t>(o.reg), static_cast<uint8_t>(slot), false, 0) << 1 |
               (o.negated ? 1u : 0u);
}

void Emit::move_to(uint8_t from, uint8_t to) {
  op.o[to] = op.o[from];
  for (auto f = draft.fixups.rbegin(); f != draft.fixups.rend() && f->op == at_; ++f)
    if (f->slot == from) f->slot = to;
}

void Emit::guard() {
  if (in.guard < 0) return;
  op.guard = vreg(static_cast<uint32_t>(in.guard), kGuardSlot, false, 0) << 1 |
             (in.guard_negated ? 1u : 0u);
}

}  // namespace sculler::emu::vm
