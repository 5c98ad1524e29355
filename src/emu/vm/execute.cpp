#include "emu/vm/execute.h"

#include <algorithm>
#include <bit>

#include "emu/vm/access.h"
#include "emu/vm/collective.h"

namespace sculler::emu::vm {
namespace {

constexpr uint32_t kStale = 64;  // slices that lanes may run while others of their warp could

void set_frame(Warp& w, uint32_t frame) {
  const Frame& f = w.frames[frame];
  w.frame = frame;
  w.base[kBank32] = w.bank32.data() + f.at32;
  w.base[kBank64] = w.bank64.data() + f.at64;
  w.preds = w.pred_storage.data() + f.preds;
  w.local_base = f.local;
}

void save_current(Warp& w) {
  Group& g = w.groups[w.current];
  g.pc = w.pc;
  g.mask = w.mask;
  g.frame = w.frame;
}
void load_group(Warp& w, uint32_t index) {
  const Group& g = w.groups[index];
  w.current = index;
  w.pc = g.pc;
  w.mask = g.mask;
  if (w.frame != g.frame) set_frame(w, g.frame);
}
void remove_group(Warp& w, uint32_t index) {
  w.groups[index] = w.groups[--w.n_groups];
  if (w.current == w.n_groups) w.current = index;
}
void add_group(Warp& w, uint32_t pc, uint32_t mask, uint32_t frame) {
  Group& g = w.groups[w.n_groups++];
  g = Group{};
  g.pc = pc;
  g.mask = mask;
  g.frame = frame;
}

// Joins runnable groups at the same place; keeps `current` pointing to the group that holds what it
// did.
void merge(Warp& w) {
  for (uint32_t a = 0; a < w.n_groups; ++a) {
    if (w.groups[a].state != GroupState::kRunnable) continue;
    for (uint32_t b = a + 1; b < w.n_groups;) {
      Group& x = w.groups[b];
      if (x.state == GroupState::kRunnable && x.pc == w.groups[a].pc &&
          x.frame == w.groups[a].frame) {
        w.groups[a].mask |= x.mask;
        if (w.current == b) w.current = a;
        remove_group(w, b);
        w.stale_slices = 0;
      } else {
        ++b;
      }
    }
  }
}

// Chooses the group to run: the deepest call, then the least pc, which makes lanes meet again
// behind branches; with w.rotate the next one, so that lanes which wait for others of their warp
// cannot starve them. False: none can run.
bool choose(Warp& w) {
  if (w.n_groups == 1) {
    if (w.groups[0].state != GroupState::kRunnable) return false;
    load_group(w, 0);
    w.reconvergence = kNoReconvergence;
    return true;
  }
  merge(w);
  int best = -1;
  if (w.rotate) {
    for (uint32_t k = 0; k < w.n_groups && best < 0; ++k) {
      const uint32_t g = (w.current + k) % w.n_groups;
      if (w.groups[g].state == GroupState::kRunnable) best = static_cast<int>(g);
    }
  } else {
    for (uint32_t g = 0; g < w.n_groups; ++g) {
      const Group& x = w.groups[g];
      if (x.state != GroupState::kRunnable) continue;
      if (best >= 0) {
        const Group& y = w.groups[best];
        const uint32_t dx = w.frames[x.frame].depth, dy = w.frames[y.frame].depth;
        if (dx < dy || (dx == dy && x.pc >= y.pc)) continue;
      }
      best = static_cast<int>(g);
    }
  }
  if (best < 0) return false;
  load_group(w, static_cast<uint32_t>(best));
  w.reconvergence = kNoReconvergence;
  for (uint32_t g = 0; g < w.n_groups; ++g) {
    const Group& x = w.groups[g];
    if (g == w.current || x.state != GroupState::kRunnable || x.frame != w.frame || x.pc <= w.pc)
      continue;
    w.reconvergence = std::min(w.reconvergence, x.pc);
  }
  return true;
}

// After the current group's pc, mask or frame changed. False: nothing left to run.
bool settle(Warp& w) {
  if (w.n_groups == 1 && w.groups[0].state == GroupState::kRunnable) {
    w.reconvergence = kNoReconvergence;
    return true;
  }
  save_current(w);
  return choose(w);
}

// Splits off the lanes that do not take part in the current op; they go on behind it.
void split_rest(Warp& w) {
  const uint32_t rest = w.mask & ~w.exec;
  if (rest == 0) return;
  w.mask = w.exec;
  add_group(w, w.pc + 1, rest, w.frame);
}

// ---- Calls.
bool reserve_frame(Warp& w, const Frame& f) {
  const FunctionCode& code = w.program->functions[f.function];
  if (f.depth > kMaxDepth || f.local + code.frame_bytes > kMaxLocal) {
    fault(w, Fault::Kind::kIllegalAddress, 0,
          "stack overflow in kernel " + w.grid->kernel->info.name + ": calls are nested too deep");
    return false;
  }
  const auto grow = [](auto& v, size_t n) {
    if (v.size() < n) v.resize(std::max(n, v.size() + v.size() / 2));
  };
  grow(w.bank32, f.at32 + code.rows32);
  grow(w.bank64, f.at64 + code.rows64);
  grow(w.pred_storage, f.preds + code.preds);
  const size_t local = size_t{f.local + code.frame_bytes} * kWarpSize;
  if (w.local_storage.size() < local) w.local_storage.resize(local);
  w.local = w.local_storage.data();
  w.local_end = static_cast<uint32_t>(w.local_storage.size() / kWarpSize);
  return true;
}
void copy_local(Warp& w, uint32_t mask, uint32_t from, uint32_t to, uint32_t bytes) {
  for_mask(mask, [&](int i) {
    for (uint32_t k = 0; k < bytes; ++k)
      *local_pointer(w, i, to + k) = *local_pointer(w, i, from + k);
  });
}
bool enter(Warp& w, const Op& op) {
  split_rest(w);
  const CallSite& site = w.program->calls[op.target];
  uint32_t frame = 0;
  for (uint32_t k = 1; k < w.frames.size() && frame == 0; ++k)
    if (w.frames[k].parent == w.frame && w.frames[k].return_pc == w.pc + 1) frame = k;
  if (frame == 0) {
    const Frame& p = w.frames[w.frame];
    const FunctionCode& caller = w.program->functions[p.function];
    Frame f;
    f.parent = w.frame;
    f.function = site.callee;
    f.return_pc = w.pc + 1;
    f.depth = p.depth + 1;
    f.call = op.target;
    f.at32 = p.at32 + caller.rows32;
    f.at64 = p.at64 + caller.rows64;
    f.preds = p.preds + caller.preds;
    f.local = p.local + caller.frame_bytes;
    if (!reserve_frame(w, f)) return false;
    frame = static_cast<uint32_t>(w.frames.size());
    w.frames.push_back(f);
  }
  const FunctionCode& callee = w.program->functions[site.callee];
  const uint32_t from = w.frames[w.frame].local, to = w.frames[frame].local;
  for (size_t k = 0; k < site.arguments.size(); ++k)
    copy_local(w, w.exec, from + site.arguments[k].offset, to + callee.params[k].offset,
               callee.params[k].bytes);
  set_frame(w, frame);
  w.pc = callee.begin;
  return true;
}
void come_back(Warp& w) {
  split_rest(w);
  const Frame f = w.frames[w.frame];
  const CallSite& site = w.program->calls[f.call];
  const FunctionCode& callee = w.program->functions[f.function];
  const uint32_t to = w.frames[f.parent].local;
  for (size_t k = 0; k < site.results.size(); ++k)
    copy_local(w, w.exec, f.local + callee.returns[k].offset, to + site.results[k].offset,
               callee.returns[k].bytes);
  set_frame(w, f.parent);
  w.pc = f.return_pc;
}

// ---- Lanes that wait for others of their warp.
void release_warp_sync(Warp& w) {
  // bar.warp.sync (barrier 1) at any place; the others only at the same one.
  for (uint32_t a = 0; a < w.n_groups; ++a) {
    Group& x = w.groups[a];
    if (x.state != GroupState::kWarpSync) continue;
    uint32_t here = 0;
    for (uint32_t b = 0; b < w.n_groups; ++b) {
      const Group& y = w.groups[b];
      if (y.state == GroupState::kWarpSync && y.barrier == x.barrier &&
          (x.barrier == 1 || (y.pc == x.pc && y.frame == x.frame)))
        here |= y.mask;
    }
    if ((x.members & ~w.dead & ~here) != 0) continue;
    const uint32_t members = x.members, barrier = x.barrier, pc = x.pc, frame = x.frame;
    for (uint32_t b = 0; b < w.n_groups; ++b) {
      Group& y = w.groups[b];
      if (y.state != GroupState::kWarpSync || (y.mask & members) == 0 || y.barrier != barrier)
        continue;
      if (barrier != 1 && (y.pc != pc || y.frame != frame)) continue;
      y.state = GroupState::kRunnable;
      if (barrier == 1) ++y.pc;  // it has been passed
    }
  }
}

// ---- Block barriers.
void complete_barrier(Block& block, uint32_t id, Wakes& wakes) {
  BarrierState& b = block.barriers[id];
  const uint32_t expected = b.expected != 0 ? b.expected : block.live_threads;
  if (b.arrived == 0 || b.arrived < expected) return;
  const BarrierState done = b;
  b = BarrierState{};
  ActorId arrived[kWarpSize], waited[kWarpSize];
  uint32_t n_arrived = 0, n_waited = 0;
  Observer* observer = nullptr;
  for (auto& warp : block.warps) {
    Warp& w = *warp;
    observer = w.observer;
    if ((done.warps_arrived >> w.index & 1u) != 0) arrived[n_arrived++] = w.actor;
    if ((done.warps_waiting >> w.index & 1u) == 0) continue;
    waited[n_waited++] = w.actor;
    const uint32_t frame = w.frame;
    for (uint32_t g = 0; g < w.n_groups; ++g) {
      Group& x = w.groups[g];
      if (x.state != GroupState::kBarrier || x.barrier != id) continue;
      if (w.frame != x.frame) set_frame(w, x.frame);
      finish_reduction(w, x, done);
      x.state = GroupState::kRunnable;
      ++x.pc;
    }
    if (w.frame != frame) set_frame(w, frame);
    wakes.wake(w);
  }
  if (observer != nullptr) observer->barrier(arrived, n_arrived, waited, n_waited);
}

// ---- The barrier of a cluster.
void complete_cluster(Warp& self, Wakes& wakes) {
  Cluster& c = *self.block->cluster;
  if (c.arrived == 0 || c.arrived < c.live_threads()) return;
  c.arrived = 0;
  ++c.phase;
  if (self.observer != nullptr) self.observer->cluster_phase(c.id);
  for (uint32_t k = 0; k < c.size; ++k) {
    if (c.blocks[k] == nullptr) continue;
    for (auto& warp : c.blocks[k]->warps) {
      bool any = false;
      for (uint32_t g = 0; g < warp->n_groups; ++g) {
        if (warp->groups[g].state != GroupState::kCluster) continue;
        warp->groups[g].state = GroupState::kRunnable;
        any = true;
      }
      if (any) wakes.wake(*warp);
    }
  }
}

void exit_lanes(Warp& w, Wakes& wakes) {
  Block& block = *w.block;
  w.dead |= w.exec;
  block.live_threads -= static_cast<uint32_t>(std::popcount(w.exec));
  // Who has arrived at the cluster's barrier and exits does not count twice.
  Cluster& cluster = *block.cluster;
  const uint32_t now = (cluster.phase & 1u) != 0 ? w.cluster_parity : ~w.cluster_parity;
  cluster.arrived -= static_cast<uint32_t>(std::popcount(w.exec & w.cluster_arrived & now));
  w.cluster_arrived &= ~w.exec;
  w.mask &= ~w.exec;
  if (w.mask == 0) {
    remove_group(w, w.current);
  } else {
    ++w.pc;
    save_current(w);
  }
  release_warp_sync(w);
  for (uint32_t id = 0; id < kBarriers; ++id)
    if (block.barriers[id].arrived != 0 && block.live_threads != 0)
      complete_barrier(block, id, wakes);
  complete_cluster(w, wakes);
}

}  // namespace

uint32_t runnable_groups(const Warp& w) {
  uint32_t n = 0;
  for (uint32_t g = 0; g < w.n_groups; ++g) n += w.groups[g].state == GroupState::kRunnable;
  return n;
}

void start_warp(Warp& w) {
  const FunctionCode& entry = w.program->functions[0];
  w.frames.assign(1, Frame{});
  w.bank32.assign(entry.rows32, 0);
  w.bank64.assign(entry.rows64, 0);
  w.pred_storage.assign(entry.preds, 0);
  w.local_storage.assign(size_t{entry.frame_bytes} * kWarpSize, 0);
  w.local = w.local_storage.data();
  w.local_end = entry.frame_bytes;
  set_frame(w, 0);
  w.refs = w.program->refs.data();
  w.base[kConstants] = const_cast<uint8_t*>(w.grid->kernel->constants.data());
  w.base[kSpecials] = w.specials.data();
  w.n_groups = 1;
  w.current = 0;
  w.groups[0] = Group{};
  w.groups[0].pc = entry.begin;
  w.groups[0].mask = ~w.dead;
  w.carry = 0;
  w.copies_begin = w.copies_end = 0;
  for (auto& c : w.committed) c = 0;
  w.cluster_arrived = w.cluster_parity = 0;
  w.interactions = w.loads = 0;
  w.spin.pc = ~0u;
  w.spinning = w.park = w.soft = w.done = w.queued = w.rotate = false;
  w.stale_slices = 0;
}

SliceEnd run_slice(Warp& w, uint64_t quantum, Wakes& wakes) {
  Machine& machine = *w.machine;
  // Groups that only wait in circles must not starve the others.
  const bool several = w.n_groups > 1;
  w.rotate = several && (w.stale_slices >= kStale || w.spinning);
  if (w.rotate) {
    w.current = (w.current + 1) % w.n_groups;
    w.stale_slices = 0;
  } else if (several) {
    ++w.stale_slices;
  }
  w.spinning = false;
  if (!choose(w)) return SliceEnd::kBlocked;
  const Op* const ops = w.program->ops.data();
  const uint64_t start = machine.instructions, end = start + quantum;
  uint64_t lanes_run = 0, flops = 0;
  SliceEnd result = SliceEnd::kQuantum;
  bool go = true;
  while (go && machine.instructions < end) {
    const Op& op = ops[w.pc];
    uint32_t exec = w.mask;
    ++machine.instructions;
    if (op.guard != kAlways) {
      exec &= pred(w, op.guard);
      if (exec == 0) {
        if (++w.pc >= w.reconvergence) go = settle(w);
        continue;
      }
    }
    w.exec = exec;
    w.write = exec | w.dead;
    const auto n = static_cast<uint32_t>(std::popcount(exec));
    lanes_run += n;
    flops += uint64_t{n} * op.flops;
    switch (op.run(w, op)) {
      case Act::kNext:
        if (++w.pc >= w.reconvergence) [[unlikely]]
          go = settle(w);
        break;
      case Act::kBranch: {
        const uint32_t rest = w.mask & ~exec;
        if (rest != 0) add_group(w, w.pc + 1, rest, w.frame);
        w.mask = exec;
        w.pc = op.target;
        if (w.n_groups > 1) go = settle(w);
        break;
      }
      case Act::kSplit: {
        const uint32_t rest = w.mask & ~exec;
        if (rest != 0) add_group(w, w.pc + 1, rest, w.frame);
        const uint32_t first = w.lane_target[std::countr_zero(exec)];
        uint32_t mine = 0;
        for (uint32_t left = exec; left != 0;) {
          const uint32_t to = w.lane_target[std::countr_zero(left)];
          uint32_t same = 0;
          for_mask(left, [&](int i) {
            if (w.lane_target[i] == to) same |= 1u << i;
          });
          left &= ~same;
          if (to == first) mine = same;
          else add_group(w, to, same, w.frame);
        }
        w.mask = mine;
        w.pc = first;
        go = settle(w);
        break;
      }
      case Act::kCall:
        if (!enter(w, op)) {
          result = SliceEnd::kFault;
          go = false;
        } else {
          go = settle(w);
        }
        break;
      case Act::kReturn:
        if (w.frame != 0) {
          come_back(w);
          go = settle(w);
          break;
        }
        [[fallthrough]];  // the entry has run off its end
      case Act::kExit:
        exit_lanes(w, wakes);
        if (w.n_groups == 0) {
          w.done = true;
          result = SliceEnd::kDone;
          go = false;
        } else {
          go = choose(w);
        }
        break;
      case Act::kRetry: {
        split_rest(w);
        save_current(w);
        Group& g = w.groups[w.current];
        g.state = GroupState::kWarpSync;
        g.members = w.wait.members;
        g.barrier = op.space;  // 1: bar.warp.sync
        --machine.instructions;
        release_warp_sync(w);
        go = choose(w);
        break;
      }
      case Act::kWait: {
        split_rest(w);
        save_current(w);
        Group& g = w.groups[w.current];
        g.state = GroupState::kBarrier;
        g.barrier = w.wait.barrier;
        complete_barrier(*w.block, w.wait.barrier, wakes);
        go = choose(w);
        break;
      }
      case Act::kArrive:
        ++w.pc;
        save_current(w);
        complete_barrier(*w.block, w.wait.barrier, wakes);
        go = choose(w);
        break;
      case Act::kClusterArrive:
        ++w.pc;
        save_current(w);
        complete_cluster(w, wakes);
        go = choose(w);
        break;
      case Act::kClusterWait:
        split_rest(w);
        save_current(w);
        w.groups[w.current].state = GroupState::kCluster;
        go = choose(w);
        break;
      case Act::kYield:
        ++w.pc;
        result = w.park ? SliceEnd::kParked : SliceEnd::kYield;
        save_current(w);
        go = false;
        break;
      case Act::kFault:
        result = SliceEnd::kFault;
        go = false;
        break;
    }
  }
  if (w.n_groups > 0 && w.groups[w.current].state == GroupState::kRunnable &&
      result != SliceEnd::kFault)
    save_current(w);
  if (!go && result == SliceEnd::kQuantum) result = SliceEnd::kBlocked;
  w.counters->warp_instructions += machine.instructions - start;
  w.counters->lane_instructions += lanes_run;
  w.counters->fp_flops += flops;
  return result;
}

}  // namespace sculler::emu::vm
