#include "emu/check/records.h"

#include <algorithm>
#include <unordered_set>

namespace sculler::emu::check {

namespace {

// A later record with this key hides an earlier one: the same actor, atomic or not.
uint64_t key_of(const Record& record) {
  return uint64_t{record.actor} << 1 | (record.atomic ? 1 : 0);
}

}  // namespace

Records::Records() : records_(1), members_(1) {}

RecordId Records::add(const Record& record) {
  ++fresh_;
  if (!free_records_.empty()) {
    const RecordId id = free_records_.back();
    free_records_.pop_back();
    records_[id] = record;
    return id;
  }
  records_.push_back(record);
  return static_cast<RecordId>(records_.size() - 1);
}

ReadersId Records::append(ReadersId readers, RecordId record) {
  const auto grow = [this](const Member& member) {
    ++fresh_;
    if (!free_members_.empty()) {
      const uint32_t id = free_members_.back();
      free_members_.pop_back();
      members_[id] = member;
      return id;
    }
    members_.push_back(member);
    return static_cast<uint32_t>(members_.size() - 1);
  };
  if ((readers & kSetBit) == 0) {
    const uint32_t first = grow({0, readers, filter_of(records_[readers].actor), 1, false});
    readers = first | kSetBit;
  }
  const Member before = member(readers);
  const uint64_t bit = filter_of(records_[record].actor);
  if ((before.filter & bit) != 0) {
    // Who is not found among the newest enters twice; a long set loses its doubles below.
    constexpr int kNewest = 16;
    int looked = 0;
    for (uint32_t at = readers & ~kSetBit; at != 0 && looked < kNewest;
         at = members_[at].previous, ++looked) {
      if (members_[at].record == record) return readers;
    }
  }
  // An actor's older records say nothing that its newest does not: drop them when a set has grown
  // long.
  constexpr uint32_t kLong = 64;
  if (before.length >= kLong && (before.length & (before.length - 1)) == 0) {
    std::vector<RecordId> kept;
    std::unordered_set<uint64_t> seen{key_of(records_[record])};
    for (uint32_t at = readers & ~kSetBit; at != 0; at = members_[at].previous) {
      if (seen.insert(key_of(records_[members_[at].record])).second)
        kept.push_back(members_[at].record);
    }
    uint32_t last = 0;
    for (auto one = kept.rbegin(); one != kept.rend(); ++one) {
      const uint64_t filter =
          (last != 0 ? members_[last].filter : 0) | filter_of(records_[*one].actor);
      last = grow({last, *one, filter, (last != 0 ? members_[last].length : 0) + 1, false});
    }
    const uint64_t filter = (last != 0 ? members_[last].filter : 0) | bit;
    return grow({last, record, filter, (last != 0 ? members_[last].length : 0) + 1, false}) |
           kSetBit;
  }
  return grow({readers & ~kSetBit, record, before.filter | bit, before.length + 1, false}) |
         kSetBit;
}

void Records::begin_mark() {
  for (Record& record : records_) record.live = false;
  for (Member& member : members_) member.live = false;
}

void Records::mark_readers(ReadersId id) {
  if ((id & kSetBit) == 0) return mark_record(id);
  for (uint32_t at = id & ~kSetBit; at != 0 && !members_[at].live; at = members_[at].previous) {
    members_[at].live = true;
    mark_record(members_[at].record);
  }
}

void Records::sweep() {
  free_records_.clear();
  free_members_.clear();
  for (size_t i = records_.size(); i-- > 1;) {
    if (!records_[i].live) free_records_.push_back(static_cast<uint32_t>(i));
  }
  for (size_t i = members_.size(); i-- > 1;) {
    if (!members_[i].live) free_members_.push_back(static_cast<uint32_t>(i));
  }
  steps_.fill({});
  fresh_ = 0;
  limit_ = std::max(floor_, live());
}

CodeRef CodeTable::code(uint32_t id) const {
  if (id >> 16 == kOther) return others_[id & 0xffffu].code;
  return {id >> 16, id & 0xffffu};
}

std::string_view CodeTable::what(uint32_t id) const {
  return id >> 16 == kOther ? others_[id & 0xffffu].what : std::string_view{};
}

uint32_t CodeTable::other(const CodeRef& code, std::string_view what) {
  for (size_t i = 0; i < others_.size(); ++i) {
    const Other& known = others_[i];
    if (known.code.function == code.function && known.code.instruction == code.instruction &&
        known.what == what) {
      return kOther << 16 | static_cast<uint32_t>(i);
    }
  }
  // The last number stands for all that found no place.
  if (others_.size() < 0xffff) others_.push_back({code, what});
  return kOther << 16 | static_cast<uint32_t>(others_.size() - 1);
}

}  // namespace sculler::emu::check
