// Which operation starts when: the seeded schedule over stream heads and grids.
#include <cstring>

#include "emu/device/state.h"

namespace sculler::emu {

namespace {

template <class... T>
struct Overload : T... {
  using T::operator()...;
};
template <class... T>
Overload(T...) -> Overload<T...>;

int cuda_code(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::kIllegalAddress: return kCudaIllegalAddress;
    case Fault::Kind::kMisaligned: return kCudaMisalignedAddress;
    case Fault::Kind::kIllegalInstruction: return kCudaIllegalInstruction;
    case Fault::Kind::kAssert: return kCudaAssert;
    case Fault::Kind::kStepLimit: return kCudaLaunchTimeout;
    case Fault::Kind::kUnsupported: return kCudaNotSupported;
    default: return kCudaLaunchFailure;
  }
}

}  // namespace

bool Machine::Impl::condition(const StreamValue& value) const {
  uint64_t now = 0;
  std::memcpy(&now, pointer(value.address), value.bytes);
  const uint64_t mask = value.bytes == 4 ? 0xffffffffull : ~0ull;
  const uint64_t want = value.value & mask;
  switch (value.condition) {
    case WaitCondition::kGeq:  // cyclic, as cuda.h has it
      return value.bytes == 4 ? static_cast<int32_t>(static_cast<uint32_t>(now - want)) >= 0
                              : static_cast<int64_t>(now - want) >= 0;
    case WaitCondition::kEq: return now == want;
    case WaitCondition::kAnd: return (now & want) != 0;
    case WaitCondition::kNor: return ((~(now | want)) & mask) != 0;
  }
  return false;
}

bool Machine::Impl::ready(const Op& op) {
  if (op.running) return false;
  for (const TokenRef& token : op.dependencies) {
    if (!token->done) return false;
  }
  if (op.after != nullptr && !op.after->done) return false;
  if (const auto* wait = std::get_if<WaitValueWork>(&op.work)) {
    // A bad address is ready: it faults when it starts.
    if (engine.memory().check(op.rank, wait->value.address, wait->value.bytes) != nullptr)
      return true;
    return condition(wait->value);
  }
  return true;
}

void Machine::Impl::start(Op& op) {
  StreamState& stream = *op.stream;
  last_started_rank = static_cast<size_t>(op.rank);
  stalled = false;
  double begin = std::max(op.start, stream.time);
  for (const TokenRef& token : op.dependencies) {
    edge(token->actor, stream.actor);
    begin = std::max(begin, token->time);
  }
  if (op.host != nullptr && op.host != stream.joined_host) {
    edge(op.host->actor, stream.actor);
    stream.joined_host = op.host;
  }
  op.start = begin;
  if (observer != nullptr) observer->operation(stream.actor, op.trace, host_code(op.site));
  if (auto* kernel = std::get_if<KernelWork>(&op.work)) {
    op.running = true;
    kernel->request.stream = stream.actor;
    const Result<GridId> grid = engine.launch(kernel->request);
    if (!grid) {
      MachineFault fault;
      fault.rank = op.rank;
      fault.cuda_error = kCudaLaunchFailure;
      fault.fault.kind = Fault::Kind::kLaunch;
      fault.fault.code = host_code(op.site);
      fault.message = "launch of " + engine.info(kernel->request.kernel).name +
                      " failed: " + grid.error().text();
      break_rank(op.rank, std::move(fault));
      return;
    }
    grids[*grid] = &op;
    return;
  }
  if (auto* call = std::get_if<HostWork>(&op.work)) {
    op.running = true;
    const uint64_t id = next_host_call++;
    host_running[id] = &op;
    host_calls.push_back(HostCall{id, op.rank, call->function, call->argument});
    return;
  }
  if (std::holds_alternative<NcclWork>(op.work)) {
    op.running = true;
    start_nccl(op);
    return;
  }
  std::string error;
  if (!execute(op, &error)) {
    MachineFault fault;
    fault.kind = MachineFault::Kind::kBadAccess;
    fault.rank = op.rank;
    fault.cuda_error = kCudaIllegalAddress;
    fault.fault.code = host_code(op.site);
    fault.message = std::move(error);
    break_rank(op.rank, std::move(fault));
    return;
  }
  finish(op);
}

bool Machine::Impl::execute(Op& op, std::string* error) {
  return std::visit(
      Overload{
          [&](CopyWork& work) { return run_copy(op, work.request, error); },
          [&](MemsetWork& work) { return run_memset(op, work.request, error); },
          [&](RecordWork& work) {
            edge(op.stream->actor, work.token->actor);
            work.token->time = op.start;
            work.token->done = true;
            return true;
          },
          [&](WriteValueWork& work) {
            if (!touch(op.rank, 0, Access::kStore, work.value.address, work.value.bytes, {},
                       op.site, error))
              return false;
            if (observer != nullptr) {
              // A system-scope release store: whoever acquires at this address comes after the
              // stream.
              Address lanes[32] = {work.value.address};
              observer->access(WarpAccess{op.stream->actor, Access::kStore, Order::kRelease,
                                          Scope::kSys, MemorySpace::kGlobal, work.value.bytes, 1,
                                          lanes, 0, host_code(op.site)});
            }
            std::memcpy(pointer(work.value.address), &work.value.value, work.value.bytes);
            signal(op, work.value.address, work.value.bytes);
            return true;
          },
          [&](WaitValueWork& work) {
            if (!touch(op.rank, 0, Access::kLoad, work.value.address, work.value.bytes, {}, op.site,
                       error))
              return false;
            if (observer != nullptr) {
              Address lanes[32] = {work.value.address};
              observer->access(WarpAccess{op.stream->actor, Access::kLoad, Order::kAcquire,
                                          Scope::kSys, MemorySpace::kGlobal, work.value.bytes, 1,
                                          lanes, 0, host_code(op.site)});
            }
            signalled(op, work.value);
            return true;
          },
          [&](GemmWork& work) { return run_gemm(op, work.request, error); },
          [&](FreeWork& work) {
            const Status status = engine.memory().release(op.rank, work.address);
            if (!status) *error = "cudaFreeAsync: " + status.error().text();
            return status.has_value();
          },
          [](auto&) { return true; },
      },
      op.work);
}

double Machine::Impl::cost(const Op& op) const {
  const DeviceRates& rates = config.rates;
  if (op.trace == UINT32_MAX || op.trace < trace.base || op.trace - trace.base >= trace.ops.size())
    return 0;
  const TraceOp& t = trace.ops[op.trace - trace.base];
  switch (t.kind) {
    case OpKind::kKernel: {
      if (t.grid == UINT32_MAX) return 2e-6;
      const GridCounters& c = trace.grids[t.grid].counters;
      return 2e-6 +
             std::max({static_cast<double>(c.warp_instructions) / rates.instruction,
                       static_cast<double>(c.tensor_flops) / (0.6 * rates.gemm_flops),
                       static_cast<double>(c.global_load_bytes + c.global_store_bytes) / rates.hbm,
                       static_cast<double>(c.peer_load_bytes + c.peer_store_bytes) / rates.link});
    }
    case OpKind::kGemm: return 2e-6 + static_cast<double>(t.flops) / rates.gemm_flops;
    case OpKind::kCollective:
      return rates.collective_latency_s + static_cast<double>(t.bytes) / rates.collective_bytes;
    case OpKind::kCopy:
    case OpKind::kMemset:
      return 1e-6 + static_cast<double>(t.bytes) / (t.route == CopyRoute::kPeer   ? rates.link
                                                    : t.route == CopyRoute::kHost ? rates.host_link
                                                                                  : rates.hbm / 2);
    default: return 0;
  }
}

void Machine::Impl::finish(Op& op) {
  StreamState& stream = *op.stream;
  RankState& r = ranks[static_cast<size_t>(op.rank)];
  stream.time = std::max(stream.time, op.start + cost(op));
  stalled = false;
  if (auto* record = std::get_if<RecordWork>(&op.work)) record->token->time = stream.time;
  if (op.ends != nullptr) {
    edge(stream.actor, op.ends->actor);
    op.ends->time = stream.time;
    op.ends->done = true;
  }
  if (op.trace != UINT32_MAX && op.trace >= trace.base &&
      op.trace - trace.base < trace.ops.size()) {
    trace.ops[op.trace - trace.base].done = true;
  }
  if (op.ticket != 0) {
    edge(stream.actor, r.host);
    r.snapshot = nullptr;
    r.time = std::max(r.time, stream.time);
    complete(op.ticket, 0, std::move(op.result));
  }
  // Only heads run, so the operation is the front of its queue.
  const std::unique_ptr<Op> over = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (stream.queue.empty() && stream.destroyed && !stream.internal) {
    stream.destroyed = true;  // kept: tokens and reports still name it
  }
  check_tickets(op.rank);
}

void Machine::Impl::drop(int rank_index, int code) {
  RankState& r = ranks[static_cast<size_t>(rank_index)];
  r.sticky = code;
  engine.kill_rank(rank_index);
  gin.drop_rank(rank_index);
  std::erase_if(grids, [&](const auto& entry) { return entry.second->rank == rank_index; });
  std::erase_if(host_running, [&](const auto& entry) { return entry.second->rank == rank_index; });
  std::erase_if(host_calls, [&](const HostCall& call) { return call.rank == rank_index; });
  for (auto& [handle, member] : r.comms) {
    if (member->comm == nullptr) continue;
    Communicator& comm = *member->comm;
    const auto mine = [&](const Communicator::Side& side) {
      return side.op != nullptr && side.op->rank == rank_index;
    };
    for (auto& [sequence, sides] : comm.collectives) {
      for (Communicator::Side& side : sides) {
        if (mine(side)) side = {};
      }
    }
    for (auto* queues : {&comm.sends, &comm.recvs}) {
      for (auto& [pair, queue] : *queues) std::erase_if(queue, mine);
    }
    for (const auto& weak : comm.members) {
      if (const auto other = weak.lock()) other->info.broken = true;
    }
  }
  for (auto& [handle, stream] : r.streams) {
    stream->queue.clear();
    stream->tail = nullptr;
  }
  std::vector<std::pair<Ticket, int>> over;
  for (const auto& [ticket, state] : tickets) {
    if (state.host.rank == rank_index)
      over.emplace_back(ticket, state.broken != 0 ? state.broken : code);
  }
  for (const auto& [ticket, error] : over) complete(ticket, error);
}

void Machine::Impl::break_rank(int rank_index, MachineFault fault) {
  RankState& r = ranks[static_cast<size_t>(rank_index)];
  r.message = fault.message;
  fault.rank = rank_index;
  const int code = fault.cuda_error;
  faults.push_back(std::move(fault));
  new_fault = true;
  stalled = false;
  drop(rank_index, code);
}

void Machine::Impl::engine_step(uint64_t budget) {
  const Engine::Stop stop = engine.run(budget);
  for (const GridId grid : engine.take_finished()) {
    const auto found = grids.find(grid);
    if (found == grids.end()) continue;
    Op& op = *found->second;
    grids.erase(found);
    if (op.trace != UINT32_MAX && op.trace >= trace.base &&
        op.trace - trace.base < trace.ops.size()) {
      const TraceOp& t = trace.ops[op.trace - trace.base];
      if (t.grid != UINT32_MAX) trace.grids[t.grid].counters = engine.counters(grid);
    }
    finish(op);
  }
  if (stop == Engine::Stop::kStalled) stalled = true;
  if (stop == Engine::Stop::kFault) {
    const Fault fault = engine.fault();
    MachineFault out;
    out.kind = fault.kind == Fault::Kind::kStepLimit     ? MachineFault::Kind::kStepLimit
               : fault.kind == Fault::Kind::kUnsupported ? MachineFault::Kind::kUnsupported
                                                         : MachineFault::Kind::kKernel;
    out.fault = fault;
    out.message = fault.message;
    out.cuda_error = cuda_code(fault.kind);
    if (fault.rank >= 0 && fault.rank < config.engine.n_ranks) {
      break_rank(fault.rank, std::move(out));
    } else {
      for (int rank_index = 0; rank_index < config.engine.n_ranks; ++rank_index) {
        if (ranks[static_cast<size_t>(rank_index)].sticky == 0) break_rank(rank_index, out);
      }
    }
  }
}

// One step of the network; false: nothing is there for it.
bool Machine::Impl::gin_step(bool all) {
  if (!gin.step(all)) return false;
  gin_held = 0;
  stalled = false;
  return true;
}

Machine::Progress Machine::Impl::run(uint64_t budget) {
  const uint64_t begin = engine.instructions();
  const Schedule& schedule = config.engine.schedule;
  uint64_t rounds = 0;
  std::vector<Op*> heads;
  while (true) {
    if (new_fault) {
      new_fault = false;
      return Progress::kFault;
    }
    if (!completions.empty() || !host_calls.empty()) return Progress::kCompleted;
    heads.clear();
    bool any = false;
    bool held = false;  // ready heads of the delayed rank
    for (RankState& r : ranks) {
      for (auto& [handle, stream] : r.streams) {
        if (stream->queue.empty()) continue;
        any = true;
        if (ready(*stream->queue.front())) heads.push_back(stream->queue.front().get());
      }
    }
    if (schedule.kind == ScheduleKind::kDelayRank) {
      const auto of_others = [&](const Op* op) { return op->rank != schedule.delayed_rank; };
      if (std::any_of(heads.begin(), heads.end(), of_others)) {
        std::erase_if(heads, [&](const Op* op) { return !of_others(op); });
      } else if (!heads.empty() && !grids.empty() && !stalled) {
        held = true;
      }
    }
    const bool can_run = !grids.empty() && !stalled;
    // The network: at last where nothing else goes, and now and then where the schedule draws it.
    constexpr uint32_t kMostHeld = 16;
    const bool drawn =
        schedule.kind == ScheduleKind::kRandom || schedule.kind == ScheduleKind::kPriority;
    if (gin.active()) {
      const bool idle = !can_run && (heads.empty() || held);
      const bool now = idle || gin_held > kMostHeld || (drawn && random.below(2) == 0);
      if (now && gin_step(idle || gin_held > kMostHeld)) {
        if (++rounds > (1u << 16)) return Progress::kBudget;
        continue;
      }
    }
    Op* chosen = nullptr;
    uint64_t slice = 1 << 16;
    if (!heads.empty() && !held) {
      switch (schedule.kind) {
        case ScheduleKind::kRoundRobin:
        case ScheduleKind::kDelayRank: {
          // The next rank after the one that started last.
          const size_t n = ranks.size();
          chosen = *std::min_element(heads.begin(), heads.end(), [&](const Op* a, const Op* b) {
            const auto distance = [&](const Op* op) {
              return (static_cast<size_t>(op->rank) + n - last_started_rank - 1) % n;
            };
            return std::pair(distance(a), a->id) < std::pair(distance(b), b->id);
          });
          break;
        }
        case ScheduleKind::kRandom: {
          const uint64_t draw = random.below(heads.size() + (can_run ? 1 : 0));
          if (draw < heads.size()) chosen = heads[draw];
          break;
        }
        case ScheduleKind::kPriority: {
          chosen = *std::max_element(heads.begin(), heads.end(), [](const Op* a, const Op* b) {
            return std::pair(a->stream->draw, a->id) < std::pair(b->stream->draw, b->id);
          });
          if (random.below(16) == 0) chosen->stream->draw = random.next();
          if (can_run && random.below(2) == 0) chosen = nullptr;
          break;
        }
      }
    }
    if (chosen != nullptr) {
      start(*chosen);
      // Operations that cost no instruction must not starve the caller.
      if (++rounds > (1u << 16)) return Progress::kBudget;
      continue;
    }
    if (can_run) {
      const uint64_t spent = engine.instructions() - begin;
      if (spent >= budget) return Progress::kBudget;
      gin_held += gin.active() ? 1 : 0;
      if (drawn) {
        slice = heads.empty() && !gin.active() ? uint64_t{1} << 14
                                               : uint64_t{1} << (5 + random.below(9));
      }
      engine_step(std::min(slice, budget - spent));
      continue;
    }
    return any ? Progress::kWaiting : Progress::kIdle;
  }
}

}  // namespace sculler::emu
