// When, within an operation, a range of bytes is read or written.
#pragma once

#include <string>

#include "analyze/trace.h"

namespace sculler::analyze {

// Fractions of the operation's duration: the range is touched first after `first` of it, and for
// the last time by `last`.
struct Progress {
  double first = 0, last = 1;
};

// Kernels: as if their blocks ran one after another in the order of their numbers, each step of a
// block as long as any other. With many more blocks than fit at once that is how they run; a grid
// that fits at once is done earlier with what its last blocks touch, never later. Collectives and
// copies: evenly from the first byte to the last (each peer's part of an AllGather or ReduceScatter
// beside the others'). Library calls say nothing: reads from the start, writes at the end.
// `bytes` that the operation does not touch: {0, 1}.
[[nodiscard]] Progress when_read(const Operation& op, const Bytes& bytes);
[[nodiscard]] Progress when_written(const Operation& op, const Bytes& bytes);

// In which order a kernel walks over a range.
enum class Walk : unsigned char {
  kNone,              // no kernel, or the parts are too few to tell
  kBlocks,            // blocks in ascending order
  kBlocksDescending,  //
  kSteps,             // every block walks through all of it, ascending
  kStepsDescending,   //
  kAny,               // none of these
};
[[nodiscard]] Walk walk_of(const Span& span);
[[nodiscard]] const char* walk_name(Walk walk);  // "blocks", "blocks_descending", …, "any"

}  // namespace sculler::analyze
