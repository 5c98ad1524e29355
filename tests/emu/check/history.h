// Scripted histories: a few ranks, one grid each, told to the checker access by access.
#pragma once

#include <array>
#include <vector>

#include "emu/check/checker.h"
#include "emu/vm/memory.h"

namespace sculler::emu {

struct History {
  static constexpr uint32_t kFunction = 1;

  explicit History(int n_ranks = 2, uint32_t blocks = 2, uint32_t warps = 4,
                   CheckerConfig config = {})
      : checker(make_checker(std::move(config))), n_blocks(blocks), n_warps(warps) {
    for (int rank = 0; rank < n_ranks; ++rank) {
      hosts.push_back(checker->add_host(rank));
      streams.push_back(checker->add_stream(rank));
      checker->allocated(rank, memory(rank), 1 << 20, true);
    }
    for (int rank = 0; rank < n_ranks; ++rank) start(rank);
  }

  // Begins a grid on the rank's stream, with all its blocks resident.
  void start(int rank) {
    const auto index = static_cast<size_t>(rank);
    if (grids.size() <= index) {
      grids.resize(index + 1);
      firsts.resize(index + 1);
    }
    grids[index] = checker->begin_grid({rank, "kernel", n_blocks, n_warps, streams[index]});
    firsts[index].clear();
    for (uint32_t block = 0; block < n_blocks; ++block) {
      firsts[index].push_back(checker->begin_block(grids[index], block, kSharedBase, 49152));
    }
  }
  void finish(int rank) {
    const auto index = static_cast<size_t>(rank);
    for (uint32_t block = 0; block < n_blocks; ++block) checker->end_block(grids[index], block);
    checker->end_grid(grids[index]);
  }

  static Address memory(int rank, uint64_t offset = 0) {
    return kDeviceBase + static_cast<uint64_t>(rank) * kRankStride + 0x10000 + offset;
  }
  [[nodiscard]] ActorId warp(int rank, uint32_t block = 0, uint32_t number = 0) const {
    return firsts[static_cast<size_t>(rank)][block] + number;
  }

  // `lanes` lanes, each `bytes` wide, next to each other from `begin`. `line` is the instruction.
  void touch(ActorId actor, Access access, Address begin, uint32_t line, Order order = Order::kWeak,
             Scope scope = Scope::kSys, uint32_t lanes = 1, uint8_t bytes = 4,
             MemorySpace space = MemorySpace::kGlobal) {
    std::array<Address, 32> address{};
    for (uint32_t lane = 0; lane < 32; ++lane) address[lane] = begin + uint64_t{lane} * bytes;
    WarpAccess out;
    out.actor = actor;
    out.access = access;
    out.order = order;
    out.scope = scope;
    out.space = space;
    out.bytes = bytes;
    out.mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
    out.wrote = access == Access::kAtomic ? out.mask : 0;
    out.address = address.data();
    out.code = {kFunction, line};
    checker->access(out);
  }
  void load(ActorId actor, Address begin, uint32_t line, Order order = Order::kWeak,
            Scope scope = Scope::kSys) {
    touch(actor, Access::kLoad, begin, line, order, scope);
  }
  void store(ActorId actor, Address begin, uint32_t line, Order order = Order::kWeak,
             Scope scope = Scope::kSys) {
    touch(actor, Access::kStore, begin, line, order, scope);
  }
  void atomic(ActorId actor, Address begin, uint32_t line, Order order, Scope scope = Scope::kSys) {
    touch(actor, Access::kAtomic, begin, line, order, scope);
  }
  void sync_block(int rank, uint32_t block) {
    std::vector<ActorId> all;
    for (uint32_t number = 0; number < n_warps; ++number) all.push_back(warp(rank, block, number));
    checker->barrier(all.data(), n_warps, all.data(), n_warps);
  }
  void copy(ActorId actor, Access access, Address begin, uint64_t bytes, std::string_view what) {
    RangeAccess out;
    out.actor = actor;
    out.access = access;
    out.begin = begin;
    out.bytes = bytes;
    out.what = what;
    checker->range(out);
  }

  [[nodiscard]] size_t count(Finding::Kind kind) const {
    size_t n = 0;
    for (const Finding& finding : checker->findings()) n += finding.kind == kind ? 1 : 0;
    return n;
  }
  [[nodiscard]] size_t races() const { return count(Finding::Kind::kRace); }
  [[nodiscard]] size_t relaxed() const { return count(Finding::Kind::kRelaxedOrder); }

  std::unique_ptr<Observer> checker;
  uint32_t n_blocks, n_warps;
  std::vector<ActorId> hosts, streams;
  std::vector<GridId> grids;
  std::vector<std::vector<ActorId>> firsts;
};

}  // namespace sculler::emu
