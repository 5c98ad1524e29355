#include "emu/vm/scheduler.h"

#include <algorithm>
#include <numeric>

namespace sculler::emu::vm {
namespace {

constexpr uint64_t kQuantum = 96;  // instructions, round robin
constexpr uint64_t kPriorityQuantum = 512;
constexpr uint32_t kMostShuffled = 1u << 22;  // blocks
constexpr uint32_t kWindow = 16;              // blocks that may start in any order
constexpr uint64_t kAscendingOf = 4;          // one grid in so many starts its blocks in order

}  // namespace

Scheduler::Scheduler(const Schedule& schedule)
    : schedule_(schedule),
      random_(schedule.seed * 0x2545f4914f6cdd1du + 1),
      lowest_(uint64_t{1} << 62) {}

size_t Scheduler::size() const {
  return queue_[0].size() + queue_[1].size() + bag_.size() + by_priority_.size();
}

void Scheduler::add(Warp& w) {
  if (w.queued) return;
  w.queued = true;
  switch (schedule_.kind) {
    case ScheduleKind::kRandom: bag_.push_back(&w); break;
    case ScheduleKind::kPriority:
      // Random, above everything that has been lowered; kept while the warp lives.
      if (w.priority == 0) w.priority = (uint64_t{1} << 62) + (random_.next() >> 3);
      while (!by_priority_.emplace(w.priority, &w).second) ++w.priority;
      break;
    case ScheduleKind::kDelayRank:
      queue_[w.rank == schedule_.delayed_rank ? 1 : 0].push_back(&w);
      break;
    case ScheduleKind::kRoundRobin: queue_[0].push_back(&w); break;
  }
}

Warp* Scheduler::take(uint64_t* quantum) {
  Warp* w = nullptr;
  *quantum = kQuantum;
  switch (schedule_.kind) {
    case ScheduleKind::kRandom: {
      if (bag_.empty()) return nullptr;
      const uint64_t k = random_.below(bag_.size());
      w = bag_[k];
      bag_[k] = bag_.back();
      bag_.pop_back();
      // Mostly short, now and then long: both kinds of interleaving are met.
      const uint64_t draw = random_.next();
      *quantum = 1 + (draw >> 8) % ((draw & 7) == 0 ? 2048 : (draw & 7) < 3 ? 16 : 192);
      break;
    }
    case ScheduleKind::kPriority: {
      if (by_priority_.empty()) return nullptr;
      auto top = std::prev(by_priority_.end());
      w = top->second;
      by_priority_.erase(top);
      *quantum = kPriorityQuantum;
      if (change_in_ == 0) {
        change_in_ = 1 + random_.below(4096);
        w->priority = --lowest_;
      }
      --change_in_;
      break;
    }
    default: {
      auto& q = queue_[0].empty() ? queue_[1] : queue_[0];
      if (q.empty()) return nullptr;
      w = q.front();
      q.pop_front();
    }
  }
  w->queued = false;
  return w;
}

void Scheduler::put_back(Warp& w, bool yielded) {
  // A warp that waits for others must not keep them from running.
  if (yielded && schedule_.kind == ScheduleKind::kPriority) w.priority = --lowest_;
  add(w);
}

template <class Keep>
void Scheduler::filter(Keep keep) {
  for (auto& q : queue_) std::erase_if(q, [&](Warp* w) { return !keep(*w); });
  std::erase_if(bag_, [&](Warp* w) { return !keep(*w); });
  std::erase_if(by_priority_, [&](const auto& entry) { return !keep(*entry.second); });
}
void Scheduler::remove_rank(int rank) {
  filter([rank](const Warp& w) { return w.rank != rank; });
}

std::vector<uint32_t> Scheduler::admission(uint32_t n_blocks, uint64_t resident) {
  std::vector<uint32_t> order;
  const bool drawn =
      schedule_.kind == ScheduleKind::kRandom || schedule_.kind == ScheduleKind::kPriority;
  if (!drawn || n_blocks > kMostShuffled) return order;
  if (random_.below(kAscendingOf) == 0) return order;
  order.resize(n_blocks);
  std::iota(order.begin(), order.end(), 0u);
  const auto full = static_cast<uint32_t>(std::clamp<uint64_t>(resident, 1, n_blocks));
  for (uint32_t begin = 0; begin < n_blocks;) {
    // A window that crossed a multiple of what is resident would let a block in that hardware would
    // keep waiting.
    const uint32_t size = std::min({kWindow, n_blocks - begin, full - begin % full});
    for (uint32_t k = size; k > 1; --k)
      std::swap(order[begin + k - 1], order[begin + random_.below(k)]);
    begin += size;
  }
  return order;
}

}  // namespace sculler::emu::vm
