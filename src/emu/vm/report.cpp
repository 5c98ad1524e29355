// What warps wait for, and where code comes from.
#include <bit>
#include <cstring>

#include "emu/vm/async.h"
#include "emu/vm/engine_impl.h"

namespace sculler::emu {

namespace {

void wait_at_mbarrier(const vm::Warp& w, int lane, WarpState* s) {
  uint64_t word = 0;
  std::memcpy(&word, w.spin.armed ? w.spin.pointer[lane] : reinterpret_cast<uint8_t*>(&word), 8);
  const vm::MbarrierState state = vm::mbarrier_state(word);
  s->wait = WarpState::Wait::kMbarrier;
  s->arrived = state.arrived;
  s->expected = state.expected;
  s->transactions = state.transactions;
  s->value = state.phase ? 1 : 0;  // it waits for the end of the phase that is under way
}

}  // namespace

std::vector<WarpState> Engine::warps() const {
  const Impl& im = *impl_;
  std::vector<WarpState> out;
  for (const auto& g : im.grids) {
    for (const auto& b : g->resident) {
      for (const auto& warp : b->warps) {
        const vm::Warp& w = *warp;
        if (w.done) continue;
        for (uint32_t k = 0; k < w.n_groups; ++k) {
          const vm::Group& x = w.groups[k];
          WarpState s{};
          s.rank = w.rank;
          s.kernel = g->kernel->info.name;
          s.block = b->linear;
          s.warp = w.index;
          s.lanes = x.mask;
          const vm::Program& p = *w.program;
          uint32_t f = 0;
          while (f + 1 < p.functions.size() && x.pc >= p.functions[f].end) ++f;
          s.code = {p.code_base + f, x.pc - p.functions[f].begin};
          switch (x.state) {
            case vm::GroupState::kBarrier: {
              const vm::BarrierState& barrier = b->barriers[x.barrier];
              s.wait = WarpState::Wait::kBarrier;
              s.barrier = x.barrier;
              s.arrived = barrier.arrived;
              s.expected = barrier.expected != 0 ? barrier.expected : b->live_threads;
              break;
            }
            case vm::GroupState::kCluster:
              s.wait = WarpState::Wait::kCluster;
              s.arrived = b->cluster->arrived;
              s.expected = b->cluster->live_threads();
              break;
            case vm::GroupState::kWarpSync:
              s.wait = WarpState::Wait::kBarrier;
              s.barrier = ~0u;  // of the warp
              s.arrived = static_cast<uint32_t>(std::popcount(x.mask));
              s.expected = static_cast<uint32_t>(std::popcount(x.members & ~w.dead));
              break;
            default: {
              const bool spins =
                  w.spin.pc != ~0u && w.spin.repeats >= 2 && (w.spin.mask & x.mask) != 0;
              s.wait = spins ? WarpState::Wait::kSpin : WarpState::Wait::kRunning;
              if (!spins) break;
              const int lane = std::countr_zero(w.spin.mask);
              s.address = w.spin.address[lane];
              if (w.spin.armed)
                std::memcpy(&s.value, w.spin.data + static_cast<uint32_t>(lane) * w.spin.bytes,
                            std::min<size_t>(8, w.spin.bytes));
              uint32_t sf = 0;
              while (sf + 1 < p.functions.size() && w.spin.pc >= p.functions[sf].end) ++sf;
              s.code = {p.code_base + sf, w.spin.pc - p.functions[sf].begin};
              const bool workspace = g->workspace != 0 && s.address - g->workspace < 256;
              if (workspace) s.wait = WarpState::Wait::kGridSync;
              if (p.functions[sf].source->code[s.code.instruction].opcode == "mbarrier")
                wait_at_mbarrier(w, lane, &s);
            }
          }
          out.push_back(s);
        }
      }
    }
    if (g->next < g->n_blocks) {
      WarpState s{};
      s.rank = g->request.rank;
      s.kernel = g->kernel->info.name;
      s.block = g->block_at(g->next);
      s.wait = WarpState::Wait::kNotResident;
      s.arrived = g->next;
      s.expected = g->n_blocks;
      out.push_back(s);
    }
  }
  return out;
}

Location Engine::locate(CodeRef ref) const {
  Location out;
  if (ref.function == 0 || ref.function >= impl_->code.size()) return out;
  const Impl::Code& code = impl_->code[ref.function];
  const ptx::Module& module = *code.program->module;
  const ptx::Function& f = *code.program->functions[code.function].source;
  out.function = std::string(f.name);
  if (ref.instruction >= f.code.size()) return out;
  const ptx::Instruction& in = f.code[ref.instruction];
  out.ptx_line = in.ptx_line;
  out.text = std::string(in.text(module.source));
  // The kernel author's own line where the code was inlined from a header.
  const uint32_t file = in.at_line != 0 ? in.at_file : in.file,
                 line = in.at_line != 0 ? in.at_line : in.line;
  if (line != 0 && file < module.files.size()) {
    out.file = module.files[file];
    out.line = line;
  }
  if (in.from_library && in.line != 0 && (in.file != file || in.line != line)) {
    const std::string& path = module.files[in.file];
    out.inner = path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(in.line);
  }
  return out;
}

}  // namespace sculler::emu
