// Who touched a cell: records of (actor, count, code) and sets of concurrent readers, both by
// 32-bit number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emu/check/observer.h"

namespace sculler::emu::check {

using RecordId = uint32_t;   // 0 = nobody
using ReadersId = uint32_t;  // a RecordId, or with kSetBit the number of a set's newest member
inline constexpr uint32_t kSetBit = 1u << 31;

// Everything that one instruction of one actor did between two points of synchronisation.
struct Record {
  ActorId actor = 0;
  uint32_t count = 0;  // of the actor's clock
  uint32_t code = 0;   // CodeTable
  Access access = Access::kLoad;
  bool atomic = false;
  uint8_t level = 0;  // scope of an atomic one: 0 block, 1 device, 2 system
  bool live = false;
};

class Records {
 public:
  Records();
  [[nodiscard]] const Record& operator[](RecordId id) const { return records_[id]; }
  RecordId add(const Record& record);

  struct Member {
    uint32_t previous = 0;  // older member's number, 0 = none
    RecordId record = 0;
    uint64_t filter = 0;  // a bit for each actor in the set
    uint32_t length = 0;
    bool live = false;
  };
  [[nodiscard]] const Member& member(ReadersId id) const { return members_[id & ~kSetBit]; }
  // The set of `readers` (one record or a set) and `record`.
  ReadersId append(ReadersId readers, RecordId record);
  // Answers of earlier append()s; 0 = not known.
  [[nodiscard]] ReadersId remembered(ReadersId readers, RecordId record) const {
    const Step& step = steps_[step_of(readers, record)];
    return step.readers == readers && step.record == record ? step.result : 0;
  }
  void remember(ReadersId readers, RecordId record, ReadersId result) {
    steps_[step_of(readers, record)] = {readers, record, result};
  }

  // Collection: begin_mark(), mark_*() for every cell, sweep(). due() says that it pays.
  [[nodiscard]] bool due() const { return fresh_ > limit_; }
  void begin_mark();
  void mark_record(RecordId id) { records_[id].live = true; }
  void mark_readers(ReadersId id);
  void sweep();
  void set_limit(size_t limit) { limit_ = floor_ = limit; }
  [[nodiscard]] size_t live() const {
    return records_.size() + members_.size() - free_records_.size() - free_members_.size();
  }

 private:
  struct Step {
    ReadersId readers = 0;
    RecordId record = 0;
    ReadersId result = 0;
  };
  static constexpr size_t kSteps = 4096;
  static size_t step_of(ReadersId readers, RecordId record) {
    return (readers * 0x9E3779B1u ^ record * 0x85EBCA6Bu) >> 20;
  }
  static uint64_t filter_of(ActorId actor) { return uint64_t{1} << ((actor * 0x9E3779B1u) >> 26); }

  std::vector<Record> records_;
  std::vector<Member> members_;
  std::vector<uint32_t> free_records_, free_members_;
  std::array<Step, kSteps> steps_{};
  size_t fresh_ = 0, floor_ = size_t{8} << 20, limit_ = floor_;
};

// Places in code and names of copies, as one 32-bit number each.
class CodeTable {
 public:
  uint32_t of(const CodeRef& code) {
    if (code.function < kOther && code.instruction < 0x10000)
      return code.function << 16 | code.instruction;
    return other(code, {});
  }
  uint32_t of(const CodeRef& code, std::string_view what) {
    return what.empty() ? of(code) : other(code, what);
  }
  [[nodiscard]] CodeRef code(uint32_t id) const;
  [[nodiscard]] std::string_view what(uint32_t id) const;

 private:
  static constexpr uint32_t kOther = 0xffff;
  struct Other {
    CodeRef code;
    std::string_view what;
  };
  uint32_t other(const CodeRef& code, std::string_view what);
  std::vector<Other> others_;
};

}  // namespace sculler::emu::check
