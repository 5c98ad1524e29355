#include "search/evolve/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sculler::search {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"diff", "full", "crossover", "fix"};

}  // namespace

std::string_view mutation_name(Mutation mutation) {
  return kNames[static_cast<std::size_t>(mutation)];
}

Result<Mutation> parse_mutation(std::string_view word) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == word) return static_cast<Mutation>(i);
  return fail(ErrorCode::kBadInput, fmt::format("\"{}\" is no mutation", word));
}

Draw draw(const EvolveSettings& s, uint64_t seed, int64_t index, int64_t total) {
  Draw out;
  out.random = Random(seed, fmt::format("evolve {}", index));
  out.island = static_cast<int>(index % std::max<int64_t>(1, s.islands));
  out.explore = static_cast<double>(index) < s.explore * static_cast<double>(total);
  out.may_fix = out.random.unit() < s.fix;
  const Mix& mix = out.explore ? s.explore_mix : s.exploit_mix;
  const double at = out.random.unit() * (mix.diff + mix.full + mix.crossover);
  out.mutation = at < mix.diff              ? Mutation::kDiff
                 : at < mix.diff + mix.full ? Mutation::kFull
                                            : Mutation::kCrossover;
  const auto& temperatures = out.explore ? s.explore_temperatures : s.exploit_temperatures;
  const uint64_t pick = out.random.below(std::max<std::size_t>(1, temperatures.size()));
  out.temperature = temperatures.empty() ? 0 : temperatures[pick];
  return out;
}

}  // namespace sculler::search
