#include "emu/check/deadlock.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "emu/vm/memory.h"

namespace sculler::emu {
namespace {

using Wait = WarpState::Wait;

int owner_of(Address address) {
  for (const Address base : {kDeviceBase, kHostBase}) {
    if (address >= base && (address - base) / kRankStride < kMaxRanks) {
      return static_cast<int>((address - base) / kRankStride);
    }
  }
  return -1;
}

std::string plural(uint64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string value_text(uint64_t value) {
  char text[40];
  std::snprintf(text, sizeof text, value < 65536 ? "%llu" : "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

int urgency(Wait wait) {
  switch (wait) {
    case Wait::kSpin: return 0;
    case Wait::kMbarrier: return 1;
    case Wait::kGridSync: return 2;
    case Wait::kCluster: return 3;
    case Wait::kBarrier: return 4;
    case Wait::kNotResident: return 5;
    case Wait::kRunning: return 6;
  }
  return 7;
}

std::string reason(const StuckWarps& group) {
  switch (group.wait) {
    case Wait::kSpin: return "spin on " + group.target + ", which holds " + value_text(group.value);
    case Wait::kBarrier:
      if (group.barrier == ~0u) {
        return "wait for lanes of their own warp, of which " + std::to_string(group.arrived) +
               " of " + std::to_string(group.expected) + " arrived";
      }
      return "wait at barrier " + std::to_string(group.barrier) + ", where " +
             std::to_string(group.arrived) + " of " + std::to_string(group.expected) + " arrived";
    case Wait::kMbarrier:
      return "wait at " + group.target + " for the end of its phase of parity " +
             std::to_string(group.value) + ", in which " + std::to_string(group.arrived) + " of " +
             std::to_string(group.expected) + " arrived and " +
             (group.transactions >= 0
                  ? std::to_string(group.transactions) + " bytes of copies are still to come"
                  : std::to_string(-static_cast<int64_t>(group.transactions)) +
                        " bytes more came than were expected");
    case Wait::kCluster:
      return "wait at the barrier of their cluster, where " + std::to_string(group.arrived) +
             " of " + std::to_string(group.expected) + " threads arrived";
    case Wait::kGridSync: return "wait for the whole grid";
    case Wait::kNotResident: return "have not started: the device is full of blocks that wait";
    case Wait::kRunning: return "run";
  }
  return "wait";
}

std::string advice_for(const DeadlockText& report) {
  const StuckWarps* spin = nullptr;
  const StuckWarps* barrier = nullptr;
  const StuckWarps* mbarrier = nullptr;
  for (const StuckWarps& group : report.groups) {
    if (group.wait == Wait::kSpin && spin == nullptr) spin = &group;
    if (group.wait == Wait::kBarrier && group.arrived < group.expected && barrier == nullptr)
      barrier = &group;
    if (group.wait == Wait::kMbarrier && mbarrier == nullptr) mbarrier = &group;
  }
  for (const StuckGrid& grid : report.grids) {
    if (grid.resident == 0) continue;
    return "Launch " + grid.kernel + " with at most " + std::to_string(grid.resident) +
           " blocks, or cooperatively: a block that has not started cannot signal those that wait "
           "for it.";
  }
  if (spin != nullptr) {
    const std::string signal = "Look for the store that should change " + spin->target;
    if (spin->owner >= 0 && spin->owner != spin->rank) {
      return signal + ": rank " + std::to_string(spin->rank) + " waits in the memory of rank " +
             std::to_string(spin->owner) + ", which never signals there.";
    }
    return signal +
           ": it is missing, goes to another address or rank, or stands behind a wait of its own.";
  }
  if (barrier != nullptr && barrier->barrier == ~0u) {
    return "Let every lane of the mask reach the warp's synchronisation.";
  }
  if (barrier != nullptr) {
    return "Let every thread of the block reach barrier " + std::to_string(barrier->barrier) +
           ": no return, branch or narrower count may leave some out.";
  }
  if (mbarrier != nullptr) {
    if (mbarrier->transactions != 0 && mbarrier->arrived == mbarrier->expected)
      return "Let expect_tx be the bytes of the copies that complete on the mbarrier.";
    if (mbarrier->arrived < mbarrier->expected)
      return "Look for the arrival that is missing at " + mbarrier->target +
             ": the count it was initialised with, who arrives, and the parity that is waited for.";
    return "Count the arrivals and bytes that the mbarrier expects against those that are sent.";
  }
  for (const StuckWarps& group : report.groups)
    if (group.wait == Wait::kCluster)
      return "Let every thread of the cluster that has not exited reach barrier.cluster.";
  return "Let every block of the grid reach the same synchronisation.";
}

}  // namespace

DeadlockText explain_deadlock(const std::vector<WarpState>& warps, const LocateCode& locate,
                              const DescribeAddress& describe) {
  DeadlockText report;
  using Key = std::tuple<int, int, std::string_view, std::string, uint32_t, Address, uint64_t,
                         uint32_t, uint32_t, uint32_t>;
  std::map<Key, StuckWarps> groups;
  std::map<Key, std::set<uint32_t>> blocks;
  struct Residency {
    std::set<uint32_t> resident;
    uint64_t waiting = 0, total = 0;
  };
  std::map<std::pair<int, std::string_view>, Residency> residency;
  std::map<std::pair<uint32_t, uint32_t>, SourcePlace> places;
  for (const WarpState& warp : warps) {
    Residency& grid = residency[{warp.rank, warp.kernel}];
    // One state stands for all blocks that have not started: `arrived` of `expected` have.
    const uint64_t absent = warp.wait == Wait::kNotResident
                                ? uint64_t{warp.expected} - std::min(warp.arrived, warp.expected)
                                : 0;
    if (warp.wait != Wait::kNotResident) grid.resident.insert(warp.block);
    grid.waiting += absent;
    grid.total += warp.wait == Wait::kNotResident ? warp.expected : 0;
    const auto [known, fresh] = places.try_emplace({warp.code.function, warp.code.instruction});
    if (fresh && warp.wait != Wait::kNotResident) known->second = place_of(warp.code, locate);
    const SourcePlace at = warp.wait == Wait::kNotResident ? SourcePlace{} : known->second;
    const bool spins = warp.wait == Wait::kSpin;
    const bool mbarrier = warp.wait == Wait::kMbarrier;
    const bool counts = warp.wait == Wait::kBarrier || mbarrier || warp.wait == Wait::kCluster;
    // The same mbarrier of several blocks is one place.
    const uint64_t offset = (warp.address - kSharedBase) % kSharedWindow;
    const bool shared = warp.address - kSharedBase < kLocalBase - kSharedBase;
    // Bytes that are missing are told before arrivals: who waits for them cannot arrive.
    const Key key{2 * urgency(warp.wait) + (mbarrier && warp.transactions == 0 ? 1 : 0),
                  warp.rank,
                  warp.kernel,
                  at.file,
                  at.line,
                  spins      ? warp.address
                  : mbarrier ? offset
                             : 0,
                  spins || mbarrier ? warp.value : 0,
                  counts ? warp.barrier : 0,
                  counts ? warp.arrived : 0,
                  counts ? warp.expected : 0};
    StuckWarps& group = groups[key];
    if (group.warps == 0) {
      group.rank = warp.rank;
      group.kernel = short_name(warp.kernel);
      group.wait = warp.wait;
      group.at = at;
      group.first_block = warp.block;
      group.barrier = warp.barrier;
      group.arrived = warp.arrived;
      group.expected = warp.expected;
      if (mbarrier) {
        group.address = warp.address;
        group.value = warp.value;
        group.transactions = warp.transactions;
        group.target = shared ? "the mbarrier at shared memory offset " +
                                    std::to_string(offset - kSharedReserved)
                              : std::string("an mbarrier");
      }
      if (spins) {
        group.address = warp.address;
        group.value = warp.value;
        group.owner = owner_of(warp.address);
        group.target = describe ? describe(warp.address) : "address " + value_text(warp.address);
      }
    }
    group.first_block = std::min(group.first_block, warp.block);
    ++group.warps;
    if (absent != 0) {
      group.blocks += absent;
    } else {
      blocks[key].insert(warp.block);
    }
  }
  for (auto& [key, group] : groups) {
    group.blocks += blocks[key].size();
    group.text = "rank " + std::to_string(group.rank) + ", " + group.kernel +
                 (group.at.known() ? ", " + group.at.full() : "") + ": ";
    group.text += group.wait == Wait::kNotResident
                      ? plural(group.blocks, "block")
                      : plural(group.warps, "warp") + " of " + plural(group.blocks, "block");
    group.text += " (first block " + std::to_string(group.first_block) + ") " + reason(group);
    if (report.groups.size() < kMaxGroups) report.groups.push_back(group);
  }
  for (const auto& [key, grid] : residency) {
    if (grid.waiting == 0) continue;
    report.grids.push_back(
        {key.first, short_name(key.second), grid.resident.size(), grid.waiting, grid.total});
  }
  report.advice = advice_for(report);
  if (report.groups.empty()) {
    report.message = "nothing can go on, and no warp waits: a host waits for what no one started";
  } else {
    report.message = report.groups.front().text;
    report.rank = report.groups.front().rank;
    report.at = report.groups.front().at;
  }
  for (const StuckWarps& group : report.groups) report.text += group.text + "\n";
  for (const StuckGrid& grid : report.grids) {
    report.text += "rank " + std::to_string(grid.rank) + ", " + grid.kernel + ": " +
                   std::to_string(grid.resident) + " of " + std::to_string(grid.total) +
                   " blocks fit\n";
  }
  report.text += report.advice + "\n";
  return report;
}

}  // namespace sculler::emu
