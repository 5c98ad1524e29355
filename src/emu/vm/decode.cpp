#include "emu/vm/decode.h"

#include <algorithm>

#include "emu/vm/emit.h"
#include "emu/vm/engine.h"
#include "emu/vm/registers.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {
namespace {

constexpr size_t kMostComplaints = 24;
constexpr size_t kMostFunctions = 4096;

const DecodeTable& table() {
  static const DecodeTable all = [] {
    DecodeTable t;
    register_integer(t);
    register_bits(t);
    register_float(t);
    register_compare(t);
    register_convert(t);
    register_move(t);
    register_memory(t);
    register_atomic(t);
    register_warp(t);
    register_control(t);
    register_matrix(t);
    register_async(t);
    register_cluster(t);
    register_wgmma(t);
    return t;
  }();
  return all;
}

uint64_t align_up(uint64_t value, uint64_t to) {
  return to < 2 ? value : (value + to - 1) / to * to;
}

std::string place(const ptx::Module& module, const ptx::Instruction& in) {
  if (in.line != 0 && in.file < module.files.size())
    return module.files[in.file] + ":" + std::to_string(in.line);
  return "ptx:" + std::to_string(in.ptx_line);
}

Status lay_out_shared(Program& p) {
  uint64_t end = 0;
  uint32_t dynamic_align = 16;
  for (auto& s : p.shared_symbols) {
    if (s.variable->is_extern && s.variable->bytes == 0) {
      dynamic_align = std::max(dynamic_align, s.variable->align);
      continue;
    }
    end = align_up(end, s.variable->align);
    s.offset = static_cast<uint32_t>(kSharedReserved + end);
    end += s.variable->bytes;
    if (end > kSharedWindow)
      return fail(ErrorCode::kBadInput, "static shared memory of " + p.name + " is too large");
  }
  // Dynamic shared memory is aligned to at least 16 bytes, and starts behind the static part.
  for (auto& s : p.shared_symbols)
    if (s.variable->is_extern && s.variable->bytes == 0)
      s.offset = static_cast<uint32_t>(align_up(kSharedReserved + end, dynamic_align));
  p.dynamic_align = dynamic_align;
  p.static_shared = static_cast<uint32_t>(end);
  return {};
}

void lay_out_params(Program& p, const ptx::Function& f) {
  uint64_t end = 0;
  for (const auto& v : f.params) {
    end = align_up(end, v.align);
    p.params.push_back({static_cast<uint32_t>(end), static_cast<uint32_t>(v.bytes)});
    end += v.bytes;
  }
  p.param_bytes = static_cast<uint32_t>(end);
}

uint8_t kind_of(const ptx::Type& t) {
  return t.letter == 'p' ? 2 : t.bits <= 32 ? 0 : t.bits == 64 ? 1 : 3;
}

}  // namespace

uint32_t add_function(Program& program, std::deque<FunctionDraft>& drafts,
                      const ptx::Function& source) {
  program.functions.emplace_back();
  drafts.emplace_back();
  FunctionCode& code = program.functions.back();
  FunctionDraft& draft = drafts.back();
  code.source = draft.source = &source;
  for (const ptx::Register& r : source.registers) {
    draft.kinds.push_back(kind_of(r.type));
    draft.bits.push_back(r.type.letter == 'p' ? uint16_t{1} : r.type.bits);
  }
  uint64_t end = 0;
  const auto add = [&](const ptx::Variable& v) {
    end = align_up(end, std::max<uint32_t>(v.align, 1));
    const FunctionCode::Slot slot{static_cast<uint32_t>(end), static_cast<uint32_t>(v.bytes)};
    end = std::min<uint64_t>(end + v.bytes, kMaxLocal + 1);
    draft.frame.emplace(v.name, slot);
    return slot;
  };
  if (!source.is_entry) {
    for (const auto& v : source.params) code.params.push_back(add(v));
    for (const auto& v : source.returns) code.returns.push_back(add(v));
  }
  for (const auto& v : source.locals)
    if (v.space == ptx::Space::kLocal || v.space == ptx::Space::kParam) add(v);
  code.frame_bytes = static_cast<uint32_t>(align_up(end, kLocalUnit));
  return static_cast<uint32_t>(program.functions.size() - 1);
}

std::optional<uint32_t> Emit::callee(std::string_view name) {
  for (size_t k = 0; k < program.functions.size(); ++k)
    if (program.functions[k].source->name == name) return static_cast<uint32_t>(k);
  if (program.functions.size() >= kMostFunctions) return std::nullopt;
  for (const ptx::Function& f : program.module->functions)
    if (f.name == name && !f.is_declaration && !f.is_entry) return add_function(program, drafts, f);
  return std::nullopt;
}

Result<std::shared_ptr<Program>> decode(std::shared_ptr<const ptx::Module> module,
                                        std::string_view entry) {
  const ptx::Function* source = nullptr;
  for (const auto& f : module->functions)
    if (f.name == entry && f.is_entry && !f.is_declaration) source = &f;
  if (source == nullptr)
    return fail(ErrorCode::kNotFound, "the module has no kernel " + std::string(entry));
  auto program = std::make_shared<Program>();
  program->module = std::move(module);
  program->name = std::string(entry);
  Program& p = *program;
  std::deque<FunctionDraft> drafts;
  lay_out_params(p, *source);
  if (p.param_bytes > 32764)
    return fail(ErrorCode::kBadInput, p.name + " has more than 32764 bytes of parameters");
  add_function(p, drafts, *source);

  std::string complaints;
  size_t n_complaints = 0;
  for (size_t f = 0; f < p.functions.size(); ++f) {  // grows while calls are met
    FunctionCode& code = p.functions[f];
    FunctionDraft& draft = drafts[f];
    if (code.frame_bytes > kMaxLocal)
      return fail(ErrorCode::kBadInput,
                  std::string(code.source->name) + " has more than 512 KiB of local memory");
    code.begin = static_cast<uint32_t>(p.ops.size());
    draft.overlapping.assign(code.source->code.size() + 1, false);
    for (size_t k = 0; k < code.source->code.size(); ++k) {
      const ptx::Instruction& in = code.source->code[k];
      Emit e(p, drafts, draft, code, in, static_cast<uint32_t>(k));
      const auto known = table().find(in.opcode);
      if (known == table().end()) {
        e.unsupported("the opcode is not known");
      } else {
        known->second(e);
        if (!e.failed() && !e.modifiers_done()) e.unsupported("modifier ." + std::string(e.peek()));
        if (!e.failed() && e.op.run == nullptr) e.unsupported();
      }
      e.guard();
      p.ops.push_back(e.op);
      if (!e.failed()) continue;
      if (++n_complaints <= kMostComplaints) {
        complaints += complaints.empty() ? "" : "\n";
        complaints += place(*p.module, in) + ": " + std::string(in.text(p.module->source));
        if (!e.why().empty()) complaints += " (" + e.why() + ")";
      }
    }
    Op end{};  // running off the end returns
    end.run = [](Warp&, const Op&) { return Act::kReturn; };
    p.ops.push_back(end);
    code.end = static_cast<uint32_t>(p.ops.size());
    if (p.ops.size() > (1u << 26)) return fail(ErrorCode::kBadInput, p.name + " is too large");
  }
  if (n_complaints > 0) {
    if (n_complaints > kMostComplaints)
      complaints += "\n... and " + std::to_string(n_complaints - kMostComplaints) + " more";
    return fail(
        ErrorCode::kUnsupported,
        "kernel " + short_name(p.name) + " uses what the emulator does not know:\n" + complaints,
        "use another instruction, or evaluate this candidate on a GPU");
  }
  if (auto shared = lay_out_shared(p); !shared) return tl::unexpected(shared.error());
  for (size_t f = 0; f < p.functions.size(); ++f) assign_registers(p, p.functions[f], drafts[f]);
  for (const auto& f : p.functions) p.registers = std::max(p.registers, f.live32);
  // What ptxas makes of it: live ranges with holes and 64-bit addresses that it splits; fitted to
  // kernels of this project.
  p.registers = std::clamp(p.registers * 5 / 8 + 6, 16u, 255u);
  return program;
}

}  // namespace sculler::emu::vm
