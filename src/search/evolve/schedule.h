// What proposal i is to be, as far as its index alone decides: the island, the phase, the draws.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/random.h"
#include "search/evolve/settings.h"

namespace sculler::search {

enum class Mutation : uint8_t { kDiff, kFull, kCrossover, kFix };
[[nodiscard]] std::string_view mutation_name(Mutation mutation);  // "diff", "full", …
[[nodiscard]] Result<Mutation> parse_mutation(std::string_view word);

struct Draw {
  int island = 0;
  bool explore = true;
  Mutation mutation = Mutation::kDiff;  // where nothing is repaired
  bool may_fix = false;                 // a failed program is repaired where there is one
  double temperature = 0;
  Random random{0};  // for what depends on the population
};

// `total`: proposals that the run is planned for, of which the first `explore` share explores.
[[nodiscard]] Draw draw(const EvolveSettings& settings, uint64_t seed, int64_t index,
                        int64_t total);

}  // namespace sculler::search
