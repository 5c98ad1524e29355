#include "steer/table.h"

namespace sculler::steer {

void Table::erase(Entry& entry) {
  --size_;
  uint64_t hole = static_cast<uint64_t>(&entry - entries_.data());
  entry = kFreeEntry;
  uint64_t line = hole / kLine;
  // Only a line that was full can have sent entries on; one of them comes back into the hole.
  uint64_t at = line;
  for (;;) {
    const unsigned empty = which(&entries_[at * kLine], kNoId);
    const unsigned others =
        at == hole / kLine ? empty & ~(1U << static_cast<unsigned>(hole % kLine)) : empty;
    if (others != 0) return;
    if (++at == lines_) at = 0;
    Entry* e = &entries_[at * kLine];
    for (uint64_t i = 0; i < kLine; ++i) {
      if (e[i].id == kNoId) continue;
      const uint64_t home = line_of(e[i].id);
      const uint64_t from_home = at >= home ? at - home : at + lines_ - home;
      const uint64_t from_hole = at >= line ? at - line : at + lines_ - line;
      if (from_home < from_hole) continue;
      entries_[hole] = e[i];
      e[i] = kFreeEntry;
      hole = at * kLine + i;
      line = at;
      break;
    }
  }
}

}  // namespace sculler::steer
