#include <algorithm>

#include "emu/check/checker_impl.h"

namespace sculler::emu::check {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

const char* scope_name(uint8_t level) {
  return level == 0 ? "block" : level == 1 ? "device" : "system";
}

}  // namespace

Finding::Side Checker::side(ActorId id, const Record& record) const {
  const Slot& slot = slots_[id >> kWarpBits];
  Finding::Side out;
  out.rank = slot.rank;
  out.access = record.access;
  out.code = codes_.code(record.code);
  out.async = slot.async;
  out.what = std::string(codes_.what(record.code));
  if (slot.grid != 0) {
    out.block = slot.block;
    out.warp = static_cast<int>(id & (kMaxWarps - 1));
  } else if (out.what.empty() && slot.async != AsyncKind::kPut) {
    out.what = slot.is_host ? "the host" : "a stream";
  }
  return out;
}

bool Checker::last_writer(Address address, Finding::Side* writer) const {
  const Granule* granule = global_.peek(address);
  if (granule == nullptr) return false;
  const Cell* cell = &granule->cell;
  auto offset = static_cast<uint32_t>(address % kGranule);
  for (uint32_t part = kGranule / 4; (cell->write & kSplit) != 0; part /= 4) {
    cell = &quads_[cell->write][offset / part];
    offset %= part;
  }
  if (cell->write == 0) return false;
  const Record& record = records_[cell->write];
  *writer = side(record.actor, record);
  return true;
}

std::string Checker::describe(uint32_t offset) const {
  const Address at = place_.granule + offset;
  if (place_.space == MemorySpace::kShared) {
    return "shared memory of block " + std::to_string(slots_[place_.block->slot].block) +
           ", offset " + std::to_string(at);
  }
  if (config_.describe) return config_.describe(at);
  if (auto found = allocations_.upper_bound(at); found != allocations_.begin()) {
    --found;
    if (at - found->first < found->second.bytes) {
      return "allocation " + std::to_string(found->second.ordinal) + " of rank " +
             std::to_string(found->second.rank) + ", offset " + std::to_string(at - found->first);
    }
  }
  return "address " + std::to_string(at);
}

void Checker::fold(Finding finding, uint64_t key) {
  const auto found = folded_.find(key);
  if (found != folded_.end()) {
    if (found->second < findings_.size()) ++findings_[found->second].count;
    return;
  }
  // Keys beyond the limit are not kept: a hostile kernel could make millions.
  if (findings_.size() >= config_.max_findings) return;
  folded_.emplace(key, findings_.size());
  findings_.push_back(std::move(finding));
}

void Checker::race(Actor& actor, RecordId now, RecordId before, uint32_t offset, uint32_t bytes) {
  const Record& mine = records_[now];
  const Record& other = records_[before];
  const Known what{other.actor >> kWarpBits, other.actor & (kMaxWarps - 1), other.count};
  const bool loosely = !(async_ && unfenced_) && knows(actor, actor.loose, what);
  const auto kind = loosely ? Finding::Kind::kRelaxedOrder : Finding::Kind::kRace;
  const bool peers = slots_[actor.slot].rank != slots_[what.slot].rank;
  uint64_t key = mix(static_cast<uint64_t>(kind) * 2 + (peers ? 1 : 0), mine.code);
  key = mix(mix(key, other.code),
            static_cast<uint64_t>(mine.access) * 4 + static_cast<uint64_t>(other.access));
  if (const auto found = folded_.find(key); found != folded_.end()) {
    ++findings_[found->second].count;
    return;
  }
  Finding finding;
  finding.kind = kind;
  finding.now = side(actor.id, mine);
  finding.now.async = slots_[mine.actor >> kWarpBits].async;
  finding.before = side(other.actor, other);
  finding.proxy = async_ && unfenced_;
  finding.address = place_.space == MemorySpace::kGlobal
                        ? place_.granule + offset
                        : place_.block->shared_base + place_.granule + offset;
  finding.bytes = bytes;
  finding.place = describe(offset);
  if (finding.proxy) {
    finding.note = "the asynchronous proxy need not see what was written without a proxy fence";
  } else if (const ScopeMiss& miss = slots_[actor.slot].live->miss;
             miss.rank == finding.before.rank &&
             (miss.slot == what.slot || miss.slot == Release::kMixed)) {
    finding.note = std::string("a release between them reaches the ") + scope_name(miss.had) +
                   " only, and the reader is " +
                   (miss.needed == 2 ? "on another device" : "in another block");
  } else if (finding.now.async == AsyncKind::kPut || finding.before.async == AsyncKind::kPut) {
    // Of two puts the one that writes.
    const bool is_now = finding.now.async == AsyncKind::kPut &&
                        (finding.before.async != AsyncKind::kPut || other.access == Access::kLoad);
    explain_put(finding, is_now ? mine : other, is_now);
    if (reading_ != nullptr && other.actor == reading_->poster && other.count > reading_->posted)
      finding.note = "it writes there after it has asked for the put";
  } else if (mine.atomic && other.atomic) {
    finding.note = "both are atomic, but of a scope that does not reach the other";
  }
  fold(std::move(finding), key);
}

void Checker::uninitialised(Actor& actor, RecordId now, uint32_t offset, uint32_t bytes) {
  const Record& mine = records_[now];
  uint64_t place = static_cast<uint64_t>(place_.space);
  if (place_.space == MemorySpace::kGlobal) {
    if (const auto found = allocations_.upper_bound(place_.granule + offset);
        found != allocations_.begin()) {
      place = std::prev(found)->first;
    }
  }
  const uint64_t key = mix(mix(~uint64_t{0}, mine.code), place);
  if (const auto found = folded_.find(key); found != folded_.end()) {
    ++findings_[found->second].count;
    return;
  }
  Finding finding;
  finding.kind = Finding::Kind::kUninitialised;
  finding.now = side(actor.id, mine);
  finding.now.async = slots_[mine.actor >> kWarpBits].async;
  finding.address = place_.space == MemorySpace::kGlobal
                        ? place_.granule + offset
                        : place_.block->shared_base + place_.granule + offset;
  finding.bytes = bytes;
  finding.place = describe(offset);
  fold(std::move(finding), key);
}

void Checker::finding(Finding finding) {
  const uint64_t code = uint64_t{finding.now.code.function} << 32 | finding.now.code.instruction;
  uint64_t key = mix(mix(1000 + static_cast<uint64_t>(finding.kind), code),
                     static_cast<uint64_t>(finding.now.rank) + 1);
  for (const char c : finding.now.what) key = mix(key, static_cast<unsigned char>(c));
  fold(std::move(finding), key);
}

}  // namespace sculler::emu::check
