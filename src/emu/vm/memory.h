// The emulated device memory of all ranks: one flat range of virtual addresses that the VM maps and dereferences
// directly; rank processes reserve the same range without access, so a host read of device memory faults and is named.
//
//   device(r) = kDeviceBase + r * kRankStride      cudaMalloc, ncclMemAlloc, module globals of rank r
//   host(r)   = kHostBase   + r * kRankStride      pinned, managed and mapped memory: a memfd shared with rank r
//   shared    = kSharedBase                        generic addresses of shared memory, resolved per block
//   local     = kLocalBase                         generic addresses of local memory, resolved per thread
//
// kRankStride is a multiple of 4 GiB, as NCCL's `lsaFlatBase + rank * stride4G` needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "emu/check/observer.h"

namespace sculler::emu {

inline constexpr Address kDeviceBase = 0x1000'0000'0000;
inline constexpr Address kHostBase = 0x2000'0000'0000;
inline constexpr Address kRankStride = 0x10'0000'0000;  // 64 GiB
inline constexpr Address kSharedBase = 0x0300'0000'0000;
inline constexpr Address kLocalBase = 0x0400'0000'0000;
inline constexpr uint32_t kMaxRanks = 16;

struct Allocation {
  enum class Kind : uint8_t { kDevice, kNccl, kGlobal, kPinned, kManaged, kInternal };
  Kind kind = Kind::kDevice;
  int rank = 0;
  Address begin = 0;
  uint64_t bytes = 0;
  bool live = true;
  // Ranks other than the owner may touch it: set by window registration (kNccl) or IPC.
  bool peer_accessible = false;
  std::string name;   // "cudaMalloc #3", "set 2 buffer C", "window 1", "__device__ counter"
};

class Memory {
 public:
  Memory(int n_ranks, uint64_t bytes_per_rank, Observer* observer);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // 256-byte aligned (or `align`), a red zone behind each; fresh memory is poisoned with 0xa5 unless zeroed.
  Result<Address> allocate(int rank, uint64_t bytes, Allocation::Kind kind, std::string name, bool zeroed = false,
                           uint64_t align = 256);
  Status release(int rank, Address address);
  [[nodiscard]] const Allocation* find(Address address) const;  // freed ones too, until reused; null outside all
  Allocation* find(Address address);
  // Null where [address, address + bytes) may be touched from `rank`; else what is wrong with it, as a Finding.
  [[nodiscard]] const Finding* check(int rank, Address address, uint64_t bytes) const;
  // "set 2 buffer C of rank 1 + 4096"
  [[nodiscard]] std::string describe(Address address) const;
  // The memfd behind host(r), to be mapped at the same address by rank r.
  [[nodiscard]] int host_fd(int rank) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sculler::emu
