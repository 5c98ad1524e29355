// Launching, and which blocks are resident: SMs, shared memory, registers and warps of each rank's
// device.
#include <algorithm>

#include "emu/vm/engine_impl.h"
#include "emu/vm/special.h"

namespace sculler::emu {
namespace {

constexpr size_t kMostSpare = 4096;  // warps kept for later blocks

uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

tl::unexpected<Error> refuse(std::string key, std::string message, std::string cure = {}) {
  Error e;
  e.code = ErrorCode::kBadInput;
  e.key = std::move(key);
  e.message = std::move(message);
  e.cure = std::move(cure);
  return fail(std::move(e));
}

uint32_t block_registers(const vm::Kernel& k, uint32_t threads) {
  return round_up(round_up(k.info.registers, 8) * vm::kWarpSize, 256) *
         ((threads + vm::kWarpSize - 1) / vm::kWarpSize);
}
uint64_t shared_bytes(const vm::Program& p, uint32_t dynamic) {
  if (dynamic == 0) return p.static_shared;
  const uint64_t start = kSharedReserved + p.static_shared;
  return (start + p.dynamic_align - 1) / p.dynamic_align * p.dynamic_align - kSharedReserved +
         dynamic;
}

// The cluster of a launch: what the launch says, what the kernel was compiled for, or one block.
Status cluster_of(const LaunchRequest& r, const KernelInfo& info, const std::string& who,
                  std::array<uint32_t, 3>* cluster) {
  uint64_t size = 1;
  for (size_t d = 0; d < 3; ++d) {
    const uint32_t compiled = info.cluster[d], asked = r.cluster[d];
    if (compiled > 1 && asked > 1 && compiled != asked)
      return refuse("cudaErrorInvalidClusterSize",
                    who + "it was compiled for another cluster size than the launch gives");
    (*cluster)[d] = std::max({1u, compiled, asked});
    size *= (*cluster)[d];
    if (size > kMaxClusterBlocks)
      return refuse("cudaErrorInvalidClusterSize",
                    who + "more than " + std::to_string(kMaxClusterBlocks) + " blocks a cluster");
    if (r.grid[d] % (*cluster)[d] != 0)
      return refuse("cudaErrorInvalidConfiguration",
                    who + "a grid dimension is no multiple of the cluster's");
  }
  return {};
}

}  // namespace

uint32_t vm::Grid::block_at(uint32_t n) const {
  const uint32_t c = order.empty() ? n / cluster_blocks : order[n / cluster_blocks];
  if (cluster_blocks == 1) return c;
  const uint32_t within = n % cluster_blocks;
  const uint32_t wide = request.grid[0] / cluster[0], high = request.grid[1] / cluster[1];
  const uint32_t x = c % wide * cluster[0] + within % cluster[0],
                 y = c / wide % high * cluster[1] + within / cluster[0] % cluster[1],
                 z = c / (wide * high) * cluster[2] + within / (cluster[0] * cluster[1]);
  return x + request.grid[0] * (y + request.grid[1] * z);
}

uint32_t Engine::Impl::blocks_per_sm(const vm::Kernel& k, uint32_t threads,
                                     uint32_t dynamic_shared) const {
  const DeviceLimits& l = config.limits;
  if (threads == 0 || threads > l.threads_per_block) return 0;
  const uint32_t warps = (threads + vm::kWarpSize - 1) / vm::kWarpSize;
  const uint64_t shared = shared_bytes(*k.program, dynamic_shared);
  if (shared > l.shared_per_block) return 0;
  uint32_t n = std::min(l.blocks_per_sm, l.warps_per_sm / warps);
  n = std::min(n, l.registers_per_sm / block_registers(k, threads));
  n = std::min(n,
               l.shared_per_sm / round_up(static_cast<uint32_t>(shared) + l.shared_reserved, 128));
  return n;
}

uint32_t Engine::max_active_blocks_per_sm(KernelId kernel, uint32_t threads,
                                          uint32_t dynamic_shared) const {
  return impl_->blocks_per_sm(impl_->kernels.at(kernel), threads, dynamic_shared);
}

Result<GridId> Engine::launch(const LaunchRequest& request) { return impl_->launch(request); }

Result<GridId> Engine::Impl::launch(const LaunchRequest& r) {
  if (r.kernel >= kernels.size()) return fail(ErrorCode::kInternal, "no such kernel");
  const vm::Kernel& k = kernels[r.kernel];
  if (r.rank != k.rank) return fail(ErrorCode::kInternal, "a kernel of another rank");
  const std::string who =
      "kernel " + short_name(k.info.name) + " on rank " + std::to_string(r.rank) + ": ";
  uint64_t threads = 1, blocks = 1;
  for (size_t d = 0; d < 3; ++d) {
    if (r.grid[d] == 0 || r.block[d] == 0)
      return refuse("cudaErrorInvalidConfiguration", who + "a grid or block dimension is 0");
    threads *= r.block[d];
    blocks *= r.grid[d];
    if (threads > config.limits.threads_per_block)
      return refuse("cudaErrorInvalidConfiguration",
                    who + "more than " + std::to_string(config.limits.threads_per_block) +
                        " threads a block");
    if (r.grid[d] > (d == 0 ? 0x7fffffffu : 65535u) || blocks > 0xffffffffu)
      return refuse("cudaErrorInvalidConfiguration", who + "the grid is too large");
  }
  std::array<uint32_t, 3> cluster{1, 1, 1};
  if (auto fits = cluster_of(r, k.info, who, &cluster); !fits) return tl::unexpected(fits.error());
  const uint32_t cluster_blocks = cluster[0] * cluster[1] * cluster[2];
  if (threads > k.info.max_threads)
    return refuse("cudaErrorLaunchOutOfResources",
                  who + std::to_string(threads) +
                      " threads a block, but it was compiled for at most " +
                      std::to_string(k.info.max_threads),
                  "launch no more than __launch_bounds__ says");
  if (r.params.size() != k.info.param_bytes)
    return refuse("cudaErrorInvalidValue", who + "the parameters have another size");
  const uint64_t shared = shared_bytes(*k.program, r.dynamic_shared);
  if (shared > config.limits.shared_per_block)
    return refuse("cudaErrorInvalidValue", who + std::to_string(shared) +
                                               " bytes of shared memory a block; the device has " +
                                               std::to_string(config.limits.shared_per_block));
  const uint32_t per_sm = blocks_per_sm(k, static_cast<uint32_t>(threads), r.dynamic_shared);
  if (per_sm == 0)
    return refuse("cudaErrorLaunchOutOfResources",
                  who + "a block needs more registers than an SM has");
  const uint64_t limit = uint64_t{per_sm} * config.limits.sms;
  if (r.cooperative && blocks > limit)
    return refuse("cudaErrorCooperativeLaunchTooLarge",
                  who + std::to_string(blocks) + " blocks are launched cooperatively, but only " +
                      std::to_string(limit) + " can be resident (" + std::to_string(per_sm) +
                      " on each of " + std::to_string(config.limits.sms) + " SMs)",
                  "launch at most as many blocks as cudaOccupancyMaxActiveBlocksPerMultiprocessor "
                  "times the SMs");
  auto grid = std::make_unique<vm::Grid>();
  vm::Grid& g = *grid;
  g.request = r;
  g.kernel = &k;
  g.n_blocks = static_cast<uint32_t>(blocks);
  g.threads = static_cast<uint32_t>(threads);
  g.warps_per_block = (g.threads + vm::kWarpSize - 1) / vm::kWarpSize;
  g.cluster = cluster;
  g.cluster_blocks = cluster_blocks;
  g.explicit_cluster = cluster_blocks > 1 || k.info.cluster[0] != 0;
  g.order = scheduler.admission(g.n_blocks / cluster_blocks, limit / cluster_blocks);
  g.shared_bytes = shared;
  g.block_registers = block_registers(k, g.threads);
  g.block_shared = round_up(static_cast<uint32_t>(shared) + config.limits.shared_reserved, 128);
  g.counters.blocks = g.n_blocks;
  g.counters.resident_limit = static_cast<uint32_t>(std::min<uint64_t>(limit, 0xffffffffu));
  g.counters.threads_per_block = g.threads;
  if (r.cooperative) {
    auto at = memory.allocate(r.rank, 256, Allocation::Kind::kInternal,
                              "workspace of a cooperative grid", true);
    if (!at) return tl::unexpected(at.error());
    g.workspace = *at;
  }
  if (config.observer != nullptr) {
    GridInfo info;
    info.rank = r.rank;
    info.kernel = k.info.name;
    info.blocks = g.n_blocks;
    info.warps_per_block = g.warps_per_block;
    info.stream = r.stream;
    g.id = config.observer->begin_grid(info);
  } else {
    g.id = next_grid++;
  }
  const GridId id = g.id;
  admissible[static_cast<size_t>(r.rank)] = true;
  grids.push_back(std::move(grid));
  return id;
}

void Engine::Impl::Sm::take(const vm::Grid& g) {
  warps += g.warps_per_block;
  ++blocks;
  registers += g.block_registers;
  shared += g.block_shared;
}
void Engine::Impl::Sm::give_back(const vm::Grid& g) {
  warps -= g.warps_per_block;
  --blocks;
  registers -= g.block_registers;
  shared -= g.block_shared;
}

// All blocks of the next cluster, or none. Which SMs can share a cluster (those of one GPC) is not
// modelled.
bool Engine::Impl::place(vm::Grid& g) {
  const DeviceLimits& l = config.limits;
  auto& all = sms[static_cast<size_t>(g.request.rank)];
  std::array<uint32_t, kMaxClusterBlocks> chosen{};
  for (uint32_t k = 0; k < g.cluster_blocks; ++k) {
    int best = -1;
    for (size_t s = 0; s < all.size(); ++s) {  // the emptiest, as the hardware spreads blocks
      const Sm& sm = all[s];
      if (sm.blocks >= l.blocks_per_sm || sm.warps + g.warps_per_block > l.warps_per_sm ||
          sm.registers + g.block_registers > l.registers_per_sm ||
          sm.shared + g.block_shared > l.shared_per_sm)
        continue;
      if (best < 0 || sm.warps < all[static_cast<size_t>(best)].warps) best = static_cast<int>(s);
      if (sm.warps == 0) break;
    }
    if (best < 0) {
      while (k > 0) all[chosen[--k]].give_back(g);
      return false;
    }
    chosen[k] = static_cast<uint32_t>(best);
    all[chosen[k]].take(g);
  }
  auto cluster = std::make_shared<vm::Cluster>();
  cluster->id = next_cluster++;
  cluster->size = g.cluster_blocks;
  for (uint32_t k = 0; k < g.cluster_blocks; ++k) begin_block(g, chosen[k], cluster, k);
  return true;
}

void Engine::Impl::admit() {
  for (size_t rank = 0; rank < admissible.size(); ++rank) {
    if (!admissible[rank]) continue;
    admissible[rank] = false;
    for (auto& grid : grids) {
      if (grid->request.rank != static_cast<int>(rank)) continue;
      while (grid->next < grid->n_blocks && place(*grid)) {}
      if (grid->next < grid->n_blocks) break;  // later grids wait behind it
    }
  }
}

void Engine::Impl::begin_block(vm::Grid& g, uint32_t sm_index,
                               const std::shared_ptr<vm::Cluster>& cluster, uint32_t cluster_rank) {
  std::unique_ptr<vm::Block> owned;
  if (auto& pool = spare[g.warps_per_block]; !pool.empty()) {
    owned = std::move(pool.back());
    pool.pop_back();
    spare_warps -= g.warps_per_block;
  } else {
    owned = std::make_unique<vm::Block>();
    for (uint32_t k = 0; k < g.warps_per_block; ++k)
      owned->warps.push_back(std::make_unique<vm::Warp>());
  }
  vm::Block& b = *owned;
  ++changes;
  b.grid = &g;
  b.cluster = cluster;
  b.cluster_rank = cluster_rank;
  cluster->blocks[cluster_rank] = &b;
  b.linear = g.block_at(g.next++);
  b.id[0] = b.linear % g.request.grid[0];
  b.id[1] = b.linear / g.request.grid[0] % g.request.grid[1];
  b.id[2] = b.linear / (g.request.grid[0] * g.request.grid[1]);
  b.sm = sm_index;
  if (free_windows.empty()) free_windows.push_back(n_windows++);
  b.window = free_windows.back();
  free_windows.pop_back();
  b.live_threads = g.threads;
  b.live_warps = g.warps_per_block;
  b.barriers = {};
  b.shared.assign(kSharedReserved + g.shared_bytes, 0xa5);
  const Address window = kSharedBase + b.window * kSharedWindow;
  ActorId actor = 0;
  if (config.observer != nullptr)
    actor = config.observer->begin_block(g.id, b.linear, window + kSharedReserved, g.shared_bytes);
  for (uint32_t k = 0; k < g.warps_per_block; ++k) {
    vm::Warp& w = *b.warps[k];
    w.block = &b;
    w.grid = &g;
    w.program = g.kernel->program.get();
    w.machine = &machine;
    w.memory = &memory;
    w.observer = config.observer;
    w.counters = &g.counters;
    w.rank = g.request.rank;
    w.params = g.request.params.data();
    w.index = k;
    w.actor = actor + k;
    w.shared = b.shared.data();
    w.shared_end = static_cast<uint32_t>(b.shared.size());
    w.shared_window = window;
    const uint32_t first = k * vm::kWarpSize;
    const uint32_t alive = std::min(vm::kWarpSize, g.threads - first);
    w.dead = alive == vm::kWarpSize ? 0 : ~((1u << alive) - 1);
    w.priority = 0;
    vm::fill_specials(w, b, g);
    vm::start_warp(w);
    scheduler.add(w);
  }
  g.resident.push_back(std::move(owned));
}

void Engine::Impl::end_block(vm::Block& b) {
  vm::Grid& g = *b.grid;
  ++changes;
  if (config.observer != nullptr) config.observer->end_block(g.id, b.linear);
  sms[static_cast<size_t>(g.request.rank)][b.sm].give_back(g);
  vm::Cluster& cluster = *b.cluster;
  cluster.blocks[b.cluster_rank] = nullptr;
  if (config.observer != nullptr &&
      std::all_of(cluster.blocks.begin(), cluster.blocks.end(),
                  [](const vm::Block* block) { return block == nullptr; }))
    config.observer->cluster_end(cluster.id);
  b.cluster.reset();
  free_windows.push_back(b.window);
  admissible[static_cast<size_t>(g.request.rank)] = true;
  ++g.finished;
  for (auto& at : g.resident) {
    if (at.get() != &b) continue;
    if (spare_warps < kMostSpare) {
      spare[g.warps_per_block].push_back(std::move(at));
      spare_warps += g.warps_per_block;
    }
    std::swap(at, g.resident.back());
    g.resident.pop_back();
    break;
  }
}

void Engine::Impl::end_grid(size_t index) {
  std::unique_ptr<vm::Grid> g = std::move(grids[index]);
  grids.erase(grids.begin() + static_cast<std::ptrdiff_t>(index));
  if (config.observer != nullptr) config.observer->end_grid(g->id);
  if (g->workspace != 0) (void)memory.release(g->request.rank, g->workspace);
  counters[g->id] = g->counters;
  finished.push_back(g->id);
}

void Engine::Impl::drop_grid(vm::Grid& g) {
  while (!g.resident.empty()) end_block(*g.resident.back());
  if (g.workspace != 0) (void)memory.release(g.request.rank, g.workspace);
  counters[g.id] = g.counters;
}

void Engine::Impl::kill_rank(int rank) {
  scheduler.remove_rank(rank);
  std::erase_if(parked, [rank](const vm::Warp* w) { return w->rank == rank; });
  for (auto& g : grids)
    if (g->request.rank == rank) drop_grid(*g);
  std::erase_if(grids, [rank](const auto& g) { return g->request.rank == rank; });
  admissible[static_cast<size_t>(rank)] = true;
}

}  // namespace sculler::emu
