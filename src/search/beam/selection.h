// What a round of the beam leaves: which programs go on, and from which pairs something can be
// learnt. Functions of numbers alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/beam/settings.h"

namespace sculler::search::beam {

// A program that is right.
struct Sample {
  int64_t program = 0;
  double speed = 0;  // higher is better; only quotients matter
  std::string hash;  // of its text

  friend bool operator==(const Sample&, const Sample&) = default;
};

// A plan's programs that are right, in the order of their attempts.
struct Group {
  Sample candidate;  // that the plan is for
  std::vector<Sample> right;
};

// The fastest; null where there is none.
[[nodiscard]] const Sample* fastest(const Group& group);
// Of the fastest over the candidate; 0 where there is none.
[[nodiscard]] double speedup(const Group& group);

// At most `width` programs, fastest first. The best of each group stand for it. Mended: they
// compete with the candidates they came from, and a text goes on once. Faithful: candidates only
// fill what the groups leave empty.
[[nodiscard]] std::vector<Sample> next_beam(const std::vector<Sample>& candidates,
                                            const std::vector<Group>& groups,
                                            const BeamSettings& settings);

struct Pair {
  std::size_t group = 0;
  bool positive = true;  // the group made its candidate faster
  int64_t slow = 0, fast = 0;
  double speedup = 0;  // fast over slow, above 1

  friend bool operator==(const Pair&, const Pair&) = default;
};

// At most TopK pairs, at most four of them positive: the largest speedups, then the largest
// slowdowns. A group whose fastest is slower than its candidate gives (that one, candidate); by the
// paper's rules it gives its slowest.
[[nodiscard]] std::vector<Pair> pairs(const std::vector<Group>& groups,
                                      const BeamSettings& settings);

}  // namespace sculler::search::beam
