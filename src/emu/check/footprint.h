// What each operation of a job read and wrote, to the byte, and which of its blocks did so when: an
// observer in front of another one. `sculler analyze` makes the flow of data out of it; no other
// run pays for it.
#pragma once

#include <array>
#include <bitset>
#include <map>
#include <unordered_map>
#include <vector>

#include "emu/check/observer.h"

namespace sculler::emu {

class Footprint final : public Observer {
 public:
  static constexpr uint64_t kPageBytes = 4096, kGrainBytes = 256;
  static constexpr size_t kGrains = kPageBytes / kGrainBytes;
  static constexpr size_t kMostPages = size_t{1} << 16;  // over all operations: 256 MiB of ranges

  // When a kernel touched a grain. A step is a global access of the block that touches: it counts
  // its own.
  struct Grain {
    uint32_t first_block = UINT32_MAX, last_block = 0;  // UINT32_MAX: no kernel touched it
    uint32_t first_step = UINT32_MAX, last_step = 0;
    CodeRef code{};  // of the first touch
  };
  struct Side {
    std::bitset<kPageBytes> bytes;
    std::array<Grain, kGrains> grains;
  };
  struct Page {
    Side read, written;
  };
  struct Operation {
    uint32_t started = 0;            // place in the order in which operations began
    uint32_t steps = 0;              // of the block that made the most
    CodeRef site{};                  // of the call in host code
    std::map<uint64_t, Page> pages;  // by address / kPageBytes
  };

  // `inner` outlives this and gives the actors.
  explicit Footprint(Observer& inner) : inner_(inner) {}

  // By their number in the trace.
  [[nodiscard]] const std::map<uint32_t, Operation>& operations() const { return operations_; }
  [[nodiscard]] bool truncated() const { return n_pages_ >= kMostPages; }
  void clear();  // between two operations: what runs would lose what it did so far

  void operation(ActorId stream, uint32_t op, CodeRef site) override;
  ActorId add_host(int rank) override { return inner_.add_host(rank); }
  ActorId add_stream(int rank) override { return inner_.add_stream(rank); }
  GridId begin_grid(const GridInfo& info) override;
  ActorId begin_block(GridId grid, uint32_t block, Address shared_base,
                      uint64_t shared_bytes) override;
  void end_block(GridId grid, uint32_t block) override;
  void end_grid(GridId grid) override;
  void access(const WarpAccess& access) override;
  void range(const RangeAccess& access) override;
  void fence(ActorId warp, Order order, Scope scope) override { inner_.fence(warp, order, scope); }
  void barrier(const ActorId* arrived, uint32_t n_arrived, const ActorId* waited,
               uint32_t n_waited) override {
    inner_.barrier(arrived, n_arrived, waited, n_waited);
  }
  void edge(ActorId from, ActorId to) override { inner_.edge(from, to); }
  void async(const AsyncAccess& access) override;
  void async_commit(ActorId warp, AsyncKind kind) override { inner_.async_commit(warp, kind); }
  void async_wait(ActorId warp, AsyncKind kind, uint32_t pending) override {
    inner_.async_wait(warp, kind, pending);
  }
  void proxy_fence(ActorId warp, bool shared, bool global) override {
    inner_.proxy_fence(warp, shared, global);
  }
  void mbarrier(const BarrierAccess& access) override { inner_.mbarrier(access); }
  void cluster_arrive(ActorId warp, uint32_t cluster, bool release) override {
    inner_.cluster_arrive(warp, cluster, release);
  }
  void cluster_phase(uint32_t cluster) override { inner_.cluster_phase(cluster); }
  void cluster_wait(ActorId warp, uint32_t cluster) override { inner_.cluster_wait(warp, cluster); }
  // Puts are a device's own communication: checked, but no part of what a host program's operations
  // read and write.
  PutId put_post(ActorId warp, uint32_t queue, CodeRef code) override {
    return inner_.put_post(warp, queue, code);
  }
  void put_begin(PutId put, const PutTarget& target) override { inner_.put_begin(put, target); }
  void put_access(PutId put, Access access, Address begin, uint64_t bytes) override {
    inner_.put_access(put, access, begin, bytes);
  }
  void put_tell(PutId put, PutWord what, Address word) override {
    inner_.put_tell(put, what, word);
  }
  void put_end(PutId put) override { inner_.put_end(put); }
  void cluster_end(uint32_t cluster) override { inner_.cluster_end(cluster); }
  void allocated(int rank, Address begin, uint64_t bytes, bool zeroed) override {
    inner_.allocated(rank, begin, bytes, zeroed);
  }
  void freed(Address begin, uint64_t bytes) override { inner_.freed(begin, bytes); }
  void finding(Finding finding) override { inner_.finding(std::move(finding)); }
  [[nodiscard]] const std::vector<Finding>& findings() const override { return inner_.findings(); }
  [[nodiscard]] uint64_t sync_hash() const override { return inner_.sync_hash(); }

 private:
  struct Block {
    GridId grid = 0;
    uint32_t linear = 0, warps = 0, steps = 0;
    uint32_t op = 0;
  };
  struct Grid {
    uint32_t op = 0, warps_per_block = 0;
  };
  // The resident block whose warp this is; null for all others.
  Block* block_of(ActorId warp);
  void touch(Operation& op, Access access, Address begin, uint64_t bytes, CodeRef code,
             const Block* block);

  Observer& inner_;
  std::map<uint32_t, Operation> operations_;
  std::unordered_map<ActorId, uint32_t> of_stream_;  // the operation that runs there
  std::unordered_map<GridId, Grid> grids_;
  std::map<ActorId, Block> blocks_;  // by their first warp
  std::map<std::pair<GridId, uint32_t>, ActorId> first_warp_;
  size_t n_pages_ = 0;
  uint32_t n_started_ = 0;
};

}  // namespace sculler::emu
