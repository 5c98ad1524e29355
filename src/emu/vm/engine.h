// The PTX virtual machine: parses, decodes and runs the kernels of all ranks of a job in one
// address space, under one seeded schedule. It knows devices, memory, grids, blocks and warps;
// streams, events, collectives and libraries are the device layer's (server/), which launches a
// grid when its stream lets it start.
//
// Single-threaded and deterministic: same modules, calls and seed give the same order of every
// instruction.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "emu/check/observer.h"
#include "emu/vm/memory.h"

namespace sculler::emu {

// Of one device, from the hardware profile. Defaults: H200 (compute capability 9.0).
struct DeviceLimits {
  uint32_t sms = 132;
  uint32_t shared_per_sm = 233472;     // bytes
  uint32_t shared_per_block = 232448;  // largest with opt-in
  uint32_t shared_reserved = 1024;     // a resident block
  uint32_t registers_per_sm = 65536;
  uint32_t warps_per_sm = 64;
  uint32_t blocks_per_sm = 32;
  uint32_t threads_per_block = 1024;
  uint64_t memory_bytes = uint64_t{4} << 30;  // the emulated heap of a rank, not the card's
};

enum class ScheduleKind : uint8_t {
  kRoundRobin,
  kRandom,     // next warp drawn uniformly, quantum drawn
  kPriority,   // PCT: random priorities, changed at a few random points
  kDelayRank,  // one rank's warps run only when no other can
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::kRoundRobin;
  uint64_t seed = 1;
  int delayed_rank = 0;
};

struct EngineConfig {
  int n_ranks = 1;
  int ranks_per_node = 0;  // consecutive ranks share a node; 0: all of them
  DeviceLimits limits{};
  Schedule schedule{};
  Observer* observer =
      nullptr;              // null: no race and initialisation checks; bounds are always checked
  uint64_t step_limit = 0;  // warp instructions over the whole job, 0 = none: then TIMEOUT
  // Warp instructions without a change of memory after which a machine whose warps all poll counts
  // as stalled, where it cannot be proved at once.
  uint64_t quiet_limit = 10'000'000;
};

// A kernel's name as messages give it: templates make names of thousands of characters.
[[nodiscard]] inline std::string short_name(std::string_view kernel) {
  constexpr size_t kMost = 96;
  return kernel.size() <= kMost ? std::string(kernel)
                                : std::string(kernel.substr(0, kMost)) + "...";
}

using ModuleId = uint32_t;
using KernelId = uint32_t;  // one decoded entry function on one rank

struct KernelInfo {
  std::string name;  // mangled
  struct Param {
    uint32_t offset, bytes;
  };
  std::vector<Param> params;
  uint32_t param_bytes = 0;
  uint32_t registers =
      0;  // estimate a thread, ptxas' where the fat binary has a cubin, else declared and capped
  uint32_t static_shared = 0;
  uint32_t local_bytes = 0;
  uint32_t max_threads = 1024;
  std::array<uint32_t, 3> cluster{0, 0, 0};
};

inline constexpr uint32_t kMaxClusterBlocks = 16;  // more than 8 only where the kernel allows it

struct LaunchRequest {
  int rank = 0;
  KernelId kernel = 0;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::vector<uint8_t> params;  // info.param_bytes
  ActorId stream = 0;           // for the observer
};

// What a grid did, for virtual time and profiles. Bytes are summed over lanes.
struct GridCounters {
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  uint64_t tensor_flops = 0;                               // mma: 2 m n k
  uint64_t wgmma_flops = 0;                                // of them, by wgmma
  uint64_t fp_flops = 0;                                   // fma 2, add / mul 1, a lane
  uint64_t global_load_bytes = 0, global_store_bytes = 0;  // own rank's memory
  uint64_t peer_load_bytes = 0, peer_store_bytes = 0;      // other ranks' windows
  uint64_t peer_control_bytes = 0;  // what a warp's lanes all load from one address of a peer
  uint64_t shared_bytes = 0;
  uint64_t atomics = 0, barriers = 0, system_fences = 0;
  uint64_t global_transactions = 0;         // distinct 32-byte sectors a warp instruction, summed
  uint32_t blocks = 0, resident_limit = 0;  // blocks of this grid that fit at once
  uint32_t threads_per_block = 0;
};

// Why the machine stopped or a grid failed.
struct Fault {
  enum class Kind : uint8_t {
    kNone,
    kIllegalAddress,
    kMisaligned,
    kIllegalInstruction,
    kAssert,
    kTrap,
    kDeadlock,
    kStepLimit,
    kUnsupported,
    kLaunch,
  };
  Kind kind = Kind::kNone;
  int rank = -1;
  CodeRef code{};
  Address address = 0;
  std::string message;  // one sentence that says where and what to do
};

// One blocked or spinning warp, for deadlock reports.
struct WarpState {
  int rank;
  std::string_view kernel;
  uint32_t block;
  uint32_t warp;
  enum class Wait : uint8_t {
    kRunning,
    kBarrier,
    kSpin,
    kGridSync,
    kNotResident,
    kMbarrier,
    kCluster
  } wait;
  CodeRef code;
  Address address = 0;       // kSpin, kMbarrier: what it reads again and again
  uint64_t value = 0;        // kSpin: what it reads there; kMbarrier: the parity of the phase
  int32_t transactions = 0;  // kMbarrier: bytes of copies that are still to come
  uint32_t barrier = 0, arrived = 0,
           expected =
               0;      // kBarrier, kMbarrier, kCluster; kNotResident: blocks started, of the grid
  uint32_t lanes = 0;  // live lanes in this state
};

struct Location {
  std::string file;
  uint32_t line = 0;
  uint32_t ptx_line = 0;
  std::string function;
  std::string text;
  // Where in a library it is, in a library's kernel: "barrier.h:424"; else empty.
  std::string inner;
};

// A kernel touches memory that somebody watches (Allocation::watched): the lanes of one warp
// instruction, before it takes effect.
struct WatchedAccess {
  int rank = 0;
  ActorId actor = 0;
  CodeRef code{};
  Access access = Access::kLoad;
  uint32_t bytes = 0;  // a lane
  uint32_t mask = 0;
  const Address* address = nullptr;  // [32]
  const Allocation* allocation = nullptr;
};

class Engine {
 public:
  explicit Engine(const EngineConfig& config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] Memory& memory();
  [[nodiscard]] const EngineConfig& config() const;

  // Parses PTX (shared by content between ranks), lays out its globals in `rank`'s memory.
  Result<ModuleId> load(int rank, std::string ptx);
  void unload(ModuleId module);
  // Decodes on first use. ErrorCode::kUnsupported names every unknown opcode with source line.
  Result<KernelId> kernel(ModuleId module, std::string_view name);
  [[nodiscard]] const KernelInfo& info(KernelId kernel) const;
  // A .global or .const variable's address and size in this module's rank.
  Result<std::pair<Address, uint64_t>> global(ModuleId module, std::string_view name) const;
  [[nodiscard]] uint32_t max_active_blocks_per_sm(KernelId kernel, uint32_t threads,
                                                  uint32_t dynamic_shared) const;

  // Puts a grid into the machine; its blocks become resident as limits allow. An Error is the
  // launch error CUDA gives (too many threads, shared memory, cooperative grid too large); `key`
  // then holds the cudaError name.
  Result<GridId> launch(const LaunchRequest& request);

  enum class Stop : uint8_t {
    kBudget,    // ran out of budget, more to do
    kGridDone,  // at least one grid finished: see finished()
    kIdle,      // no grid is in the machine
    kStalled,   // every live warp waits for something that no grid in the machine will do: the
                // device layer decides whether a copy, a stream write or another launch can still
                // help, else it is a deadlock
    kFault,     // see fault(): the rank's context is broken, as on hardware
  };
  // Runs at most `budget` warp instructions. Call again after memory was written from outside.
  Stop run(uint64_t budget);
  std::vector<GridId> take_finished();
  [[nodiscard]] const Fault& fault() const;
  void kill_rank(int rank);  // drops all its grids
  [[nodiscard]] const GridCounters& counters(GridId grid) const;
  [[nodiscard]] uint64_t instructions() const;  // over the whole job

  [[nodiscard]] std::vector<WarpState> warps() const;
  [[nodiscard]] Location locate(CodeRef code) const;
  // vprintf output of kernels, a line a callback.
  std::function<void(int rank, std::string_view text)> on_print;
  // What is wrong with an access to watched memory, empty where nothing is: a fault of the kernel.
  std::function<std::string(const WatchedAccess&)> on_watched;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sculler::emu
