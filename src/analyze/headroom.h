// How much sooner an iteration could be over if what computes and what communicates overlapped as
// far as its data flow lets them, by predicted times.
#pragma once

#include <optional>
#include <vector>

#include "analyze/graph.h"

namespace sculler::analyze {

struct Headroom {
  int rank = 0;                           // the slowest: the first three are its
  double now = 0;                         // µs, predicted for the program as it is
  double computes = 0, communicates = 0;  // µs in which at least one such operation runs
  // µs: every operation is cut into kSteps steps, each begins as soon as the bytes that it needs
  // are there. A rank's kernels run one after another, so do its transfers and its local copies.
  // What is only ordered by streams, or by a buffer that is used again, is not. No launch costs
  // anything.
  double pieces = 0;
  // µs: the busiest of a rank's computing and its communicating, whatever depends on what.
  double bound = 0;
  // The way to the end of the slowest rank: each operation begins when the one before it is over.
  // Indices into Iteration::operations.
  std::vector<std::size_t> critical;
};

// Nothing where no times were predicted.
[[nodiscard]] std::optional<Headroom> find_headroom(const Iteration& iteration,
                                                    const std::vector<Edge>& edges);

}  // namespace sculler::analyze
