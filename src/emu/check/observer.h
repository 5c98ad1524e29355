// What the emulator tells its checkers. The VM and the device layer call an Observer for every
// access and every synchronisation; check/ implements it (happens-before races, uninitialised
// reads). No observer, no cost.
//
// An actor is whatever can be ordered against something else: a warp, a stream (copies, collectives
// and library calls run as their stream), a rank's host thread. Happens-before is PTX's: program
// order, barriers, release/acquire patterns through fences and atomics, and the edges that the
// device layer reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::emu {

using Address = uint64_t;
using ActorId = uint32_t;
using GridId = uint32_t;

// A place in code: resolved to file and line through CodeMap (vm/) when a finding is printed.
struct CodeRef {
  uint32_t function = 0;  // process-wide index of a decoded function; 0 = none; or kHostCode
  uint32_t instruction = 0;
};
// `instruction` is then the number of a call in a rank's host code (Machine::host_site).
inline constexpr uint32_t kHostCode = UINT32_MAX;
[[nodiscard]] constexpr CodeRef host_code(uint32_t site) {
  return site == 0 ? CodeRef{} : CodeRef{kHostCode, site};
}

enum class Access : uint8_t { kLoad, kStore, kAtomic };
enum class Order : uint8_t { kWeak, kVolatile, kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };
enum class Scope : uint8_t { kCta, kCluster, kGpu, kSys };
enum class MemorySpace : uint8_t { kGlobal, kShared };

// One warp instruction that touches memory.
struct WarpAccess {
  ActorId actor = 0;
  Access access = Access::kLoad;
  Order order = Order::kWeak;
  Scope scope = Scope::kSys;
  MemorySpace space = MemorySpace::kGlobal;
  uint8_t bytes = 4;                 // a lane, vector included: 1, 2, 4, 8, 16, 32
  uint32_t mask = 0;                 // active lanes
  const Address* address = nullptr;  // [32]; generic addresses, for kShared as well
  uint32_t wrote = 0;  // lanes whose atomic changed memory (a failed compare-and-swap did not)
  CodeRef code{};
};

// A contiguous range touched by a copy, a collective, a library call, a bulk copy or the host.
struct RangeAccess {
  ActorId actor = 0;
  Access access = Access::kLoad;
  Address begin = 0;
  uint64_t bytes = 0;
  CodeRef code{};
  std::string_view what{};  // "cudaMemcpyAsync", "ncclAllGather"; must outlive the run
  // Not kWeak for a word that synchronises: stream wait (kLoad, kAcquire) and stream write (kStore,
  // kRelease).
  Order order = Order::kWeak;
};

// What the asynchronous proxy does: bulk copies (TMA) and matrix multiplications (wgmma) run beside
// the warp that issues them, and end when something says so.
enum class AsyncKind : uint8_t {
  kNone,
  kTransaction,  // counted by an mbarrier
  kBulkRead,     // of a bulk group: what it reads, until wait_group.read
  kBulkWrite,    // of a bulk group: what it writes, until wait_group
  kMatrix,       // of a wgmma group
  kPut,          // of a network: a GIN put
};
struct AsyncAccess {
  ActorId actor = 0;  // the warp that issued it
  AsyncKind kind = AsyncKind::kTransaction;
  Access access = Access::kLoad;  // kAtomic: a reduction, or the mbarrier itself
  Address barrier = 0;            // kTransaction: generic address of the mbarrier
  Address begin = 0;              // generic
  uint64_t bytes = 0;
  CodeRef code{};
};

// One lane and one mbarrier.
enum class BarrierStep : uint8_t {
  kInit,
  kInvalidate,
  kArrive,         // release
  kArriveRelaxed,  // and a change of the transactions alone
  kPhase,          // the phase is complete: what arrived in it can be waited for
  kTest,           // was looked at, and its phase is not complete (or nothing is acquired)
  kWait,           // its phase is complete: acquire
};
struct BarrierAccess {
  ActorId actor = 0;
  BarrierStep step = BarrierStep::kInit;
  Address address = 0;  // generic
  CodeRef code{};
};

// A one-sided transfer of a network (GIN): an actor of its own that begins behind what the warp
// that asked for it had released to the system, and of which others learn only by what it tells.
// Puts of one queue (rank, context and peer) tell in order; their payloads are not ordered.
using PutId = uint32_t;
enum class PutWord : uint8_t {
  kConsumed,  // this put and those before it in its queue have read their sources: a plain store
  kCounter,   // this put has read its source: an addition
  kSignal,    // the payloads of this put and of those before it in its queue are there: an addition
};
struct PutTarget {  // where a put tells; 0: it does not
  Address signal = 0, counter = 0;
};

struct GridInfo {
  int rank = 0;
  std::string_view kernel;
  uint32_t blocks = 0;
  uint32_t warps_per_block = 0;
  ActorId stream = 0;  // the grid starts after all that this actor did
};

struct Finding {
  enum class Kind : uint8_t {
    kRace,
    kRelaxedOrder,
    kUninitialised,
    kBounds,
    kWrongRank,
    kUseAfterFree,
    kMisaligned,
    kMisuse
  };
  struct Side {
    int rank = -1;
    int64_t block = -1;  // linear
    int warp = -1;
    Access access = Access::kLoad;
    CodeRef code{};
    std::string what;  // where code is none
    AsyncKind async = AsyncKind::kNone;
  };
  Kind kind = Kind::kRace;
  Side now, before;  // `before` is unset (rank -1) where there is one side only
  Address address = 0;
  uint32_t bytes = 0;
  std::string place;   // "window 2 of rank 1, offset 4096", "shared memory of block 3, offset 128"
  uint64_t count = 1;  // folded repeats of the same pair of places
  std::string note{};  // what else is known: "a release between them reaches the block only ..."
  bool proxy = false;  // ordered, but for a proxy fence
  // Of a put's payload: the wait that was over before the put's signal came; of mixed actions on
  // a signal: the other action.
  CodeRef wait{};
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Actors.
  virtual ActorId add_host(int rank) = 0;
  virtual ActorId add_stream(int rank) = 0;
  virtual GridId begin_grid(const GridInfo& info) = 0;
  // A block became resident; its warps are actors first .. first + warps_per_block - 1.
  // shared_base/bytes: its window.
  virtual ActorId begin_block(GridId grid, uint32_t block, Address shared_base,
                              uint64_t shared_bytes) = 0;
  virtual void end_block(GridId grid, uint32_t block) = 0;
  virtual void end_grid(GridId grid) = 0;  // the stream then is after all that its warps did

  // The stream begins an operation, which has this number in the trace (device/trace.h) and was
  // asked for there. What the stream, and a grid that it starts now, touch is the operation's.
  virtual void operation(ActorId stream, uint32_t op, CodeRef site) {
    (void)stream, (void)op, (void)site;
  }

  // Accesses.
  virtual void access(const WarpAccess& access) = 0;
  virtual void range(const RangeAccess& access) = 0;

  // Order.
  virtual void fence(ActorId warp, Order order, Scope scope) = 0;
  // All `n` warps of one block arrived at a hardware barrier (arrive-only ones too); those that
  // waited go on.
  virtual void barrier(const ActorId* arrived, uint32_t n_arrived, const ActorId* waited,
                       uint32_t n_waited) = 0;
  // Everything `from` did until now happens before everything `to` does from now on (events, stream
  // waits, host synchronisation, launch, stream write/wait value).
  virtual void edge(ActorId from, ActorId to) = 0;

  // The asynchronous proxy, mbarriers and clusters.
  virtual void async(const AsyncAccess&) {}
  virtual void async_commit(ActorId, AsyncKind) {}  // kBulkWrite (stands for reads too), kMatrix
  // All but the last `pending` groups of the warp are done.
  virtual void async_wait(ActorId, AsyncKind, uint32_t /*pending*/) {}
  virtual void proxy_fence(ActorId, bool /*shared*/, bool /*global*/) {}
  virtual void mbarrier(const BarrierAccess&) {}
  // barrier.cluster: arrivals, the end of a phase, and those that waited for it.
  virtual void cluster_arrive(ActorId, uint32_t /*cluster*/, bool /*release*/) {}
  virtual void cluster_phase(uint32_t /*cluster*/) {}
  virtual void cluster_wait(ActorId, uint32_t /*cluster*/) {}
  virtual void cluster_end(uint32_t /*cluster*/) {}

  // Puts of a network. `queue` is a number of the caller's; 0 is no put.
  virtual PutId put_post(ActorId /*warp*/, uint32_t /*queue*/, CodeRef) { return 0; }
  virtual void put_begin(PutId, const PutTarget&) {}  // in the order of the queue
  virtual void put_access(PutId, Access /*kLoad: source*/, Address /*begin*/, uint64_t /*bytes*/) {}
  virtual void put_tell(PutId, PutWord, Address /*word*/) {}
  virtual void put_end(PutId) {}

  // Memory.
  virtual void allocated(int rank, Address begin, uint64_t bytes, bool zeroed) = 0;
  virtual void freed(Address begin, uint64_t bytes) = 0;
  virtual void finding(
      Finding finding) = 0;  // bounds and misuse, found by the VM or the device layer

  // Results so far. `sync_hash` digests the order of cross-rank synchronisation (acquire that read
  // a peer's release).
  [[nodiscard]] virtual const std::vector<Finding>& findings() const = 0;
  [[nodiscard]] virtual uint64_t sync_hash() const = 0;
};

}  // namespace sculler::emu
