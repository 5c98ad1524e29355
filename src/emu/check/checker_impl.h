// The parts of the checker: actors.cpp (grids, blocks, barriers, edges), order.cpp (acquire,
// release, fences), accesses.cpp (shadow memory), findings.cpp (what is reported).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emu/check/checker.h"
#include "emu/check/clock.h"
#include "emu/check/records.h"
#include "emu/check/shadow.h"
#include "emu/check/sync.h"

namespace sculler::emu::check {

inline constexpr uint32_t kWarpBits = 5;
inline constexpr uint32_t kMaxWarps = 1u << kWarpBits;
inline constexpr uint8_t kLevels = 3;  // block, device, system

// Which blocks form a cluster is not told; a cluster lies on one device.
[[nodiscard]] constexpr uint8_t level_of(Scope scope) {
  return scope == Scope::kCta ? 0 : scope == Scope::kSys ? 2 : 1;
}

// One actor: a warp, a stream or a host thread.
struct Actor {
  ActorId id = 0;
  uint32_t slot = 0, warp = 0;
  int rank = 0;
  uint32_t count = 1;
  uint32_t base = 0;                    // every warp of the own block is known up to here
  ClockRef known;                       // happens-before
  ClockRef loose;                       // the same where relaxed accesses synchronise too
  std::array<Snapshot, kLevels> fence;  // at the last fence of this scope, or of a wider one
  std::array<ClockRef, kLevels>
      pending;  // read relaxed from as far away as this; learnt at a fence that reaches there
  uint64_t pended_var = 0;  // last one read relaxed, + 1
  uint32_t pended_version = 0;
  bool pended_missed = false;
  struct Memo {
    uint32_t code = 0, count = 0, kind = 0;
    RecordId record = 0;
  };
  std::array<Memo, 16> memo{};
  std::array<uint32_t, 32> ordered{};         // records and sets known to have happened before
  uint32_t generation = 0;                    // of the records that memo and ordered speak of
  uint32_t bulk_group = 1, matrix_group = 1;  // that are being filled
};

struct Grid {
  GridInfo info;
  std::string kernel;
  ClockRef start, start_loose, end, end_loose;
  uint32_t stream_slot = 0;
  uint32_t ended_at = 0;  // the stream's count from which on it is known; 0 = it runs
};

// A release that was read and did not count, because its scope does not reach the reader.
struct ScopeMiss {
  int rank = -1;
  uint32_t slot = 0;
  uint8_t needed = 0, had = 0;
};

// What is published phase by phase: an mbarrier, the barrier of a cluster.
struct PhasePoint {
  Snapshot pending;    // of this phase
  ClockRef completed;  // of all phases before
  uint32_t count = 1;  // phase
  Record init;         // of the mbarrier, until a copy has been seen to be behind it
  // Bulk copies that it counts, as actors of their own: {slot of the issuing block, theirs}.
  std::vector<std::pair<uint32_t, uint32_t>> copies;
};

struct Block {
  uint32_t slot = 0;
  std::vector<Actor> actors;
  Address shared_base = 0;
  uint64_t shared_bytes = 0;
  SharedShadow shared;
  std::vector<uint64_t> sync_keys;
  std::vector<Address> barriers;          // mbarriers in its shared memory
  std::array<uint32_t, 3> async_slots{};  // kBulkRead, kBulkWrite, kMatrix
  ScopeMiss miss;
};

// What remains of an actor's block when it is gone.
struct Slot {
  GridId grid = 0;  // 0: a stream or a host
  uint32_t block = 0;
  int rank = 0;
  bool is_host = false;
  Block* live = nullptr;
  AsyncKind async = AsyncKind::kNone;  // what this slot's warps have under way
  bool is_fence = false;               // counts what is fenced of another slot's writes
  // Slots that say up to which count its warps' writes are fenced for the asynchronous proxy:
  // shared memory, global memory.
  std::array<uint32_t, 2> fenced{};
};

struct Known {
  uint32_t slot = 0, warp = 0, count = 0;
};

// A put's queue: the reads of its puts are one actor (warp 0 of `slot`), their writes another (warp
// 1), both counted by the put's number in the queue. Reads of puts that count in a counter are
// beside, since a counter tells of its own puts only.
struct PutQueue {
  uint32_t slot = 0, view = 0;  // `view`: the puts themselves, as who looks
  uint32_t puts = 0;
  struct Counted {
    Address counter = 0;
    uint32_t slot = 0, count = 0;
  };
  std::vector<Counted> counters;
  struct Mark {  // of each put, for reports
    Address signal = 0;
    uint32_t nth = 0;  // of the signal's additions; 0: has not come
  };
  std::vector<Mark> marks;
};

struct Put {
  Actor view;
  uint32_t queue = 0, number = 0;
  uint32_t code = 0;
  ActorId poster = 0;
  uint32_t posted = 0;  // the poster's count
  PutTarget target;
  uint32_t read_slot = 0, read_count = 0;
  std::vector<ClockEntry> reads;  // of counted puts up to this one
};

// A word that puts add to: who looked at it last, and what it had by then.
struct SignalWatch {
  uint32_t additions = 0, seen = 0;
  CodeRef wait{};
  bool looked = false;
};

class Checker final : public Observer, public WriteHistory {
 public:
  explicit Checker(CheckerConfig config);

  ActorId add_host(int rank) override { return add_single(rank, true); }
  ActorId add_stream(int rank) override { return add_single(rank, false); }
  GridId begin_grid(const GridInfo& info) override;
  ActorId begin_block(GridId grid, uint32_t block, Address shared_base,
                      uint64_t shared_bytes) override;
  void end_block(GridId grid, uint32_t block) override;
  void end_grid(GridId grid) override;
  void access(const WarpAccess& access) override;
  void range(const RangeAccess& access) override;
  void fence(ActorId warp, Order order, Scope scope) override;
  void barrier(const ActorId* arrived, uint32_t n_arrived, const ActorId* waited,
               uint32_t n_waited) override;
  void edge(ActorId from, ActorId to) override;
  void async(const AsyncAccess& access) override;
  void async_commit(ActorId warp, AsyncKind kind) override;
  void async_wait(ActorId warp, AsyncKind kind, uint32_t pending) override;
  void proxy_fence(ActorId warp, bool shared, bool global) override;
  void mbarrier(const BarrierAccess& access) override;
  void cluster_arrive(ActorId warp, uint32_t cluster, bool release) override;
  void cluster_phase(uint32_t cluster) override;
  void cluster_wait(ActorId warp, uint32_t cluster) override;
  void cluster_end(uint32_t cluster) override { clusters_.erase(cluster); }
  PutId put_post(ActorId warp, uint32_t queue, CodeRef code) override;
  void put_begin(PutId put, const PutTarget& target) override;
  void put_access(PutId put, Access access, Address begin, uint64_t bytes) override;
  void put_tell(PutId put, PutWord what, Address word) override;
  void put_end(PutId put) override { puts_.erase(put); }
  void allocated(int rank, Address begin, uint64_t bytes, bool zeroed) override;
  void freed(Address begin, uint64_t bytes) override;
  void finding(Finding finding) override;
  bool last_writer(Address address, Finding::Side* writer) const override;
  [[nodiscard]] const std::vector<Finding>& findings() const override { return findings_; }
  [[nodiscard]] uint64_t sync_hash() const override { return sync_hash_; }

 private:
  friend struct LoadOp;
  friend struct StoreOp;
  template <bool kReads, bool kWrites>
  friend class Toucher;
  struct Memory {
    int rank;
    uint32_t ordinal;
    uint64_t bytes;
  };
  struct Place {  // of the bytes being checked, for reports
    MemorySpace space = MemorySpace::kGlobal;
    Address granule = 0;           // address, or offset in the block's shared memory
    const Block* block = nullptr;  // whose shared memory
  };

  // actors.cpp
  ActorId add_single(int rank, bool is_host);
  uint32_t new_slot(const Slot& slot);
  Actor* find_actor(ActorId id);
  [[nodiscard]] Block* block_at(Address shared);
  void refresh(Actor& actor);
  void prune(ClockRef& clock, uint32_t own_slot);
  void level_block(Block& block, uint32_t n);
  void collect_if_due();

  // order.cpp
  [[nodiscard]] bool knows(const Actor& actor, const ClockRef& clock, const Known& what) const;
  [[nodiscard]] bool knows(const Actor& actor, const Snapshot& snapshot) const;
  [[nodiscard]] Snapshot snapshot(const Actor& actor, const ClockRef& clock) const;
  ClockRef joined(const ClockRef& clock, const Snapshot& snapshot);
  bool learn(Actor& actor, const Snapshot& snapshot);
  void learn_loose(Actor& actor, const Snapshot& snapshot);
  void merge(Snapshot& into, const Snapshot& more);
  static uint8_t distance(const Actor& actor, const Release& release);
  struct Strong {  // a lane's atomic access
    MemorySpace space;
    Address address;
    uint32_t bytes;
    bool is_rmw;
    bool acquires, releases;
    uint8_t level;
    bool few;  // lanes: such an access may be meant to synchronise, a scattered one is not followed
               // loosely
  };
  void strong_read(Actor& actor, const Strong& access);
  void strong_write(Actor& actor, const Strong& access);
  void read_sync(Actor& actor, SyncVar& var, const Strong& access);
  void publish(SyncVar& var, const Actor& actor, const Snapshot& what, uint8_t level);
  [[nodiscard]] static uint64_t sync_key(MemorySpace space, Address address);
  void note_order(const Actor& actor, const SyncVar& var, const Release& release);

  // accesses.cpp
  RecordId record(Actor& actor, uint32_t code, Access access, bool atomic, uint8_t level);
  [[nodiscard]] bool happened_before(Actor& actor, RecordId id);
  void check_write(Actor& actor, uint32_t write, RecordId now, uint32_t offset, uint32_t bytes);
  void check_reads(Actor& actor, ReadersId reads, RecordId now, uint32_t offset, uint32_t bytes);
  [[nodiscard]] bool both_atomic(const Record& a, const Record& b) const;
  ReadersId add_reader(Actor& actor, ReadersId readers, RecordId now);
  // Global memory, looked at with what `actor` knows, under a record that need not be its own.
  void touch(Actor& actor, RecordId now, bool writes, Address begin, uint64_t bytes);

  // async.cpp
  PhasePoint& point_at(Address barrier);
  uint32_t slot_beside(uint32_t slot, AsyncKind kind);
  uint32_t async_slot(const Actor& warp, AsyncKind kind);
  void know(Actor& actor, std::span<const ClockEntry> more);
  void arrive(PhasePoint& point, Actor& actor, bool release);
  void complete(PhasePoint& point);
  [[nodiscard]] bool async_before(const Actor& warp, const Record& record);

  // put.cpp
  void note_wait(const WarpAccess& access);
  void explain_put(Finding& finding, const Record& put, bool is_now) const;

  // findings.cpp
  void race(Actor& actor, RecordId now, RecordId before, uint32_t offset, uint32_t bytes);
  void uninitialised(Actor& actor, RecordId now, uint32_t offset, uint32_t bytes);
  Finding::Side side(ActorId id, const Record& record) const;
  [[nodiscard]] std::string describe(uint32_t offset) const;
  void fold(Finding finding, uint64_t key);

  CheckerConfig config_;
  ClockPool pool_;
  Records records_;
  Quads quads_;
  GlobalShadow global_;
  SyncTable sync_;
  CodeTable codes_;
  std::vector<Slot> slots_;
  std::vector<Grid> grids_;
  std::vector<std::unique_ptr<Block>> blocks_;  // storage, free ones in spare_
  std::vector<Block*> spare_;
  std::vector<Block*> windows_;  // by window of shared memory
  std::unordered_map<Address, PhasePoint> points_;
  std::unordered_map<uint32_t, PhasePoint> clusters_;
  bool async_ = false;     // the access that is checked is one of the asynchronous proxy
  bool unfenced_ = false;  // the last one that did not happen before lacks but a proxy fence
  struct LastAsync {
    ActorId actor = 0;
    uint32_t count = 0, code = 0, generation = 0;
    Access access = Access::kLoad;
    RecordId record = 0;
  };
  std::array<LastAsync, 4> last_async_{};
  std::unordered_map<PutId, Put> puts_;
  std::unordered_map<uint32_t, PutQueue> put_queues_;  // by the caller's number
  std::unordered_map<uint32_t, uint32_t> put_slots_;   // slot -> the caller's number
  std::unordered_map<Address, SignalWatch> signals_;
  PutId next_put_ = 1;
  const Put* reading_ = nullptr;  // the put whose source is looked at
  std::map<Address, Memory> allocations_;
  std::vector<uint32_t> ordinals_;  // allocations so far a rank
  uint32_t generation_ = 1;
  Place place_;
  std::vector<ClockEntry> entries_;  // scratch
  std::vector<Finding> findings_;
  std::unordered_map<uint64_t, size_t> folded_;
  uint64_t sync_hash_ = 0xcbf29ce484222325u;
};

}  // namespace sculler::emu::check
