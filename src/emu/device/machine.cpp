// Machine: construction, answers to the server, kernels and modules.
#include "emu/device/machine.h"

#include <cstdio>

#include "emu/device/state.h"

namespace sculler::emu {

const char* name(Collective kind) {
  switch (kind) {
    case Collective::kAllGather: return "ncclAllGather";
    case Collective::kAllReduce: return "ncclAllReduce";
    case Collective::kReduceScatter: return "ncclReduceScatter";
    case Collective::kBroadcast: return "ncclBroadcast";
    case Collective::kReduce: return "ncclReduce";
    case Collective::kSend: return "ncclSend";
    case Collective::kRecv: return "ncclRecv";
  }
  return "nccl";
}

Machine::Impl::Impl(const MachineConfig& c)
    : config(c),
      engine(c.engine),
      observer(c.engine.observer),
      random(c.engine.schedule.seed),
      gin(
          engine,
          [this](int rank_index, uint64_t id) -> const WindowInfo* {
            for (const auto& [handle, info] : ranks[static_cast<size_t>(rank_index)].windows)
              if (info.id == id) return &info;
            return nullptr;
          },
          [this](MachineFault fault) {
            const int rank = fault.rank;
            break_rank(rank, std::move(fault));
          }) {
  ranks.resize(static_cast<size_t>(c.engine.n_ranks));
  int index = 0;
  for (RankState& r : ranks) {
    r.rank = index++;
    r.host = observer != nullptr ? observer->add_host(r.rank) : 0;
    r.host_pool = std::make_shared<ActorPool>(ActorPool{observer, r.rank, {}});
    r.legacy = add_stream(r, 0, 0);
  }
  last_started_rank = ranks.size() - 1;
}

Machine::Machine(const MachineConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Machine::~Machine() = default;

Engine& Machine::engine() { return impl_->engine; }
Memory& Machine::memory() { return impl_->engine.memory(); }

uint32_t Machine::host_site(const Offsets& offsets) {
  constexpr size_t kMostSites = 1024;  // of a hostile rank; programs have tens
  if (offsets[0] == 0) return 0;
  const auto found = impl_->sites.find(offsets);
  if (found != impl_->sites.end()) return found->second;
  if (impl_->sites.size() == kMostSites) return 0;
  const auto number = static_cast<uint32_t>(impl_->sites.size() + 1);
  impl_->sites.emplace(offsets, number);
  return number;
}

Location Machine::locate(CodeRef code) const {
  if (code.function != kHostCode) return impl_->engine.locate(code);
  Location out;
  for (const auto& [offsets, number] : impl_->sites) {
    if (number != code.instruction) continue;
    out.file = impl_->config.host_object;
    for (const uint32_t offset : offsets) {
      char text[16];
      if (offset != 0) std::snprintf(text, sizeof text, "+0x%x", offset);
      if (offset != 0) out.file += text;
    }
  }
  return out;
}

const MachineConfig& Machine::config() const { return impl_->config; }
Machine::Progress Machine::run(uint64_t budget) { return impl_->run(budget); }

std::vector<Completion> Machine::take_completions() {
  return std::exchange(impl_->completions, {});
}
std::vector<HostCall> Machine::take_host_calls() { return std::exchange(impl_->host_calls, {}); }

void Machine::host_call_done(uint64_t id) {
  const auto found = impl_->host_running.find(id);
  if (found == impl_->host_running.end()) return;
  Op& op = *found->second;
  impl_->host_running.erase(found);
  impl_->finish(op);
}

bool Machine::blocked(int rank) const {
  return std::any_of(impl_->tickets.begin(), impl_->tickets.end(),
                     [&](const auto& entry) { return entry.second.host.rank == rank; });
}

const std::vector<MachineFault>& Machine::faults() const { return impl_->faults; }
std::string Machine::explain(int rank) const {
  return impl_->ranks.at(static_cast<size_t>(rank)).message;
}
int Machine::sticky_error(int rank) const {
  return impl_->ranks.at(static_cast<size_t>(rank)).sticky;
}

void Machine::drop_rank(int rank) {
  RankState& r = impl_->ranks.at(static_cast<size_t>(rank));
  r.gone = true;
  if (r.message.empty()) r.message = "the process of rank " + std::to_string(rank) + " ended";
  impl_->drop(rank, r.sticky != 0 ? r.sticky : static_cast<int>(kCudaUnknown));
}

// ---- Trace

const Trace& Machine::trace() const { return impl_->trace; }

void Machine::trace_mark(int rank, std::string label) {
  TraceOp op = impl_->named(OpKind::kMark, label);
  op.rank = static_cast<int16_t>(rank);
  op.stream = UINT32_MAX;
  op.done = true;
  impl_->trace_op(op, {});
}

void Machine::trace_clear() {
  Trace& trace = impl_->trace;
  trace.base += static_cast<uint32_t>(trace.ops.size());
  trace.ops.clear();
  trace.dependencies.clear();
  trace.grids.clear();
  trace.calls.clear();
}

TraceOp Machine::Impl::named(OpKind kind, const std::string& what) {
  TraceOp op;
  op.kind = kind;
  op.name = config.keep_trace ? trace.intern(what) : 0;
  return op;
}

uint32_t Machine::Impl::trace_op(TraceOp op, const std::vector<TokenRef>& dependencies) {
  if (!config.keep_trace) return UINT32_MAX;
  op.first_dependency = static_cast<uint32_t>(trace.dependencies.size());
  for (const TokenRef& token : dependencies) {
    if (token->trace != UINT32_MAX) trace.dependencies.push_back(token->trace);
  }
  op.n_dependencies = static_cast<uint32_t>(trace.dependencies.size()) - op.first_dependency;
  trace.ops.push_back(op);
  return trace.base + static_cast<uint32_t>(trace.ops.size() - 1);
}

void Machine::Impl::signal(const Op& op, Address begin, uint64_t bytes) {
  constexpr uint64_t kMost = 64;
  if (bytes > kMost || op.trace == UINT32_MAX) return;
  for (Address word = begin & ~Address{3}; word < begin + bytes; word += 4)
    signals[word] = op.trace;
}

void Machine::Impl::signalled(const Op& op, const StreamValue& value) {
  const auto found = signals.find(value.address & ~Address{3});
  if (found == signals.end() || op.trace == UINT32_MAX || op.trace < trace.base ||
      found->second < trace.base)
    return;
  // Dependencies of an operation lie side by side: it moves to the end with one more.
  TraceOp& record = trace.ops[op.trace - trace.base];
  const auto first = static_cast<uint32_t>(trace.dependencies.size());
  for (uint32_t i = 0; i < record.n_dependencies; ++i) {
    const uint32_t before = trace.dependencies[record.first_dependency + i];
    trace.dependencies.push_back(before);
  }
  trace.dependencies.push_back(found->second);
  record.first_dependency = first;
  ++record.n_dependencies;
}

// ---- Modules and kernels

Outcome Machine::load_module(Host host, std::string ptx, ModuleId* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const Result<ModuleId> module = impl_->engine.load(host.rank, std::move(ptx));
  if (!module) {
    const bool unknown = module.error().code == ErrorCode::kUnsupported;
    return {impl_->explain(r, unknown ? kCudaNotSupported : kCudaInvalidKernelImage,
                           module.error().text()),
            0};
  }
  r.modules.insert(*module);
  *out = *module;
  return {};
}

Outcome Machine::unload_module(Host host, ModuleId module) {
  RankState& r = impl_->rank(host);
  if (r.modules.erase(module) == 0) {
    return {impl_->explain(r, kCudaInvalidResourceHandle, "no such module on this rank"), 0};
  }
  impl_->engine.unload(module);
  return {};
}

Outcome Machine::get_kernel(Host host, ModuleId module, std::string_view name, KernelId* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (!r.modules.contains(module)) {
    return {impl_->explain(r, kCudaInvalidResourceHandle, "no such module on this rank"), 0};
  }
  const Result<KernelId> kernel = impl_->engine.kernel(module, name);
  if (!kernel) {
    if (kernel.error().code == ErrorCode::kUnsupported) {
      return {impl_->explain(r, kCudaNotSupported, kernel.error().text()), 0};
    }
    return {impl_->explain(r, kCudaInvalidDeviceFunction, kernel.error().text()), 0};
  }
  r.kernels.insert(*kernel);
  *out = *kernel;
  return {};
}

Outcome Machine::get_global(Host host, ModuleId module, std::string_view name, Address* out,
                            uint64_t* bytes) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (!r.modules.contains(module)) {
    return {impl_->explain(r, kCudaInvalidResourceHandle, "no such module on this rank"), 0};
  }
  const auto found = impl_->engine.global(module, name);
  if (!found) return {impl_->explain(r, kCudaInvalidSymbol, found.error().text()), 0};
  *out = found->first;
  *bytes = found->second;
  return {};
}

Outcome Machine::launch(Host host, KernelLaunch launch) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (!r.kernels.contains(launch.kernel)) {
    return {impl_->explain(r, kCudaInvalidDeviceFunction, "no such kernel on this rank"), 0};
  }
  const KernelInfo& info = impl_->engine.info(launch.kernel);
  const DeviceLimits& limits = impl_->config.engine.limits;
  const auto refuse = [&](int code, const std::string& why) {
    return Outcome{impl_->explain(r, code, short_name(info.name) + ": " + why), 0};
  };
  const auto volume = [](const std::array<uint32_t, 3>& dims) {
    return uint64_t{dims[0]} * dims[1] * dims[2];
  };
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0 ||
      launch.grid[0] > 0x7fffffff || launch.grid[1] > 65535 || launch.grid[2] > 65535) {
    return refuse(kCudaInvalidConfiguration, "a grid dimension is 0 or too large");
  }
  if (launch.block[0] == 0 || launch.block[1] == 0 || launch.block[2] == 0 ||
      launch.block[0] > 1024 || launch.block[1] > 1024 || launch.block[2] > 64 ||
      volume(launch.block) > limits.threads_per_block) {
    return refuse(kCudaInvalidConfiguration, "a block dimension is 0, or a block has more than " +
                                                 std::to_string(limits.threads_per_block) +
                                                 " threads");
  }
  const auto threads = static_cast<uint32_t>(volume(launch.block));
  if (threads > info.max_threads) {
    return refuse(kCudaInvalidValue, std::to_string(threads) +
                                         " threads a block exceed the kernel's launch bounds of " +
                                         std::to_string(info.max_threads));
  }
  const uint64_t warps = (uint64_t{threads} + 31) / 32;
  if (warps * 32 * info.registers > limits.registers_per_sm) {
    return refuse(kCudaLaunchOutOfResources,
                  "a block needs " + std::to_string(warps * 32 * info.registers) +
                      " registers, an SM has " + std::to_string(limits.registers_per_sm));
  }
  if (uint64_t{launch.dynamic_shared} + info.static_shared > limits.shared_per_block) {
    return refuse(kCudaInvalidValue,
                  "a block needs " +
                      std::to_string(uint64_t{launch.dynamic_shared} + info.static_shared) +
                      " bytes of shared memory, at most " +
                      std::to_string(limits.shared_per_block) + " can be had");
  }
  if (launch.params.size() != info.param_bytes) {
    return refuse(kCudaInvalidValue, "parameters of " + std::to_string(launch.params.size()) +
                                         " bytes, " + std::to_string(info.param_bytes) +
                                         " expected");
  }
  uint64_t cluster_blocks = 1;
  for (size_t d = 0; d < 3; ++d) {
    const uint32_t compiled = info.cluster[d], asked = launch.cluster[d];
    const uint64_t size = std::max({1u, compiled, asked});
    cluster_blocks *= size;
    if (cluster_blocks > kMaxClusterBlocks || (compiled > 1 && asked > 1 && compiled != asked)) {
      return refuse(kCudaInvalidClusterSize,
                    "clusters of " + std::to_string(cluster_blocks) +
                        " blocks or more; the device takes " + std::to_string(kMaxClusterBlocks) +
                        ", and a kernel that was compiled for a size only that one");
    }
    if (launch.grid[d] % size != 0) {
      return refuse(kCudaInvalidConfiguration,
                    "a grid dimension of " + std::to_string(launch.grid[d]) +
                        " is no multiple of the cluster's, " + std::to_string(size));
    }
  }
  const uint64_t blocks = volume(launch.grid);
  if (launch.cooperative) {
    const uint64_t fits = uint64_t{impl_->engine.max_active_blocks_per_sm(launch.kernel, threads,
                                                                          launch.dynamic_shared)} *
                          limits.sms;
    if (blocks > fits) {
      return refuse(kCudaCooperativeLaunchTooLarge,
                    "a cooperative grid of " + std::to_string(blocks) + " blocks, at most " +
                        std::to_string(fits) + " can be resident at once");
    }
  }
  TraceOp trace_op = impl_->named(OpKind::kKernel, info.name);
  if (impl_->config.keep_trace) {
    TraceGrid grid;
    grid.grid = launch.grid;
    grid.block = launch.block;
    grid.dynamic_shared = launch.dynamic_shared;
    grid.static_shared = info.static_shared;
    grid.registers = info.registers;
    trace_op.grid = static_cast<uint32_t>(impl_->trace.grids.size());
    impl_->trace.grids.push_back(grid);
  }
  LaunchRequest request;
  request.rank = host.rank;
  request.kernel = launch.kernel;
  request.grid = launch.grid;
  request.block = launch.block;
  request.cluster = launch.cluster;
  request.dynamic_shared = launch.dynamic_shared;
  request.cooperative = launch.cooperative;
  request.params = std::move(launch.params);
  return {impl_->enqueue(host, impl_->find_stream(host, launch.stream),
                         KernelWork{std::move(request)}, trace_op),
          0};
}

}  // namespace sculler::emu
