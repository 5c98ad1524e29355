#include "emu/check/report.h"

namespace sculler::emu {
namespace {

const char* verb(Access access) {
  switch (access) {
    case Access::kLoad: return "reads";
    case Access::kStore: return "writes";
    case Access::kAtomic: return "updates";
  }
  return "touches";
}

bool is_there(const Finding::Side& side) {
  return side.rank >= 0 || side.code.function != 0 || !side.what.empty();
}

std::string rank_of(const Finding::Side& side) {
  return side.rank >= 0 ? "rank " + std::to_string(side.rank) : std::string("the harness");
}

// "ring.cu:84", "cudaMemcpyAsync"
std::string where(const Finding::Side& side, const SourcePlace& place) {
  if (place.known() && side.what.empty()) return place.full();
  if (place.known()) return side.what + " (" + place.text() + ")";
  return side.what.empty() ? std::string("an unknown place") : side.what;
}

std::string threads_of(const Finding::Side& side) {
  std::string text = rank_of(side);
  if (side.block >= 0) text += " block " + std::to_string(side.block);
  if (side.warp >= 0) text += " warp " + std::to_string(side.warp);
  return text;
}

bool is_kernel(const Finding::Side& side) { return side.block >= 0; }

// What says that an asynchronous access is over.
const char* end_of(AsyncKind kind) {
  switch (kind) {
    case AsyncKind::kTransaction: return "wait on the mbarrier that counts it";
    case AsyncKind::kBulkRead: return "cp.async.bulk.wait_group(.read)";
    case AsyncKind::kBulkWrite: return "cp.async.bulk.wait_group";
    case AsyncKind::kMatrix: return "wgmma.wait_group";
    case AsyncKind::kPut:
    case AsyncKind::kNone: break;
  }
  return "wait";
}

const char* how(const Finding::Side& side) {
  switch (side.async) {
    case AsyncKind::kTransaction:
    case AsyncKind::kBulkRead:
    case AsyncKind::kBulkWrite: return " by a bulk copy";
    case AsyncKind::kMatrix: return " by wgmma";
    case AsyncKind::kPut:
      return side.access == Access::kAtomic ? " by a put's signal or counter" : " by a GIN put";
    case AsyncKind::kNone: break;
  }
  return "";
}

// The words that puts add to are known by number: "GIN signal 2 of context 0 of rank 1".
bool on_gin_word(const Finding& finding) {
  return finding.place.starts_with("GIN signal") || finding.place.starts_with("GIN counter");
}

// Of two puts the one that writes.
const Finding::Side* put_of(const Finding& finding) {
  const auto is = [](const Finding::Side& side) { return side.async == AsyncKind::kPut; };
  if (is(finding.now) && is(finding.before))
    return finding.before.access == Access::kLoad ? &finding.now : &finding.before;
  return is(finding.now) ? &finding.now : is(finding.before) ? &finding.before : nullptr;
}

bool both_put_there(const Finding& finding) {
  return finding.now.async == finding.before.async && finding.now.access != Access::kLoad &&
         finding.before.access != Access::kLoad;
}

std::string missing_of_put(const Finding& finding) {
  if (on_gin_word(finding)) return "nothing orders the two";
  if (both_put_there(finding)) return "no wait for the first lies before the second";
  const bool source = put_of(finding)->access == Access::kLoad;
  if (put_of(finding) == &finding.before) {
    return source ? "no flush and no counter says that the put has read its source"
                  : "no wait for a signal of the put lies between them";
  }
  if (source) {
    return finding.note.empty() ? "the put does not begin behind that access"
                                : "no flush and no counter says that the put has read its source";
  }
  return "nothing tells the put's side that the bytes may be overwritten";
}

std::string advice_of_put(const Finding& finding) {
  if (on_gin_word(finding)) {
    return "Reset a signal or counter only where nobody waits for it and no put that adds to it is "
           "under way (a barrier of the ranks between), or never: let the target grow.";
  }
  const bool source = put_of(finding)->access == Access::kLoad;
  const bool first = put_of(finding) == &finding.before;
  if (source) {
    return first || !finding.note.empty()
               ? "Call flush, or give the put a counter (ncclGin_CounterInc) and wait for it, "
                 "before its source is overwritten."
               : "Let the threads that write the source meet (__syncthreads()) before the one "
                 "that calls put, and flush or wait for a counter before they write it again.";
  }
  if (finding.wait.function != 0) {
    return "Wait for the number of signals that includes this put's: read the signal before the "
           "put can come, or keep a target that grows; a shadow starts at 0 and only "
           "increaseSignalShadow and resetSignal move it.";
  }
  if (both_put_there(finding))
    return "Let the second put begin behind a wait for the first one's signal.";
  return first || !finding.note.empty()
             ? "Give the put a signal (ncclGin_SignalInc, ncclGin_SignalAdd) and let the reader "
               "wait for it on the same context."
             : "Let the reader say that it is done (a signal or a barrier of the ranks) and the "
               "putter wait for that before it puts there again.";
}

std::string missing(const Finding& finding) {
  const auto& now = finding.now;
  const auto& before = finding.before;
  if (put_of(finding) != nullptr && finding.kind == Finding::Kind::kRace)
    return missing_of_put(finding);
  if (finding.proxy) return "no fence.proxy.async lies between them";
  if (before.async != AsyncKind::kNone && now.rank == before.rank && is_kernel(now)) {
    return std::string("no ") + end_of(before.async) +
           (now.block == before.block ? " lies between them"
                                      : " and no signal behind it lie between them");
  }
  if (finding.kind == Finding::Kind::kRelaxedOrder)
    return "only relaxed accesses lie between them, which order nothing";
  if (!is_kernel(now) || !is_kernel(before))
    return "no stream order, event or synchronisation lies between them";
  if (now.rank != before.rank) return "no barrier or signal orders them";
  if (now.block != before.block) return "nothing orders the two blocks";
  return "no barrier of the block lies between them";
}

std::string race_advice(const Finding& finding) {
  const auto& now = finding.now;
  const auto& before = finding.before;
  if (finding.proxy) {
    return "Execute fence.proxy.async (cutlass::arch::fence_view_async_shared, "
           "cuda::ptx::fence_proxy_async) behind the write, before what hands the data over.";
  }
  if (finding.kind == Finding::Kind::kRace && (put_of(finding) != nullptr || on_gin_word(finding)))
    return advice_of_put(finding);
  const bool same_rank = now.rank == before.rank && is_kernel(now);
  if (before.async == AsyncKind::kTransaction && same_rank)
    return "Wait for the phase of the mbarrier that the copy completes before touching its data.";
  if (before.async == AsyncKind::kBulkRead && same_rank)
    return "Wait with cp.async.bulk.wait_group.read before what a bulk copy reads is overwritten.";
  if (before.async == AsyncKind::kBulkWrite && same_rank) {
    return "Let the issuing thread commit and wait with cp.async.bulk.wait_group (not .read), then "
           "signal.";
  }
  if (before.async == AsyncKind::kMatrix && same_rank)
    return "Wait with wgmma.wait_group before what wgmma reads is given back or overwritten.";
  if (finding.kind == Finding::Kind::kRelaxedOrder) {
    return "Give the barrier or flag between them release order on the side that comes first and "
           "acquire order on the other.";
  }
  if (!finding.note.empty()) {
    return now.rank != before.rank
               ? "Use system scope on both sides (atomicAdd_system, .sys, __threadfence_system)."
               : "Use device scope on both sides (.gpu, __threadfence).";
  }
  if (!is_kernel(now) || !is_kernel(before)) {
    return "Put both into one stream, or let the second wait for an event recorded behind the "
           "first.";
  }
  if (now.rank != before.rank) {
    return std::string(
               "Put a barrier of the ranks, or a release store that the other side acquires, "
               "between ") +
           (before.access == Access::kLoad
                ? "the read and the write."
                : "the write and the " +
                      std::string(now.access == Access::kLoad ? "read." : "next access.")) +
           (before.async == AsyncKind::kBulkWrite
                ? " The write ends at cp.async.bulk.wait_group, or with its kernel."
                : "");
  }
  if (now.block != before.block) {
    return "Let the first block release a flag that the second acquires, or synchronise the grid "
           "between them.";
  }
  return "Put __syncthreads() between them.";
}

}  // namespace

std::string SourcePlace::text() const {
  return line == 0 ? file : file + ":" + std::to_string(line);
}
std::string SourcePlace::full() const {
  return inner.empty() ? text() : text() + " (" + inner + ")";
}

SourcePlace place_of(CodeRef code, const LocateCode& locate) {
  if (code.function == 0 || !locate) return {};
  const Location at = locate(code);
  if (code.function == kHostCode) return {at.file, 0, {}};
  if (at.line != 0 && !at.file.empty())
    return {at.file.substr(at.file.find_last_of('/') + 1), at.line, at.inner};
  if (at.ptx_line != 0) return {"PTX of " + short_name(at.function), at.ptx_line, {}};
  return {};
}

const char* name_of(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kRace: return "race";
    case Finding::Kind::kRelaxedOrder: return "relaxed-order";
    case Finding::Kind::kUninitialised: return "uninitialised";
    case Finding::Kind::kBounds: return "bounds";
    case Finding::Kind::kWrongRank: return "wrong-rank";
    case Finding::Kind::kUseAfterFree: return "use-after-free";
    case Finding::Kind::kMisaligned: return "misaligned";
    case Finding::Kind::kMisuse: return "misuse";
  }
  return "finding";
}

ReportedFinding report(const Finding& finding, const LocateCode& locate) {
  ReportedFinding out;
  out.kind = name_of(finding.kind);
  out.now = place_of(finding.now.code, locate);
  out.before = place_of(finding.before.code, locate);
  out.rank = finding.now.rank;
  out.other_rank = finding.before.rank;
  out.place = finding.place;
  out.count = finding.count;
  const std::string here = rank_of(finding.now) + ", " + where(finding.now, out.now) + " " +
                           verb(finding.now.access) + how(finding.now);
  const std::string place = finding.place.empty() ? std::string("memory") : finding.place;
  switch (finding.kind) {
    case Finding::Kind::kRace:
    case Finding::Kind::kRelaxedOrder:
      if (is_there(finding.before)) {
        const bool same = finding.before.rank == finding.now.rank;
        out.text = here + " what " +
                   (same ? std::string(is_kernel(finding.now) &&
                                               finding.before.block == finding.now.block &&
                                               finding.before.warp != finding.now.warp
                                           ? "another warp of the block"
                                           : "it")
                         : rank_of(finding.before)) +
                   " " + verb(finding.before.access) + how(finding.before) + " at " +
                   where(finding.before, out.before) + "; " + missing(finding) + " (" + place +
                   "; " + threads_of(finding.now) + " after " + threads_of(finding.before) + ")";
      } else {
        out.text = here + " " + place + ", and " + missing(finding);
      }
      if (!finding.note.empty()) out.text += ": " + finding.note;
      if (const SourcePlace wait = place_of(finding.wait, locate); wait.known())
        out.text += ", at " + wait.full();
      out.advice = race_advice(finding);
      break;
    case Finding::Kind::kUninitialised:
      out.text =
          here + " " + place + ", which nobody has written (" + threads_of(finding.now) + ")";
      out.advice = "Write it first, or wait for the one who writes it.";
      break;
    case Finding::Kind::kBounds:
      out.text =
          here + " " + place + ", outside of every allocation (" + threads_of(finding.now) + ")";
      out.advice = "Check the index against the size of the allocation.";
      break;
    case Finding::Kind::kWrongRank:
      out.text =
          here + " " + place + ", which no window opens to it (" + threads_of(finding.now) + ")";
      out.advice = "Take the peer's pointer from a registered window.";
      break;
    case Finding::Kind::kUseAfterFree:
      out.text = here + " " + place + ", which was freed (" + threads_of(finding.now) + ")";
      out.advice = "Free it behind the last kernel that uses it.";
      break;
    case Finding::Kind::kMisaligned:
      out.text = here + " " + place + ", not aligned to the width of the access (" +
                 threads_of(finding.now) + ")";
      out.advice = "Align the address, or use a narrower access.";
      break;
    case Finding::Kind::kMisuse:
      out.text = here + " " + place + (finding.note.empty() ? "" : ": " + finding.note);
      if (const SourcePlace other = place_of(finding.wait, locate); other.known())
        out.text += "; the other is at " + other.full();
      out.advice = finding.place.starts_with("GIN signal")
                       ? "Use ncclGin_SignalInc alone or ncclGin_SignalAdd alone on one signal "
                         "until it is reset: take another signal for the other."
                       : "See the documentation of the call.";
      break;
  }
  if (finding.count > 1) out.text += ", " + std::to_string(finding.count) + " times";
  return out;
}

std::vector<ReportedFinding> report(const std::vector<Finding>& findings,
                                    const LocateCode& locate) {
  std::vector<ReportedFinding> out;
  out.reserve(findings.size());
  for (const Finding& finding : findings) out.push_back(report(finding, locate));
  return out;
}

}  // namespace sculler::emu
