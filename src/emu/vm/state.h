// What runs: grids, resident blocks, warps and their divergent groups.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "emu/check/observer.h"
#include "emu/vm/engine.h"
#include "emu/vm/memory.h"
#include "emu/vm/program.h"

namespace sculler::emu::vm {

inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kNoReconvergence = ~0u;
inline constexpr uint32_t kBarriers = 16;
inline constexpr uint32_t kLocalUnit =
    16;  // local memory is interleaved over lanes in units of 16 bytes
inline constexpr uint32_t kMaxLocal = 512u << 10;  // bytes a lane
inline constexpr uint32_t kMaxDepth = 1u << 14;

// Bytes on cache-line boundaries.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT: conversion is what allocators need
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{64}); }
  template <class U>
  bool operator==(const LineAllocator<U>&) const {
    return true;
  }
};
using Bytes = std::vector<uint8_t, LineAllocator<uint8_t>>;

struct Kernel;
struct Grid;
struct Block;

// A call frame; interned, so that groups with equal histories share it and can meet again.
struct Frame {
  uint32_t parent = 0, function = 0, return_pc = 0, depth = 0;
  uint32_t call = 0;
  uint32_t at32 = 0, at64 = 0, preds = 0, local = 0;  // where it starts in each bank
};

enum class GroupState : uint8_t { kRunnable, kBarrier, kWarpSync, kCluster };

// Lanes that share a pc and a call history.
struct Group {
  uint32_t pc = 0, mask = 0, frame = 0;
  GroupState state = GroupState::kRunnable;
  uint32_t barrier = 0;  // kBarrier: id
  uint32_t members = 0;  // kWarpSync: lanes that have to come
};

// Copies that have been issued (cp.async) and are not yet visible.
struct AsyncCopy {
  uint32_t mask = 0, group = 0, bytes = 0, pc = 0;
  CodeRef code{};
  Address to[kWarpSize];
  uint8_t data[kWarpSize][16];
};

// Finds warps that only re-read the same values: see poll.cpp.
struct Spin {
  uint32_t pc = ~0u, mask = 0, bytes = 0;
  uint64_t repeats = 0, next_try = 4;
  bool armed = false;  // address, pointer and data are those of the last visit
  uint64_t state = 0;  // digest of registers and groups, 0 = not taken
  uint64_t epoch = 0, interactions = 0, loads = 0, time = 0;
  Address address[kWarpSize];
  const uint8_t* block = nullptr;  // where all lanes read side by side
  const uint8_t* pointer[kWarpSize];
  uint8_t data[kWarpSize * 16];  // lane i at i * bytes
};

struct Warp {
  // Hot.
  uint8_t* base[4] = {};      // banks at the current frame
  uint32_t* preds = nullptr;  // at the current frame
  uint32_t pc = 0, mask = 0;  // current group
  uint32_t exec = 0;          // lanes that execute this op
  uint32_t write =
      0;  // exec and the lanes that do not exist any more: what registers may be written for
  uint32_t dead = 0;  // exited or never there
  uint32_t reconvergence = kNoReconvergence;
  const Ref* refs = nullptr;
  const uint8_t* params = nullptr;  // of the grid
  Memory* memory = nullptr;
  int rank = 0;
  uint32_t frame = 0;
  uint32_t local_base = 0;    // of the current frame
  uint8_t* shared = nullptr;  // window start: offset 0 is reserved
  uint32_t shared_end = 0;    // first offset behind
  Address shared_window = 0;  // generic address of the window
  uint8_t* local = nullptr;
  uint32_t local_end = 0;  // bytes a lane
  Observer* observer = nullptr;
  GridCounters* counters = nullptr;
  struct Machine* machine = nullptr;
  uint32_t carry = 0;  // CC.CF, a lane a bit
  ActorId actor = 0;

  // Result of the op that stopped the group.
  Group wait{};
  uint32_t lane_target[kWarpSize];

  // Cold.
  Block* block = nullptr;
  Grid* grid = nullptr;
  const Program* program = nullptr;
  uint32_t index = 0;    // in the block
  uint32_t current = 0;  // group
  uint32_t n_groups = 0;
  Group groups[kWarpSize];
  bool rotate = false;  // run the next runnable group, not the one with the least pc
  uint32_t stale_slices = 0;
  std::vector<Frame> frames;
  Bytes bank32, bank64, specials, local_storage;
  std::vector<uint32_t> pred_storage;
  std::vector<AsyncCopy> copies;  // a ring; the size is a power of two
  size_t copies_begin = 0, copies_end = 0;
  uint32_t committed[kWarpSize] = {};
  // barrier.cluster: lanes that have arrived and not waited, and the phase in which, modulo 2.
  uint32_t cluster_arrived = 0, cluster_parity = 0;
  uint64_t interactions = 0, loads = 0;
  Spin spin;
  bool spinning =
      false;          // set by note_poll: the value is the one of the last visit, let others run
  bool park = false;  // proven: nothing but a change of memory can make a difference
  bool watch_only = false;  // the change has to be in what it reads
  bool soft = false;        // not proven, but not worth running before something happens
  uint64_t soft_until = 0;  // slices of the machine
  bool queued = false, running = false, done = false;
  uint64_t priority = 0;
  uint64_t last_poll = 0,
           last_clock = 0;  // when it polled, read a clock: the machine's instructions
};

struct BarrierState {
  uint32_t arrived = 0;                           // threads
  uint32_t expected = 0;                          // 0: all live ones
  uint32_t warps_arrived = 0, warps_waiting = 0;  // by index, 32 warps at most
  uint32_t true_count = 0, seen = 0;              // bar.red
};

// Blocks that are resident together and see each other's shared memory.
struct Cluster {
  uint32_t id = 0, size = 1;
  std::array<Block*, kMaxClusterBlocks> blocks{};  // by rank in the cluster; null: it has exited
  uint32_t arrived = 0, phase = 0;                 // barrier.cluster: threads
  [[nodiscard]] uint32_t live_threads() const;
};

struct Block {
  Grid* grid = nullptr;
  std::shared_ptr<Cluster> cluster;
  uint32_t cluster_rank = 0;
  uint32_t linear = 0;
  uint32_t id[3] = {0, 0, 0};
  uint32_t sm = 0;
  uint32_t window = 0;  // slot of generic shared addresses
  uint32_t live_threads = 0, live_warps = 0;
  uint64_t last_poll = 0;  // when one of its warps polled: the machine's instructions
  Bytes shared;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<BarrierState, kBarriers> barriers;
};

inline uint32_t Cluster::live_threads() const {
  uint32_t n = 0;
  for (uint32_t k = 0; k < size; ++k) n += blocks[k] != nullptr ? blocks[k]->live_threads : 0;
  return n;
}

// A decoded entry bound to one rank.
struct Kernel {
  KernelInfo info;
  ModuleId module = 0;
  int rank = 0;
  std::shared_ptr<const Program> program;
  Bytes constants;  // the bank, symbols resolved
};

struct Grid {
  GridId id = 0;  // the observer's where there is one
  LaunchRequest request;
  const Kernel* kernel = nullptr;
  uint32_t n_blocks = 0, threads = 0, warps_per_block = 0;
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint32_t cluster_blocks = 1;
  bool explicit_cluster = false;    // given by the launch or the kernel
  uint32_t next = 0, finished = 0;  // blocks
  std::vector<uint32_t> order;      // of admission, by cluster; empty = 0, 1, 2 ...
  // Index in the grid of the n-th block to start.
  [[nodiscard]] uint32_t block_at(uint32_t n) const;
  std::vector<std::unique_ptr<Block>> resident;
  Address workspace = 0;  // of a cooperative grid
  GridCounters counters;
  uint64_t shared_bytes = 0;  // a block, static and dynamic
  uint32_t block_registers = 0, block_shared = 0;
  bool done = false;
};

// What handlers need of the machine as a whole.
struct Machine {
  EngineConfig config;
  Memory* memory = nullptr;
  uint64_t epoch = 1;  // counts changes of memory
  uint64_t instructions = 0;
  uint64_t clock_bonus = 0;  // virtual time that passed while all were waiting
  Fault fault{};
  std::function<void(int, std::string_view)>* on_print = nullptr;
  std::function<std::string(const WatchedAccess&)>* on_watched = nullptr;
  Bytes scratch;  // of one bulk copy
};

}  // namespace sculler::emu::vm
