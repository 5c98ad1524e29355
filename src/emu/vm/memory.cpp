#include "emu/vm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>

namespace sculler::emu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kRedZone = 256;             // at least, behind each allocation
constexpr uint64_t kWide = uint64_t{2} << 20;  // alignment where there is room
constexpr uint64_t kMaxGuard = uint64_t{1} << 30;
constexpr uint64_t kHuge = uint64_t{1} << 20;  // from here on an allocation gets large pages
constexpr uint8_t kPoison = 0xa5;

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// The free ranges of one arena. Freed memory is reused last, so that a late access is still named.
class Arena {
 public:
  void reset(Address begin, Address end) {
    begin_ = used_ = bump_ = begin;
    end_ = end;
  }
  // `guard`: bytes to keep clear on both sides.
  Address take(uint64_t bytes, uint64_t align, uint64_t guard) {
    const Address wide = round_up(std::max(bump_, used_ + guard), std::max(align, kWide));
    if (wide >= bump_ && bytes + guard <= end_ && wide <= end_ - bytes - guard &&
        wide - begin_ < (end_ - begin_) / 4 * 3) {
      used_ = wide + bytes;
      bump_ = used_ + guard;
      return wide;
    }
    const Address at = round_up(bump_, align);
    if (at >= bump_ && bytes <= end_ && at <= end_ - bytes) {
      used_ = bump_ = at + bytes;
      return at;
    }
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const Address begin = it->first, size = it->second, aligned = round_up(begin, align);
      if (aligned - begin > size || bytes > size - (aligned - begin)) continue;
      free_.erase(it);
      if (aligned > begin) free_[begin] = aligned - begin;
      if (aligned + bytes < begin + size) free_[aligned + bytes] = begin + size - aligned - bytes;
      return aligned;
    }
    return 0;
  }
  void give(Address begin, uint64_t bytes) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return;
      }
    }
    free_[begin] = bytes;
  }

 private:
  // Up to used_ memory was handed out, up to bump_ it or its guard reaches.
  Address begin_ = 0, used_ = 0, bump_ = 0, end_ = 0;
  std::map<Address, uint64_t> free_;
};

void* map_fixed(Address address, uint64_t bytes, int fd) {
  const int flags =
      MAP_FIXED_NOREPLACE | MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  void* wanted = reinterpret_cast<void*>(address);  // NOLINT: the address is the contract
  void* got = mmap(wanted, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (got != MAP_FAILED && got != wanted) {
    munmap(got, bytes);
    got = MAP_FAILED;
    errno = EEXIST;
  }
  if (got == MAP_FAILED)
    throw std::runtime_error(std::string("cannot map the emulated memory: ") +
                             std::strerror(errno));
  return got;
}

}  // namespace

struct Memory::Impl {
  Observer* observer = nullptr;
  std::deque<Allocation> allocations;  // [id - 1]
  std::vector<const Allocation*> table{nullptr};
  std::map<Address, uint32_t> by_begin;  // newest allocation at each address
  Arena arenas[kMaxRanks][3];            // device, nccl, host
  int fds[kMaxRanks];
  uint64_t granule_bytes = 0;
  uint64_t limit = 0;                // bytes that a rank may have allocated, of device and of host
  uint64_t used[kMaxRanks][2] = {};  // bytes that are allocated: device, host
  Finding finding;                   // what the last check() found
};

Memory::Memory(int n_ranks, uint64_t bytes_per_rank, Observer* observer, int ranks_per_node)
    : n_ranks_(n_ranks),
      ranks_per_node_(ranks_per_node > 0 ? ranks_per_node : std::max(1, n_ranks)),
      bytes_(kRankStride),
      impl_(std::make_unique<Impl>()) {
  if (n_ranks < 1 || n_ranks > int(kMaxRanks) || bytes_per_rank == 0 || bytes_per_rank > bytes_)
    throw std::runtime_error("emulated memory: 1 to 16 ranks with at most 64 GiB each");
  impl_->observer = observer;
  impl_->limit = round_up(bytes_per_rank, 2 * kPage);
  impl_->granule_bytes = bytes_ / kGranule * sizeof(uint32_t);
  for (int& fd : impl_->fds) fd = -1;
  for (int r = 0; r < n_ranks; ++r) {
    const Address device = kDeviceBase + uint64_t(r) * kRankStride,
                  host = kHostBase + uint64_t(r) * kRankStride;
    map_fixed(device, bytes_, -1);
    const int fd = memfd_create("sculler-host-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    impl_->fds[r] = fd;
    if (fd < 0 || ftruncate(fd, off_t(impl_->limit)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
      throw std::runtime_error(std::string("cannot make the shared host memory: ") +
                               std::strerror(errno));
    map_fixed(host, impl_->limit, fd);
    for (int half = 0; half < 2; ++half) {
      void* p = mmap(nullptr, impl_->granule_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) throw std::runtime_error("cannot map the allocation table");
      granules_[half][r] = static_cast<uint32_t*>(p);
    }
    const Address middle = device + bytes_ / 2;
    impl_->arenas[r][0].reset(device + kPage, middle);
    impl_->arenas[r][1].reset(middle, device + bytes_);
    impl_->arenas[r][2].reset(host + kPage, host + impl_->limit);
  }
  table_ = impl_->table.data();
}

Memory::~Memory() {
  for (int r = 0; r < n_ranks_; ++r) {
    munmap(reinterpret_cast<void*>(kDeviceBase + uint64_t(r) * kRankStride), bytes_);      // NOLINT
    munmap(reinterpret_cast<void*>(kHostBase + uint64_t(r) * kRankStride), impl_->limit);  // NOLINT
    if (impl_->fds[r] >= 0) close(impl_->fds[r]);
    for (int half = 0; half < 2; ++half)
      if (granules_[half][r] != nullptr) munmap(granules_[half][r], impl_->granule_bytes);
  }
}

Result<Address> Memory::allocate(int rank, uint64_t bytes, Allocation::Kind kind, std::string name,
                                 bool zeroed, uint64_t align) {
  if (rank < 0 || rank >= n_ranks_)
    return fail(ErrorCode::kInternal, "allocation for a rank that does not exist");
  align = round_up(align < kGranule ? kGranule : align, kGranule);
  const bool host = kind == Allocation::Kind::kPinned || kind == Allocation::Kind::kManaged;
  const int arena = host ? 2 : kind == Allocation::Kind::kNccl ? 1 : 0;
  const bool fits = bytes <= impl_->limit - impl_->used[rank][host];
  const uint64_t span = fits ? round_up(bytes + kRedZone, kGranule) : 0;
  const Address begin =
      fits ? impl_->arenas[rank][arena].take(span, align, std::min(span, kMaxGuard)) : 0;
  if (begin == 0)
    return fail(ErrorCode::kInternal,
                "out of emulated memory on rank " + std::to_string(rank) + ": " +
                    std::to_string(bytes) + " bytes asked",
                "emulate a smaller size");
  if (impl_->allocations.size() >= UINT32_MAX - 1)
    return fail(ErrorCode::kInternal, "too many allocations");
  impl_->allocations.push_back(
      {kind, rank, begin, bytes, true, false, std::move(name), false, {}, 0, ~uint64_t{0}});
  impl_->table.push_back(&impl_->allocations.back());
  table_ = impl_->table.data();
  const auto id = uint32_t(impl_->allocations.size());
  impl_->by_begin[begin] = id;
  const Address base = (host ? kHostBase : kDeviceBase) + uint64_t(rank) * kRankStride;
  uint32_t* granules = granules_[host][rank];
  for (uint64_t g = (begin - base) / kGranule; g < (begin - base + span) / kGranule; ++g)
    granules[g] = id;
  impl_->used[rank][host] += bytes;
  // Lanes and blocks jump about: large pages where the system lends them.
  if (!host && bytes >= kHuge)
    (void)madvise(reinterpret_cast<void*>(begin / kPage * kPage),  // NOLINT
                  round_up(bytes, kPage), MADV_HUGEPAGE);
  std::memset(reinterpret_cast<void*>(begin), zeroed ? 0 : kPoison, bytes);  // NOLINT
  if (impl_->observer != nullptr) impl_->observer->allocated(rank, begin, bytes, zeroed);
  return begin;
}

Status Memory::release(int rank, Address address) {
  Allocation* a = find(address);
  if (a == nullptr || a->begin != address || a->rank != rank || !a->live)
    return fail(ErrorCode::kBadInput,
                "rank " + std::to_string(rank) + " frees an address that no allocation starts at",
                "free each allocation once, with the pointer that it returned");
  a->live = false;
  const int arena = address >= kHostBase ? 2 : a->kind == Allocation::Kind::kNccl ? 1 : 0;
  impl_->used[rank][address >= kHostBase ? 1 : 0] -= a->bytes;
  impl_->arenas[rank][arena].give(a->begin, round_up(a->bytes + kRedZone, kGranule));
  // No access passes any more. Device memory goes back to the system: addresses are used again
  // last.
  if (arena == 2) {
    std::memset(reinterpret_cast<void*>(a->begin), kPoison, a->bytes);  // NOLINT
  } else if (const Address first = round_up(a->begin, kPage),
             end = (a->begin + a->bytes) / kPage * kPage;
             first < end) {
    (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // NOLINT
  }
  if (impl_->observer != nullptr) impl_->observer->freed(a->begin, a->bytes);
  return {};
}

const Allocation* Memory::find(Address address) const { return at(address); }
Allocation* Memory::find(Address address) { return const_cast<Allocation*>(at(address)); }

std::vector<const Allocation*> Memory::live(int rank) const {
  std::vector<const Allocation*> out;
  for (const auto& [begin, id] : impl_->by_begin) {
    const Allocation* a = impl_->table[id];
    if (a->live && a->rank == rank) out.push_back(a);
  }
  return out;
}

const Finding* Memory::check(int rank, Address address, uint64_t bytes) const {
  if (reach(rank, address, bytes) != nullptr) return nullptr;
  Finding& f = impl_->finding;
  f = Finding{};
  f.address = address;
  f.bytes = uint32_t(bytes > UINT32_MAX ? UINT32_MAX : bytes);
  f.now.rank = rank;
  f.place = describe(address);
  const Allocation* a = at(address);
  f.kind = a == nullptr ? Finding::Kind::kBounds
           : !a->live   ? Finding::Kind::kUseAfterFree
           : a->rank != rank && (!a->peer_accessible || !same_node(a->rank, rank))
               ? Finding::Kind::kWrongRank
               : Finding::Kind::kBounds;
  if (f.kind == Finding::Kind::kWrongRank && !same_node(a->rank, rank))
    f.place += " (on another node, which GIN reaches and loads and stores do not)";
  return &f;
}

std::string Memory::describe(Address address) const {
  if (address < kPage) return "a null pointer + " + std::to_string(address);
  const Allocation* a = at(address);
  if (a == nullptr && address >= kGranule) a = at(address - kGranule);  // just behind one
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
  if (a == nullptr) {
    // The nearest allocation of the same range is the likely one.
    const auto next = impl_->by_begin.upper_bound(address);
    const Allocation* near = nullptr;
    uint64_t distance = 2 * kMaxGuard;
    if (next != impl_->by_begin.end() && next->first - address < distance) {
      near = impl_->table[next->second];
      distance = next->first - address;
    }
    const bool before = near != nullptr;
    if (next != impl_->by_begin.begin()) {
      const Allocation* last = impl_->table[std::prev(next)->second];
      if (address - last->begin - last->bytes < distance) {
        return last->name + " of rank " + std::to_string(last->rank) + " + " +
               std::to_string(address - last->begin) + " (it ends at " +
               std::to_string(last->bytes) + (last->live ? ")" : ") (freed)");
      }
    }
    if (before)
      return std::to_string(distance) + " bytes before " + near->name + " of rank " +
             std::to_string(near->rank);
    return std::string(hex) + ", which no allocation holds";
  }
  if (!a->unit.empty()) {
    const uint64_t index = (address - a->begin) / 8;
    const std::string of = " of " + a->name + " of rank " + std::to_string(a->rank);
    if (index >= a->own) return "GIN barrier signal " + std::to_string(index - a->own) + of;
    return a->unit + " " + std::to_string(index) + of +
           (index >= a->units ? " (there are " + std::to_string(a->units) + ")" : "");
  }
  std::string text =
      a->name + " of rank " + std::to_string(a->rank) + " + " + std::to_string(address - a->begin);
  if (address - a->begin >= a->bytes) text += " (it ends at " + std::to_string(a->bytes) + ")";
  if (!a->live) text += " (freed)";
  return text;
}

int Memory::host_fd(int rank) const { return impl_->fds[rank]; }

}  // namespace sculler::emu
