#include "emu/vm/engine.h"

#include <algorithm>

#include "emu/vm/engine_impl.h"

namespace sculler::emu {
namespace {

constexpr uint64_t kQuietWarp = 2'000;  // instructions a warp, on top of EngineConfig::quiet_limit
constexpr size_t kLooks = 4;            // at parked warps between two slices
constexpr uint64_t kSoftSlices = 1024;  // that a warp which only seems to wait is left alone
constexpr uint64_t kClockJump =
    1'000'000;  // ticks, when all that happens is that warps look at the clock

}  // namespace

Engine::Impl::Impl(const EngineConfig& c)
    : config(c),
      memory(c.n_ranks, c.limits.memory_bytes, c.observer, c.ranks_per_node),
      scheduler(c.schedule) {
  machine.config = c;
  machine.memory = &memory;
  sms.assign(static_cast<size_t>(c.n_ranks), std::vector<Sm>(c.limits.sms));
  admissible.assign(static_cast<size_t>(c.n_ranks), false);
}

Engine::Engine(const EngineConfig& config) : impl_(std::make_unique<Impl>(config)) {
  impl_->machine.on_print = &on_print;
  impl_->machine.on_watched = &on_watched;
}
Engine::~Engine() = default;

Memory& Engine::memory() { return impl_->memory; }
const EngineConfig& Engine::config() const { return impl_->config; }
Engine::Stop Engine::run(uint64_t budget) { return impl_->run(budget); }
std::vector<GridId> Engine::take_finished() { return std::exchange(impl_->finished, {}); }
const Fault& Engine::fault() const { return impl_->machine.fault; }
void Engine::kill_rank(int rank) { impl_->kill_rank(rank); }
uint64_t Engine::instructions() const { return impl_->machine.instructions; }

const GridCounters& Engine::counters(GridId grid) const {
  static const GridCounters kNone{};
  for (const auto& g : impl_->grids)
    if (g->id == grid) return g->counters;
  const auto done = impl_->counters.find(grid);
  return done == impl_->counters.end() ? kNone : done->second;
}

void Engine::Impl::wake(vm::Warp& w) {
  // The one that runs goes on by itself: in the queue it could outlive its block.
  if (!w.done && !w.park && &w != running) scheduler.add(w);
}

void Engine::Impl::unpark(size_t index) {
  vm::Warp* w = parked[index];
  parked[index] = parked.back();
  parked.pop_back();
  if (w->park) w->spin.pc = ~0u;
  w->park = w->soft = false;
  scheduler.add(*w);
}

void Engine::Impl::look_at_parked(bool all) {
  size_t n = all ? parked.size() : std::min<size_t>(kLooks, parked.size());
  for (; n > 0 && !parked.empty(); --n) {
    if (parked_next >= parked.size()) parked_next = 0;
    const vm::Warp& w = *parked[parked_next];
    if (vm::still_parked(w) && (w.park || slices < w.soft_until)) ++parked_next;
    else unpark(parked_next);
  }
  // With nothing else to do, those that only seem to wait get their turn, and prove it.
  if (!all || scheduler.size() > 0) return;
  for (size_t k = parked.size(); k-- > 0;)
    if (!parked[k]->park) unpark(k);
}

// Memory has not changed for long, and every warp waits at a barrier or has looked at memory
// meanwhile: they go in circles that poll.cpp cannot prove, for example through block barriers.
bool Engine::Impl::circling() const {
  bool any = false;
  for (const auto& g : grids)
    for (const auto& b : g->resident)
      for (const auto& w : b->warps) {
        if (w->done || vm::runnable_groups(*w) == 0) continue;
        any = true;
        if (w->last_poll < quiet_since || w->last_clock >= quiet_since) return false;
      }
  return any;
}

bool Engine::Impl::after_slice(vm::Warp& w, vm::SliceEnd end) {
  switch (end) {
    case vm::SliceEnd::kQuantum:
      idle_yields = 0;
      scheduler.put_back(w, false);
      return true;
    case vm::SliceEnd::kYield:
      ++idle_yields;
      if (w.soft && vm::runnable_groups(w) == 1) {
        w.soft_until = slices + kSoftSlices;
        parked.push_back(&w);
      } else {
        scheduler.put_back(w, true);
      }
      return true;
    case vm::SliceEnd::kParked: parked.push_back(&w); return true;
    case vm::SliceEnd::kBlocked: return true;  // woken by the barrier's last arrival
    case vm::SliceEnd::kDone: {
      idle_yields = 0;
      vm::Block& b = *w.block;
      if (--b.live_warps == 0) {
        vm::Grid* g = b.grid;
        end_block(b);
        if (g->finished == g->n_blocks)
          for (size_t k = 0; k < grids.size(); ++k)
            if (grids[k].get() == g) {
              end_grid(k);
              break;
            }
      }
      return true;
    }
    case vm::SliceEnd::kFault: return false;
  }
  return true;
}

Engine::Stop Engine::Impl::run(uint64_t budget) {
  const uint64_t end = machine.instructions + std::min(budget, ~uint64_t{0} - machine.instructions);
  // What was written from outside does not count in the epoch.
  for (size_t k = parked.size(); k-- > 0;)
    if (parked[k]->park && !parked[k]->watch_only) unpark(k);
  look_at_parked(true);
  machine.fault = Fault{};
  idle_yields = 0;
  while (true) {
    admit();
    if (!finished.empty()) return Stop::kGridDone;
    if (machine.instructions >= end) return Stop::kBudget;
    if (config.step_limit != 0 && machine.instructions >= config.step_limit) {
      machine.fault.kind = Fault::Kind::kStepLimit;
      machine.fault.message = "the job has run " + std::to_string(machine.instructions) +
                              " warp instructions, its limit";
      return Stop::kFault;
    }
    ++slices;
    if (!parked.empty()) look_at_parked(false);
    uint64_t quantum = 0;
    vm::Warp* w = scheduler.take(&quantum);
    if (w == nullptr) {
      look_at_parked(true);
      w = scheduler.take(&quantum);
      if (w == nullptr) return grids.empty() ? Stop::kIdle : Stop::kStalled;
    }
    quantum = std::min(quantum, end - machine.instructions);
    if (config.step_limit != 0)
      quantum = std::min(quantum, config.step_limit - machine.instructions);
    running = w;
    const vm::SliceEnd slice_end = vm::run_slice(*w, quantum, *this);
    running = nullptr;
    if (!after_slice(*w, slice_end)) {
      const int rank = machine.fault.rank;
      if (rank >= 0) kill_rank(rank);
      return Stop::kFault;
    }
    // Nothing but waiting for a while: time passes, and perhaps nothing else ever will.
    if (idle_yields > 4 * (scheduler.size() + 1)) {
      machine.clock_bonus += kClockJump;
      idle_yields = 0;
    }
    if (machine.epoch != quiet_epoch || changes != quiet_changes) {
      quiet_epoch = machine.epoch;
      quiet_changes = changes;
      quiet_since = machine.instructions;
    } else if (machine.instructions - quiet_since >
               config.quiet_limit + kQuietWarp * (scheduler.size() + parked.size())) {
      if (circling()) {
        quiet_since = machine.instructions;
        return Stop::kStalled;
      }
      quiet_since = machine.instructions;
    }
  }
}

}  // namespace sculler::emu
