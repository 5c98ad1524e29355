#include "search/beam/selection.h"

#include <algorithm>
#include <set>

namespace sculler::search::beam {
namespace {

bool slower(const Sample& a, const Sample& b) { return a.speed < b.speed; }

}  // namespace

const Sample* fastest(const Group& group) {
  const auto at = std::max_element(group.right.begin(), group.right.end(), slower);
  return at == group.right.end() ? nullptr : &*at;
}

double speedup(const Group& group) {
  const Sample* best = fastest(group);
  return best == nullptr || group.candidate.speed <= 0 ? 0 : best->speed / group.candidate.speed;
}

std::vector<Sample> next_beam(const std::vector<Sample>& candidates,
                              const std::vector<Group>& groups, const BeamSettings& settings) {
  const auto width = static_cast<std::size_t>(settings.width);
  const auto by_speed = [](std::vector<Sample>& samples) {
    std::stable_sort(samples.begin(), samples.end(),
                     [](const Sample& a, const Sample& b) { return slower(b, a); });
  };
  std::vector<Sample> out, before = candidates;
  for (const auto& group : groups)
    if (const Sample* best = fastest(group)) out.push_back(*best);
  by_speed(before);
  if (settings.faithful) {
    by_speed(out);
    for (std::size_t i = 0; i < before.size() && out.size() < width; ++i) out.push_back(before[i]);
  } else {
    // An equal newcomer stands behind what it came from.
    out.insert(out.begin(), before.begin(), before.end());
    by_speed(out);
    std::set<std::string> seen;
    std::erase_if(out, [&](const Sample& sample) { return !seen.insert(sample.hash).second; });
  }
  if (out.size() > width) out.resize(width);
  return out;
}

std::vector<Pair> pairs(const std::vector<Group>& groups, const BeamSettings& settings) {
  std::vector<Pair> faster, worse;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const double gain = speedup(group);
    if (gain <= 0) continue;
    const Sample& best = *fastest(group);
    if (gain > settings.t_pos) {
      faster.push_back({i, true, group.candidate.program, best.program, gain});
    } else if (gain < 1 / settings.t_neg) {
      const Sample& bad = settings.faithful
                              ? *std::min_element(group.right.begin(), group.right.end(), slower)
                              : best;
      worse.push_back(
          {i, false, bad.program, group.candidate.program, group.candidate.speed / bad.speed});
    }
  }
  const auto by_size = [](std::vector<Pair>& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Pair& a, const Pair& b) { return a.speedup > b.speedup; });
  };
  by_size(faster);
  by_size(worse);
  const auto most = static_cast<std::size_t>(settings.topk);
  if (faster.size() > std::min(kMostPositive, most)) faster.resize(std::min(kMostPositive, most));
  if (worse.size() > most - faster.size()) worse.resize(most - faster.size());
  faster.insert(faster.end(), worse.begin(), worse.end());
  return faster;
}

}  // namespace sculler::search::beam
