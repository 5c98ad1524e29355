#include "search/tuner.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "directive/directive.h"

namespace sculler::search {
namespace {

// Statuses that other values of the tunables cannot change.
bool hopeless(const std::string& status) {
  return status == "UNSUPPORTED" || status == "LINT_ERROR" || status == "CHEAT" ||
         status == "RACE" || status == "DEADLOCK" || status == "INCORRECT";
}

}  // namespace

Tuner::Tuner(std::vector<std::shared_ptr<const Source>> seeds, TunerSettings settings)
    : settings_(settings) {
  std::map<int, std::vector<std::shared_ptr<const Source>>> cells;
  std::vector<int> order;
  std::set<std::string> texts;
  for (auto& seed : seeds) {
    if (!texts.insert(seed->sha256).second) continue;
    const int cell = directive::cell(seed->directive);
    if (cells.count(cell) == 0) order.push_back(cell);
    cells[cell].push_back(std::move(seed));
  }
  for (std::size_t turn = 0; !cells.empty(); ++turn) {
    for (const int cell : order) {
      const auto at = cells.find(cell);
      if (at == cells.end()) continue;
      if (turn >= at->second.size()) {
        cells.erase(at);
        continue;
      }
      Arm arm;
      arm.source = at->second[turn];
      arm.random = std::make_unique<Random>(settings_.seed, arm.source->sha256);
      arms_.push_back(std::move(arm));
    }
  }
  for (std::size_t i = 0; i < arms_.size(); ++i)
    queue(i, source::usual_choice(arms_[i].source->tunables));
  done_ = round_.empty();
}

std::string Tuner::key(const Candidate& candidate) {
  return candidate.source->sha256 + source::print(candidate.defines);
}

void Tuner::queue(std::size_t arm, Choice choice) {
  if (settings_.budget > 0 &&
      proposed_ + static_cast<int64_t>(round_.size() - next_) >= settings_.budget)
    return;
  arms_[arm].seen.insert(choice);
  Pending pending;
  pending.arm = arm;
  pending.choice = std::move(choice);
  round_.push_back(std::move(pending));
}

std::vector<Candidate> Tuner::propose(std::size_t limit) {
  if (!done_ && next_ == round_.size() && told_ == round_.size()) {
    end_round();
    start_round();
  }
  std::vector<Candidate> out;
  while (out.size() < limit && next_ < round_.size()) {
    const Pending& pending = round_[next_];
    const Arm& arm = arms_[pending.arm];
    Candidate candidate;
    candidate.source = arm.source;
    candidate.defines = source::point(arm.source->tunables, pending.choice);
    candidate.origin = seeded_ ? "tuner" : "seed";
    candidate.parent = arm.best_program;
    index_[key(candidate)] = next_;
    ++next_;
    ++proposed_;
    out.push_back(std::move(candidate));
  }
  return out;
}

void Tuner::told(const Outcome& outcome) {
  const auto at = index_.find(key(outcome.candidate));
  if (at == index_.end()) return;
  Pending& pending = round_[at->second];
  if (pending.told) return;
  pending.told = true;
  pending.passed = outcome.passed;
  pending.score = outcome.score;
  pending.program = outcome.program;
  pending.status = outcome.status;
  ++told_;
}

bool Tuner::exhausted() const { return done_; }

// Verdicts count in order of proposal, so that the order of their arrival changes nothing.
void Tuner::end_round() {
  for (const Pending& pending : round_) {
    Arm& arm = arms_[pending.arm];
    if (!pending.passed) {
      ++arm.failures;
      if (!seeded_ && hopeless(pending.status)) arm.alive = false;
      continue;
    }
    arm.failures = 0;
    if (pending.score > arm.score || arm.best_program == 0) {
      arm.score = pending.score;
      arm.best = pending.choice;
      arm.best_program = pending.program;
    }
  }
  round_.clear();
  index_.clear();
  next_ = told_ = 0;
  if (!seeded_) {
    // Tunables do not make up for a factor of four.
    double best = 0;
    for (const Arm& arm : arms_) best = std::max(best, arm.score);
    for (Arm& arm : arms_)
      arm.alive = arm.alive && (arm.best_program == 0 || arm.score * 4 >= best);
    seeded_ = true;
    return;
  }
  // The better half goes on; a source that only fails leaves after six points.
  std::vector<std::size_t> alive;
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    Arm& arm = arms_[i];
    if (arm.best_program == 0 && arm.failures >= 6) arm.alive = false;
    if (arm.alive && !arm.used_up) alive.push_back(i);
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [&](std::size_t a, std::size_t b) { return arms_[a].score > arms_[b].score; });
  for (std::size_t i = (alive.size() + 1) / 2; i < alive.size(); ++i) arms_[alive[i]].alive = false;
}

bool Tuner::random_choice(Arm& arm, Choice& out) {
  const auto& tunables = arm.source->tunables;
  const uint64_t size = source::space_size(tunables);
  if (arm.seen.size() >= size) return false;
  for (int attempt = 0; attempt < 64; ++attempt) {
    out.clear();
    for (const auto& tunable : tunables)
      out.push_back(static_cast<std::size_t>(arm.random->below(tunable.values.size())));
    if (arm.seen.count(out) == 0) return true;
  }
  // Nearly used up: the next unseen point in order. At most seen.size() + 1 steps.
  out.assign(tunables.size(), 0);
  while (arm.seen.count(out) > 0) {
    std::size_t axis = tunables.size();
    while (axis-- > 0) {
      if (++out[axis] < tunables[axis].values.size()) break;
      out[axis] = 0;
    }
  }
  return true;
}

void Tuner::fill(std::size_t index, int64_t points) {
  Arm& arm = arms_[index];
  const auto& tunables = arm.source->tunables;
  const auto add = [&](Choice choice) {
    const std::size_t before = round_.size();
    if (arm.seen.count(choice) == 0) queue(index, std::move(choice));
    points -= static_cast<int64_t>(round_.size() - before);
  };
  if (!arm.best.empty()) {
    // Two thirds along the axes, in an order of the arm's own; neighbours first, then the rest of
    // the axis.
    int64_t along = (2 * points + 2) / 3;
    std::vector<std::size_t> axes(tunables.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    for (std::size_t i = axes.size(); i > 1; --i)
      std::swap(axes[i - 1], axes[arm.random->below(i)]);
    for (std::size_t distance = 1; distance < 64 && along > 0; ++distance) {
      for (const std::size_t axis : axes) {
        for (const int sign : {1, -1}) {
          const auto value =
              static_cast<int64_t>(arm.best[axis]) + sign * static_cast<int64_t>(distance);
          if (value < 0 || value >= static_cast<int64_t>(tunables[axis].values.size()) ||
              along <= 0)
            continue;
          Choice choice = arm.best;
          choice[axis] = static_cast<std::size_t>(value);
          const int64_t before = points;
          add(std::move(choice));
          along -= before - points;
        }
      }
    }
  }
  for (Choice choice; points > 0;) {
    if (!random_choice(arm, choice)) {
      arm.used_up = true;
      return;
    }
    const int64_t before = points;
    add(choice);
    if (points == before) return;  // the budget is used up
  }
}

void Tuner::start_round() {
  if (settings_.budget > 0 && proposed_ >= settings_.budget) {
    done_ = true;
    return;
  }
  const auto in_rounds = [&] {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      Arm& arm = arms_[i];
      if (arm.seen.size() >= source::space_size(arm.source->tunables)) arm.used_up = true;
      if (arm.alive && !arm.used_up) out.push_back(i);
    }
    return out;
  };
  std::vector<std::size_t> alive = in_rounds();
  if (alive.empty()) {
    // The finalists' spaces are used up: those that were halved away come back, unless they never
    // passed.
    for (auto& arm : arms_) arm.alive = arm.best_program != 0;
    alive = in_rounds();
  }
  if (alive.empty()) {
    done_ = true;
    return;
  }
  int64_t points = settings_.round_points;
  if (settings_.budget > 0) {
    const int64_t left = settings_.budget - proposed_;
    const auto rounds =
        static_cast<int64_t>(std::ceil(std::log2(static_cast<double>(alive.size())))) + 1;
    points = std::clamp<int64_t>(left / (rounds * static_cast<int64_t>(alive.size())), 1,
                                 settings_.round_points);
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [&](std::size_t a, std::size_t b) { return arms_[a].score > arms_[b].score; });
  for (const std::size_t index : alive) fill(index, points);
  if (round_.empty()) done_ = true;
}

}  // namespace sculler::search
