#include <algorithm>
#include <cstring>

#include "emu/ptx/parser.h"
#include "emu/vm/decode.h"
#include "emu/vm/engine_impl.h"

namespace sculler::emu {
namespace {

// Fills the constants of a program for one rank. False with the name where a symbol has no address.
bool bind_constants(const vm::Program& p,
                    const std::map<std::string_view, std::pair<Address, uint64_t>>& globals,
                    vm::Bytes* bank, std::string* missing) {
  bank->assign(p.constant_bytes, 0);
  for (const vm::Constant& c : p.constants) {
    uint64_t v = c.value;
    if (!c.symbol.empty()) {
      const auto shared = std::find_if(p.shared_symbols.begin(), p.shared_symbols.end(),
                                       [&](const auto& s) { return s.name == c.symbol; });
      if (shared != p.shared_symbols.end()) {
        v += shared->offset;
      } else if (const auto g = globals.find(c.symbol); g != globals.end()) {
        v += g->second.first;
      } else {
        *missing = std::string(c.symbol);
        return false;
      }
    }
    uint8_t* row = bank->data() + c.offset;
    for (uint32_t lane = 0; lane < vm::kWarpSize; ++lane) {
      if (c.wide) reinterpret_cast<uint64_t*>(row)[lane] = v;
      else reinterpret_cast<uint32_t*>(row)[lane] = static_cast<uint32_t>(v);
    }
  }
  return true;
}

}  // namespace

Result<ModuleId> Engine::load(int rank, std::string ptx) {
  Impl& im = *impl_;
  if (rank < 0 || rank >= im.config.n_ranks)
    return fail(ErrorCode::kInternal, "a module for a rank that does not exist");
  const uint64_t hash = std::hash<std::string_view>{}(ptx);
  std::shared_ptr<Impl::Text> text;
  for (auto [at, end] = im.texts.equal_range(hash); at != end && !text; ++at)
    if (at->second->module->source == ptx) text = at->second;
  if (!text) {
    auto parsed = ptx::parse(std::move(ptx));
    if (!parsed) return tl::unexpected(parsed.error());
    text = std::make_shared<Impl::Text>();
    text->module = std::shared_ptr<const ptx::Module>(std::move(*parsed));
    im.texts.emplace(hash, text);
  }
  Impl::Loaded loaded;
  loaded.rank = rank;
  loaded.text = text;
  for (const ptx::Variable& v : text->module->globals) {
    if ((v.space != ptx::Space::kGlobal && v.space != ptx::Space::kConst) || v.bytes == 0) continue;
    const bool constant = v.space == ptx::Space::kConst;
    auto at = im.memory.allocate(
        rank, v.bytes, Allocation::Kind::kGlobal,
        std::string(constant ? "__constant__ " : "__device__ ") + std::string(v.name), true,
        v.align);
    if (!at) return tl::unexpected(at.error());
    auto* bytes = reinterpret_cast<uint8_t*>(*at);
    std::copy_n(v.init.begin(), std::min<size_t>(v.init.size(), v.bytes), bytes);
    loaded.globals[v.name] = {*at, v.bytes};
  }
  for (const ptx::Variable& v : text->module->globals) {
    const auto self = loaded.globals.find(v.name);
    if (self == loaded.globals.end()) continue;
    for (const auto& r : v.relocations) {
      const auto to = loaded.globals.find(r.symbol);
      if (to == loaded.globals.end() || r.at > v.bytes || v.bytes - r.at < 8)
        continue;  // a function: no call goes through it
      const Address value = to->second.first + static_cast<uint64_t>(r.addend);
      std::memcpy(reinterpret_cast<uint8_t*>(self->second.first) + r.at, &value, 8);
    }
  }
  im.modules.push_back(std::move(loaded));
  return static_cast<ModuleId>(im.modules.size() - 1);
}

void Engine::unload(ModuleId module) {
  Impl& im = *impl_;
  if (module >= im.modules.size() || !im.modules[module].live) return;
  Impl::Loaded& m = im.modules[module];
  m.live = false;
  for (const auto& [name, place] : m.globals) (void)im.memory.release(m.rank, place.first);
}

Result<KernelId> Engine::kernel(ModuleId module, std::string_view name) {
  Impl& im = *impl_;
  if (module >= im.modules.size() || !im.modules[module].live)
    return fail(ErrorCode::kNotFound, "the module is not loaded");
  Impl::Loaded& m = im.modules[module];
  if (const auto known = m.kernels.find(name); known != m.kernels.end()) return known->second;
  auto program = m.text->programs.find(name);
  if (program == m.text->programs.end()) {
    auto decoded = vm::decode(m.text->module, name);
    if (!decoded) return tl::unexpected(decoded.error());
    (*decoded)->code_base = static_cast<uint32_t>(im.code.size());
    for (uint32_t f = 0; f < (*decoded)->functions.size(); ++f) im.code.push_back({*decoded, f});
    program = m.text->programs.emplace(std::string(name), *decoded).first;
  }
  const vm::Program& p = *program->second;
  vm::Kernel k;
  k.module = module;
  k.rank = m.rank;
  k.program = program->second;
  std::string missing;
  if (!bind_constants(p, m.globals, &k.constants, &missing))
    return fail(ErrorCode::kUnsupported, "kernel " + p.name + " refers to " + missing +
                                             ", which this module does not define");
  const ptx::Function& f = *p.functions[0].source;
  k.info.name = p.name;
  for (const auto& s : p.params) k.info.params.push_back({s.offset, s.bytes});
  k.info.param_bytes = p.param_bytes;
  k.info.static_shared = p.static_shared;
  k.info.local_bytes = p.functions[0].frame_bytes;
  uint64_t threads = im.config.limits.threads_per_block;
  for (const auto* bound : {f.max_threads, f.required_threads}) {
    uint64_t product = 1;
    for (int d = 0; d < 3; ++d) product *= bound[d] != 0 ? bound[d] : 1;
    if (bound[0] != 0) threads = std::min(threads, product);
  }
  k.info.max_threads = static_cast<uint32_t>(threads);
  k.info.registers = p.registers;
  // As ptxas does: no more than the launch bounds leave, and what .maxnreg says.
  if (f.max_registers != 0) k.info.registers = std::min(k.info.registers, f.max_registers);
  const uint64_t warps = (threads + vm::kWarpSize - 1) / vm::kWarpSize * std::max(1u, f.min_blocks);
  if (warps != 0) {
    const auto most =
        static_cast<uint32_t>(im.config.limits.registers_per_sm / (warps * vm::kWarpSize) / 8 * 8);
    if (most >= 16) k.info.registers = std::min(k.info.registers, most);
  }
  for (size_t d = 0; d < 3; ++d) k.info.cluster[d] = f.cluster[d];
  im.kernels.push_back(std::move(k));
  const auto id = static_cast<KernelId>(im.kernels.size() - 1);
  m.kernels.emplace(std::string(name), id);
  return id;
}

const KernelInfo& Engine::info(KernelId kernel) const { return impl_->kernels.at(kernel).info; }

Result<std::pair<Address, uint64_t>> Engine::global(ModuleId module, std::string_view name) const {
  const Impl& im = *impl_;
  if (module < im.modules.size() && im.modules[module].live)
    if (const auto g = im.modules[module].globals.find(name); g != im.modules[module].globals.end())
      return g->second;
  return fail(ErrorCode::kNotFound, "the module has no variable " + std::string(name));
}

}  // namespace sculler::emu
