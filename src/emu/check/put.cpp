// Puts of a network in happens-before. A put begins behind what its warp has released to the system
// (the fence in ncclGin::put) and ends for those who hear of it: a signal carries the payloads of
// its own put and of those before it on the same context to the same peer; a counter says that its
// put's source was read; the queue's consumer index, which flush waits for, that all sources up to
// there were. Payloads are ordered by nothing else, and no put by another context's.
#include <algorithm>
#include <array>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {

PutId Checker::put_post(ActorId id, uint32_t number, CodeRef code) {
  Actor* const warp = find_actor(id);
  if (warp == nullptr || !config_.races) return 0;
  const auto [at, fresh] = put_queues_.try_emplace(number);
  PutQueue& queue = at->second;
  if (fresh) {
    queue.slot = add_single(warp->rank, false) >> kWarpBits;
    queue.view = add_single(warp->rank, false) >> kWarpBits;
    slots_[queue.slot].async = slots_[queue.view].async = AsyncKind::kPut;
    put_slots_[queue.slot] = number;
  }
  Put put;
  put.queue = number;
  put.code = codes_.of(code);
  Actor& view = put.view;
  view.id = queue.view << kWarpBits;
  view.slot = queue.view;
  view.rank = warp->rank;
  // What was before the kernel is known to all that it starts; the rest needs a release.
  const GridId grid = slots_[warp->slot].grid;
  if (grid != 0) {
    view.known = grids_[grid].start;
    view.loose = grids_[grid].start_loose;
  }
  if (const Snapshot& fence = warp->fence[kLevels - 1]; fence.valid) {
    view.known = joined(view.known, fence);
    view.loose = joined(view.loose, fence);
  }
  view.loose = joined(view.loose, snapshot(*warp, warp->loose));
  if (next_put_ == 0) next_put_ = 1;
  // What the warp does from now on is not in it.
  put.poster = warp->id;
  put.posted = warp->count++;
  puts_[next_put_] = std::move(put);
  return next_put_++;
}

void Checker::put_begin(PutId id, const PutTarget& target) {
  const auto found = puts_.find(id);
  if (found == puts_.end()) return;
  Put& put = found->second;
  PutQueue& queue = put_queues_[put.queue];
  put.number = ++queue.puts;
  put.target = target;
  put.view.count = put.number;
  put.read_slot = queue.slot;
  put.read_count = put.number;
  queue.marks.push_back({target.signal, 0});
  if (target.signal != 0) signals_.try_emplace(target.signal);
  if (target.counter != 0) {
    auto counted = std::find_if(queue.counters.begin(), queue.counters.end(),
                                [&](const auto& c) { return c.counter == target.counter; });
    if (counted == queue.counters.end()) {
      const uint32_t slot = add_single(put.view.rank, false) >> kWarpBits;
      slots_[slot].async = AsyncKind::kPut;
      put_slots_[slot] = put.queue;
      counted = queue.counters.insert(counted, {target.counter, slot, 0});
    }
    put.read_slot = counted->slot;
    put.read_count = ++counted->count;
  }
  for (const PutQueue::Counted& counted : queue.counters)
    put.reads.push_back({one_warp(counted.slot, 0), counted.count});
}

void Checker::put_access(PutId id, Access access, Address begin, uint64_t bytes) {
  const auto found = puts_.find(id);
  if (found == puts_.end() || bytes == 0) return;
  Put& put = found->second;
  collect_if_due();
  refresh(put.view);
  reading_ = access == Access::kLoad ? &put : nullptr;
  if (access == Access::kLoad) {
    const RecordId now = records_.add({put.read_slot << kWarpBits, put.read_count, put.code,
                                       Access::kLoad, false, kLevels - 1, false});
    // As with other copies, nobody is asked whether somebody wrote the source.
    touch(put.view, now, false, begin, bytes);
    reading_ = nullptr;
    return;
  }
  const RecordId now = records_.add({put_queues_[put.queue].slot << kWarpBits | 1u, put.number,
                                     put.code, Access::kStore, false, kLevels - 1, false});
  touch(put.view, now, true, begin, bytes);
}

void Checker::put_tell(PutId id, PutWord what, Address word) {
  const auto found = puts_.find(id);
  if (found == puts_.end()) return;
  Put& put = found->second;
  PutQueue& queue = put_queues_[put.queue];
  collect_if_due();
  refresh(put.view);
  std::vector<ClockEntry> over;
  if (what == PutWord::kCounter) {
    over.push_back({one_warp(put.read_slot, 0), put.read_count});
  } else {
    over = put.reads;
    over.push_back({one_warp(queue.slot, 0), put.number});
    if (what == PutWord::kSignal) over.push_back({one_warp(queue.slot, 1), put.number});
  }
  const bool adds = what != PutWord::kConsumed;
  const bool counts = what == PutWord::kCounter;
  const ActorId as = counts ? put.read_slot << kWarpBits
                            : queue.slot << kWarpBits | (what == PutWord::kSignal ? 1u : 0u);
  const RecordId now =
      records_.add({as, counts ? put.read_count : put.number, put.code,
                    adds ? Access::kAtomic : Access::kStore, true, kLevels - 1, false});
  touch(put.view, now, true, word, adds ? 8 : 4);
  Actor tells = put.view;
  tells.known = pool_.join(tells.known, over);
  tells.loose = pool_.join(tells.loose, over);
  strong_write(tells,
               {MemorySpace::kGlobal, word, adds ? 8u : 4u, adds, false, true, kLevels - 1, true});
  if (what == PutWord::kSignal) {
    SignalWatch& watch = signals_[word];
    queue.marks[put.number - 1].nth = ++watch.additions;
  }
}

void Checker::note_wait(const WarpAccess& access) {
  for (uint32_t left = access.mask; left != 0; left &= left - 1) {
    const auto found = signals_.find(access.address[__builtin_ctz(left)]);
    if (found == signals_.end()) continue;
    found->second.seen = found->second.additions;
    found->second.wait = access.code;
    found->second.looked = true;
  }
}

// What is known of a put whose payload, or source, somebody touched beside it.
void Checker::explain_put(Finding& finding, const Record& put, bool is_now) const {
  const Finding::Side& other = is_now ? finding.before : finding.now;
  if (put.access != Access::kStore) return;
  if (other.async == AsyncKind::kPut && other.access != Access::kLoad) {
    finding.note = "puts are not ordered with each other, not on one context either";
    return;
  }
  const auto number = put_slots_.find(put.actor >> kWarpBits);
  if (number == put_slots_.end()) return;
  const PutQueue& queue = put_queues_.at(number->second);
  const PutQueue::Mark& mark = queue.marks[put.count - 1];
  if (mark.signal == 0) {
    finding.note =
        "the put carries no signal; flush and counters say that its source may be used again, not "
        "that its data have arrived";
    return;
  }
  const auto found = signals_.find(mark.signal);
  if (found == signals_.end() || !found->second.looked) {
    finding.note = "nobody waits for the put's signal";
    return;
  }
  const SignalWatch& watch = found->second;
  if (mark.nth != 0 && watch.seen >= mark.nth) return;
  finding.wait = watch.wait;
  finding.note = "the last look at the put's signal saw " + std::to_string(watch.seen) +
                 " additions, all of earlier puts";
}

}  // namespace sculler::emu::check
