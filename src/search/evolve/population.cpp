#include "search/evolve/population.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "directive/directive.h"

namespace sculler::search {
namespace {

constexpr std::size_t kFailures = 64, kHistory = 64;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

bool repairable(const std::string& status) {
  return status != "INTERNAL" && status != "CHEAT" && status != "IMPLAUSIBLE" &&
         status != "AMBIGUOUS";
}

const Member* drawn(const std::vector<const Member*>& from, const std::vector<double>& weights,
                    Random& random) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  double at = random.unit() * sum;
  for (std::size_t i = 0; i < from.size(); ++i) {
    at -= weights[i];
    if (at < 0) return from[i];
  }
  return from.empty() ? nullptr : from.back();
}

}  // namespace

int Member::cell() const { return directive::cell(candidate.source->directive); }

std::vector<double> parent_weights(const std::vector<double>& scores,
                                   const std::vector<int64_t>& children, double lambda) {
  const double median = median_of(scores);
  std::vector<double> distances;
  for (const double score : scores) distances.push_back(std::abs(score - median));
  const double mad = median_of(distances);
  std::vector<double> out;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    // Where more than half are equal there is no spread to measure by: the sign is all there is.
    const double difference = scores[i] - median;
    const double x = mad > 0 ? difference / mad : difference > 0 ? 1 : difference < 0 ? -1 : 0;
    const double sigmoid = 1 / (1 + std::exp(-std::clamp(lambda * x, -700.0, 700.0)));
    out.push_back(sigmoid / (1 + static_cast<double>(children[i])));
  }
  return out;
}

Population::Population(int islands, int64_t archive, double lambda)
    : islands_(static_cast<std::size_t>(std::max(1, islands))),
      room_(static_cast<std::size_t>(std::max<int64_t>(1, archive / std::max(1, islands)))),
      lambda_(lambda) {}

void Population::add(Member member) {
  if (member.predicted <= 0) member.predicted = member.score;
  if (member.score > 0) member.score = correction_.score(member.program, member.predicted);
  Island& island = islands_[static_cast<std::size_t>(member.island)];
  island.history.push_back(member);
  if (island.history.size() > kHistory) island.history.pop_front();
  if (member.score <= 0) {
    if (!repairable(member.status)) return;
    island.failures.push_back(std::move(member));
    if (island.failures.size() > kFailures) island.failures.pop_front();
    return;
  }
  const auto same = std::find_if(island.archive.begin(), island.archive.end(),
                                 [&](const Member& m) { return m.program == member.program; });
  if (same != island.archive.end()) return;
  island.archive.push_back(std::move(member));
  trim(island);
}

// The lowest that is not the best of its cell goes first; then the lowest of all.
void Population::trim(Island& island) const {
  while (island.archive.size() > room_) {
    std::map<int, const Member*> best;
    for (const auto& member : island.archive) {
      const Member*& place = best[member.cell()];
      if (place == nullptr || member.score > place->score) place = &member;
    }
    const Member* out = nullptr;
    bool out_is_elite = true;
    for (const auto& member : island.archive) {
      const bool elite = best[member.cell()] == &member;
      if (out == nullptr || (out_is_elite && !elite) ||
          (elite == out_is_elite && member.score < out->score)) {
        out = &member;
        out_is_elite = elite;
      }
    }
    island.archive.erase(island.archive.begin() + (out - island.archive.data()));
  }
}

void Population::remove(int64_t program) {
  correction_.remove(program);
  for (auto& island : islands_)
    std::erase_if(island.archive, [&](const Member& m) { return m.program == program; });
}

template <class F>
void Population::each_of(int64_t program, F&& f) {
  for (auto& island : islands_) {
    for (auto& member : island.archive)
      if (member.program == program) f(member);
    for (auto& member : island.failures)
      if (member.program == program) f(member);
  }
}

void Population::confirm(int64_t program, double predicted) {
  each_of(program, [&](Member& member) {
    member.confirmed = true;
    if (predicted <= 0) return;
    member.predicted = predicted;
    member.score = correction_.score(program, predicted);
  });
}

void Population::measure(int64_t program, double score, std::shared_ptr<const std::string> verdict,
                         const std::string& line) {
  each_of(program, [&](Member& member) {
    correction_.add(program, member.predicted, score);
    member.measured = verdict;
    member.line += line;
  });
  for (auto& island : islands_)
    for (auto& member : island.archive)
      member.score = correction_.score(member.program, member.predicted);
}

void Population::count_child(int64_t program) {
  each_of(program, [](Member& member) { ++member.children; });
}
void Population::count_repair(int64_t program) {
  each_of(program, [](Member& member) { ++member.repairs; });
}

const Member* Population::parent(int island, Random& random) const {
  const auto& archive = islands_[static_cast<std::size_t>(island)].archive;
  if (archive.empty()) return nullptr;
  std::vector<const Member*> from;
  std::vector<double> scores;
  std::vector<int64_t> children;
  for (const auto& member : archive) {
    from.push_back(&member);
    scores.push_back(member.score);
    children.push_back(member.children);
  }
  return drawn(from, parent_weights(scores, children, lambda_), random);
}

const Member* Population::partner(int island, int64_t program, Random& random) const {
  const Member* first = find(program);
  const int cell = first == nullptr ? -1 : first->cell();
  std::vector<const Member*> other_cell, others;
  for (std::size_t i = 0; i < islands_.size(); ++i) {
    for (const auto& member : islands_[i].archive) {
      if (member.program == program) continue;
      others.push_back(&member);
      if (static_cast<int>(i) == island && member.cell() != cell) other_cell.push_back(&member);
    }
  }
  const auto& from = other_cell.empty() ? others : other_cell;
  if (from.empty()) return nullptr;
  std::vector<double> scores;
  std::vector<int64_t> children;
  for (const auto* member : from) {
    scores.push_back(member->score);
    children.push_back(member->children);
  }
  return drawn(from, parent_weights(scores, children, lambda_), random);
}

const Member* Population::broken(int island, int64_t most) const {
  const auto& failures = islands_[static_cast<std::size_t>(island)].failures;
  for (auto at = failures.rbegin(); at != failures.rend(); ++at)
    if (at->repairs < most && at->status != "UNSUPPORTED") return &*at;
  return nullptr;
}

std::vector<const Member*> Population::elites(std::size_t most, int64_t without) const {
  std::map<int, const Member*> best;
  for (const auto& island : islands_) {
    for (const auto& member : island.archive) {
      if (member.program == without) continue;
      const Member*& place = best[member.cell()];
      if (place == nullptr || member.score > place->score) place = &member;
    }
  }
  std::vector<const Member*> out;
  for (const auto& [cell, member] : best) out.push_back(member);
  std::stable_sort(out.begin(), out.end(),
                   [](const Member* a, const Member* b) { return a->score > b->score; });
  if (out.size() > most) out.resize(most);
  return out;
}

std::vector<const Member*> Population::best(int island, std::size_t most) const {
  std::vector<const Member*> out;
  for (const auto& member : islands_[static_cast<std::size_t>(island)].archive)
    out.push_back(&member);
  std::stable_sort(out.begin(), out.end(),
                   [](const Member* a, const Member* b) { return a->score > b->score; });
  if (out.size() > most) out.resize(most);
  return out;
}

std::vector<const Member*> Population::recent(int island, std::size_t most) const {
  const auto& history = islands_[static_cast<std::size_t>(island)].history;
  std::vector<const Member*> out;
  for (auto at = history.rbegin(); at != history.rend() && out.size() < most; ++at)
    out.push_back(&*at);
  return out;
}

std::size_t Population::size(int island) const {
  return islands_[static_cast<std::size_t>(island)].archive.size();
}

std::size_t Population::cells() const {
  std::set<int> cells;
  for (const auto& island : islands_)
    for (const auto& member : island.archive) cells.insert(member.cell());
  return cells.size();
}

const Member* Population::find(int64_t program) const {
  for (const auto& island : islands_) {
    for (const auto& member : island.archive)
      if (member.program == program) return &member;
    for (const auto& member : island.failures)
      if (member.program == program) return &member;
  }
  return nullptr;
}

double Population::best_score() const {
  double out = 0;
  for (const auto& island : islands_)
    for (const auto& member : island.archive) out = std::max(out, member.score);
  return out;
}

const Member* Population::like(const Signature& signature, double limit) const {
  for (const auto& island : islands_) {
    for (const auto& member : island.archive) {
      if (!member.signature) continue;
      if (member.signature->exact == signature.exact) return &member;
      if (limit <= 1 && likeness(*member.signature, signature) >= limit) return &member;
    }
  }
  return nullptr;
}

}  // namespace sculler::search
