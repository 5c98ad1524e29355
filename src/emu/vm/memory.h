// The emulated device memory of all ranks: one flat range of virtual addresses that the VM maps and
// dereferences directly; rank processes reserve the same range without access, so a host read of
// device memory faults and is named.
//
//   device(r) = kDeviceBase + r * kRankStride      cudaMalloc, ncclMemAlloc, module globals of rank
//   r host(r)   = kHostBase   + r * kRankStride      pinned, managed and mapped memory: a memfd
//   shared with rank r shared    = kSharedBase                        generic addresses of shared
//   memory, resolved per block local     = kLocalBase                         generic addresses of
//   local memory, resolved per thread
//
// kRankStride is a multiple of 4 GiB, as NCCL's `lsaFlatBase + rank * stride4G` needs. A rank's
// kNccl allocations lie in the upper half of its range, so that ranks which call ncclMemAlloc with
// the same sizes in the same order get the same offsets whatever else they allocate. The range is
// address space: a limit of its own says how much can be allocated. One Memory a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "emu/check/observer.h"

namespace sculler::emu {

inline constexpr Address kDeviceBase = 0x2000'0000'0000;  // clear of AddressSanitizer's shadow
inline constexpr Address kHostBase = 0x3000'0000'0000;
inline constexpr Address kRankStride = 0x10'0000'0000;  // 64 GiB
inline constexpr Address kSharedBase = 0x0300'0000'0000;
inline constexpr Address kSharedWindow = 0x4'0000;  // 256 KiB of generic addresses a resident block
inline constexpr uint32_t kSharedReserved = 1024;   // at the start of each window, never accessible
inline constexpr Address kLocalBase = 0x0400'0000'0000;
inline constexpr uint32_t kMaxRanks = 16;

struct Allocation {
  enum class Kind : uint8_t { kDevice, kNccl, kGlobal, kPinned, kManaged, kInternal, kGin };
  Kind kind = Kind::kDevice;
  int rank = 0;
  Address begin = 0;
  uint64_t bytes = 0;
  bool live = true;
  // Ranks other than the owner may touch it: set by window registration (kNccl) or IPC.
  bool peer_accessible = false;
  std::string name;      // "cudaMalloc #3", "set 2 buffer C", "window 1", "__device__ counter"
  bool watched = false;  // Engine::on_watched is asked before each access of a kernel
  // Where it is an array of 8-byte words that people know by number: "GIN signal 2 of context 0".
  // From `own` on the words are the library's, between `units` and `own` nobody's.
  std::string unit{};
  uint64_t units = 0, own = ~uint64_t{0};
};

class Memory {
 public:
  // Throws std::runtime_error where the address range cannot be mapped. `ranks_per_node`: windows
  // open memory to the ranks of the owner's node (consecutive ranks); 0: one node.
  Memory(int n_ranks, uint64_t bytes_per_rank, Observer* observer, int ranks_per_node = 0);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Poisoned with 0xa5 unless zeroed. 2 MiB aligned, as far from its neighbours as the larger one
  // is long (at most 1 GiB); 256-byte aligned (or `align`) where address space runs short.
  Result<Address> allocate(int rank, uint64_t bytes, Allocation::Kind kind, std::string name,
                           bool zeroed = false, uint64_t align = 256);
  Status release(int rank, Address address);
  [[nodiscard]] const Allocation* find(
      Address address) const;  // freed ones too, until reused; null outside all
  Allocation* find(Address address);
  // Null where [address, address + bytes) may be touched from `rank`; else what is wrong with it,
  // as a Finding.
  [[nodiscard]] const Finding* check(int rank, Address address, uint64_t bytes) const;
  // "set 2 buffer C of rank 1 + 4096"
  [[nodiscard]] std::string describe(Address address) const;
  // The memfd behind host(r), to be mapped at the same address by rank r; as long as the limit,
  // sealed against resizing. host_bytes(): address space that a rank's host(r) may take at most.
  [[nodiscard]] int host_fd(int rank) const;
  [[nodiscard]] uint64_t host_bytes() const { return bytes_; }
  [[nodiscard]] int n_ranks() const { return n_ranks_; }
  [[nodiscard]] bool same_node(int a, int b) const {
    return a / ranks_per_node_ == b / ranks_per_node_;
  }
  // Every allocation of a rank that is live, in order of address.
  [[nodiscard]] std::vector<const Allocation*> live(int rank) const;

  // The hot path of check(): the live allocation that holds all of [address, address + bytes) and
  // that `rank` may touch, else null.
  [[nodiscard]] const Allocation* reach(int rank, Address address, uint64_t bytes) const {
    const Allocation* a = at(address);
    if (a == nullptr || !a->live ||
        (a->rank != rank && (!a->peer_accessible || !same_node(a->rank, rank))))
      return nullptr;
    return address >= a->begin && bytes <= a->bytes && address - a->begin <= a->bytes - bytes
               ? a
               : nullptr;
  }

 private:
  struct Impl;
  static constexpr uint32_t kGranule = 256;
  [[nodiscard]] const Allocation* at(Address address) const {
    const bool host = address >= kHostBase;
    const Address offset = address - (host ? kHostBase : kDeviceBase);
    const uint64_t rank = offset / kRankStride, within = offset % kRankStride;
    if (address < kDeviceBase || rank >= uint64_t(n_ranks_) || within >= bytes_) return nullptr;
    const uint32_t id = granules_[host][rank][within / kGranule];
    return id == 0 ? nullptr : table_[id];
  }
  int n_ranks_ = 0, ranks_per_node_ = 1;
  uint64_t bytes_ = 0;                        // of address space
  uint32_t* granules_[2][kMaxRanks] = {};     // allocation id a granule, 0 = none
  const Allocation* const* table_ = nullptr;  // by id
  std::unique_ptr<Impl> impl_;
};

}  // namespace sculler::emu
