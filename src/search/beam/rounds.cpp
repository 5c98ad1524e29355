// The rounds of a beam search: who goes on, what is learnt.
#include <fmt/format.h>

#include <algorithm>

#include "agent/evidence.h"
#include "agent/fence.h"
#include "base/strings.h"
#include "search/beam/beam.h"
#include "search/verdict.h"

namespace sculler::search::beam {
namespace {

constexpr std::size_t kEvidence = 6000, kTried = 12, kPlanInShort = 300;
constexpr int kMemoryOrder = 20;  // cut first where a prompt must fit

std::string profile_of(const Kernel& kernel) {
  std::string out = agent::evidence(*kernel.verdict, kEvidence);
  if (!kernel.measured.empty()) out += "measured on GPUs: " + kernel.measured + "\n";
  return out;
}

std::string in_short(const std::string& plan) {
  // The step, without what it rests on.
  std::string out;
  for (const auto line : split(plan, '\n'))
    if (!line.starts_with("bottleneck: ") && !line.starts_with("measured: ")) (out += line) += ' ';
  return agent::one_line(trim(out), kPlanInShort);
}

}  // namespace

Sample Beam::sample_of(const Kernel& kernel) const {
  return {kernel.program, kernel.speed, kernel.candidate.source->sha256};
}

std::string Beam::names(const std::vector<Sample>& samples) const {
  std::vector<std::string> out;
  for (const auto& sample : samples)
    out.push_back(fmt::format("{} ({})", sample.program, kernels_.at(sample.program)->line));
  return join(out, ", ");
}

Status Beam::begin_search() {
  for (const auto& [program, kernel] : kernels_)
    if (kernel->right) beam_.push_back(sample_of(*kernel));
  beam_ = next_beam(beam_, {}, settings_);
  first_ = beam_;
  if (beam_.empty()) {
    end("no seed passed");
    return {};
  }
  return begin_round();
}

// What goes on is timed again: a lucky measurement does not stay.
void Beam::begin_timing() {
  phase_ = Phase::kTiming;
  if (!settings_.remeasure) return;
  std::set<int64_t> programs;
  for (const auto& sample : beam_) {
    const Kernel& kernel = *kernels_.at(sample.program);
    const auto verdict = parse_verdict(*kernel.verdict, "verdict");
    // A prediction would say the same again.
    if (!verdict || verdict->latency_kind == "predicted") continue;
    if (!programs.insert(sample.program).second) continue;
    Candidate candidate = kernel.candidate;
    candidate.measurement = round_;
    ready_.push_back(std::move(candidate));
    ++owed_;
  }
}

Status Beam::end_timing() {
  std::vector<Sample> fresh;
  for (const auto& sample : beam_) {
    const auto& kernel = kernels_.at(sample.program);
    if (kernel->right) fresh.push_back(sample_of(*kernel));
    else note(fmt::format("program {} did not pass again: {}", sample.program, kernel->line));
  }
  beam_ = next_beam(fresh, {}, settings_);
  if (beam_.empty()) {
    end("no program passed again");
    return {};
  }
  return begin_round();
}

// The programs that get plans, and how many plans there are; as an earlier life decided it, where
// it did.
std::vector<std::shared_ptr<const Kernel>> Beam::slots(RoundFact& fact) {
  std::vector<std::shared_ptr<const Kernel>> out;
  const auto known = facts_.rounds.find(round_);
  if (known != facts_.rounds.end()) {
    for (const int64_t program : known->second.candidates) {
      const auto kernel = kernels_.find(program);
      if (kernel == kernels_.end() || !kernel->second->right) break;
      out.push_back(kernel->second);
    }
    if (!out.empty() && out.size() == known->second.candidates.size() && known->second.plans > 0 &&
        known->second.kernels > 0) {
      fact = known->second;
      return out;
    }
    out.clear();
    // A program that it decided on has no verdict any more: decided anew, under indices of its own.
    for (const auto& [number, round] : facts_.rounds) {
      next_plan_ = std::max(next_plan_, round.first_plan + round.plans);
      next_kernel_ = std::max(next_kernel_, round.first_kernel + round.plans * round.kernels);
    }
    facts_.rounds.erase(known, facts_.rounds.end());
    known_.clear();  // nobody asks for what came of them
  }
  const auto& from = settings_.sampling ? first_ : beam_;
  const std::size_t n = settings_.sampling && round_ > 0
                            ? std::max(from.size(), static_cast<std::size_t>(settings_.width))
                            : from.size();
  for (std::size_t i = 0; i < n; ++i) out.push_back(kernels_.at(from[i % from.size()].program));
  fact.round = round_;
  fact.kernels = settings_.kernels;
  fact.plans = static_cast<int64_t>(n) * settings_.plans;
  // So many that they can fill it, the last one perhaps in part.
  const int64_t left = room();
  fact.plans = std::min(fact.plans, left / fact.kernels + (left % fact.kernels > 0 ? 1 : 0));
  fact.first_plan = next_plan_;
  fact.first_kernel = next_kernel_;
  for (const auto& kernel : out) fact.candidates.push_back(kernel->program);
  return out;
}

Status Beam::begin_round() {
  phase_ = Phase::kRound;
  plans_.clear();
  fact_ = {};
  const auto programs = slots(fact_);
  if (fact_.plans == 0) {
    end("budget");
    return {};
  }
  next_plan_ = fact_.first_plan + fact_.plans;
  next_kernel_ = fact_.first_kernel + fact_.plans * fact_.kernels;
  if (facts_.rounds.find(round_) == facts_.rounds.end()) {
    if (auto ok = add_round(store_, fact_); !ok) return ok;
  }
  std::vector<Sample> shown_programs;
  for (const auto& kernel : programs) shown_programs.push_back(sample_of(*kernel));
  note(fmt::format("round {}: {}; {} plans, {} programs each", round_ + 1, names(shown_programs),
                   settings_.sampling ? 0 : fact_.plans, fact_.kernels));
  const auto memory = std::make_shared<const std::vector<agent::Item>>(
      settings_.memory ? shown(memory_.items(), kMemoryOrder) : std::vector<agent::Item>());
  for (int64_t i = 0; i < fact_.plans; ++i) {
    Planned planned;
    planned.index = fact_.first_plan + i;
    // In turn, so that a budget that ends in the middle of a round is shared.
    planned.candidate = programs[static_cast<std::size_t>(i) % programs.size()];
    planned.answered = settings_.sampling;
    plans_.push_back(std::move(planned));
  }
  for (auto& planned : plans_) {
    if (settings_.sampling) {
      begin_attempts(planned);
      continue;
    }
    auto task = std::make_shared<Task>();
    task->kind = Task::Kind::kPlan;
    task->index = planned.index;
    task->program = planned.candidate;
    task->profile = shuffled_profile(profile_of(*planned.candidate), run_.seed, planned.index);
    task->memory = memory;
    if (!settings_.faithful) {
      const auto& lines = tried_[planned.candidate->program];
      for (std::size_t j = lines.size() > kTried ? lines.size() - kTried : 0; j < lines.size(); ++j)
        task->tried += lines[j] + "\n";
    }
    tasks_.push_back(std::move(task));
  }
  return {};
}

// K questions for a plan, or for the program itself where there are no plans. Before what waits, so
// that there is something to evaluate early.
void Beam::begin_attempts(Planned& planned) {
  const int64_t first = fact_.first_kernel + (planned.index - fact_.first_plan) * fact_.kernels;
  const std::string profile =
      shuffled_profile(profile_of(*planned.candidate), run_.seed, planned.index);
  std::vector<std::shared_ptr<const Task>> tasks;
  for (int64_t k = 0; k < fact_.kernels; ++k) {
    Attempt attempt;
    attempt.index = first + k;
    planned.attempts.push_back(std::move(attempt));
    auto task = std::make_shared<Task>();
    task->kind = Task::Kind::kKernel;
    task->index = first + k;
    task->program = planned.candidate;
    task->profile = profile;
    task->plan = planned.plan;
    tasks.push_back(std::move(task));
  }
  if (settings_.sampling) tasks_.insert(tasks_.end(), tasks.begin(), tasks.end());
  else tasks_.insert(tasks_.begin(), tasks.begin(), tasks.end());
}

std::vector<Group> Beam::groups() const {
  std::vector<Group> out;
  for (const auto& planned : plans_) {
    Group group;
    group.candidate = sample_of(*planned.candidate);
    for (const auto& attempt : planned.attempts) {
      if (attempt.right) group.right.push_back(*attempt.right);
      // By the paper's code a timeout ends the plan; mended, it ends its attempt.
      if (settings_.faithful && attempt.timed_out) break;
    }
    out.push_back(std::move(group));
  }
  return out;
}

// What runs before this one learnt, as it was when this one began: the most useful of it.
Status Beam::take_over() {
  if (!facts_.shared && run_.shared != nullptr) {
    auto items = run_.shared->items(run_.target);
    if (!items) return fail(items.error());
    std::vector<MemoryItem> all;
    for (const auto& item : *items) {
      auto parsed = parse_item(item.text);
      if (!parsed) continue;
      parsed->uses = item.uses;
      parsed->wins = item.wins;
      parsed->helped = item.helped;
      all.push_back(std::move(*parsed));
    }
    std::reverse(all.begin(), all.end());
    std::stable_sort(all.begin(), all.end(), [](const MemoryItem& a, const MemoryItem& b) {
      return a.usefulness() > b.usefulness();
    });
    if (all.size() > static_cast<std::size_t>(settings_.expn))
      all.resize(static_cast<std::size_t>(settings_.expn));
    std::reverse(all.begin(), all.end());  // the best is dropped last
    if (auto ok = add_shared(store_, all); !ok) return ok;
    facts_.shared = std::move(all);
  }
  if (!facts_.shared) return {};
  for (const auto& item : *facts_.shared) (void)memory_.add(item);
  if (!facts_.shared->empty())
    note(fmt::format("{} items of the shared memory", facts_.shared->size()));
  return {};
}

// A shared memory that cannot be written is no reason to end a run.
void Beam::share(const Status& ok) {
  if (ok) return;
  note(agent::one_line("the shared memory is not written any more: " + ok.error().text(), 300));
  run_.shared = nullptr;
}

void Beam::close_round() {
  const auto all = groups();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Planned& planned = plans_[i];
    const double gain = speedup(all[i]);
    const Sample* best = fastest(all[i]);
    note(fmt::format("round {} plan {} for program {}: {}", round_ + 1, planned.index + 1,
                     planned.candidate->program,
                     best == nullptr ? std::string("nothing right")
                                     : fmt::format("program {}, {:.3f}x", best->program, gain)));
    if (planned.plan.empty()) continue;
    for (const auto& key : planned.uses) {
      const bool helped = gain > settings_.t_pos;
      memory_.used(key, run_.task, gain, helped);
      if (run_.shared != nullptr)
        share(run_.shared->used(key, run_.name, planned.index, run_.task, gain, helped));
    }
    tried_[planned.candidate->program].push_back(
        fmt::format("{}: {}",
                    best == nullptr ? std::string("no program was right")
                                    : fmt::format("{:.3f} times as fast", gain),
                    in_short(planned.plan)));
  }
  if (!settings_.sampling) beam_ = next_beam(beam_, all, settings_);
  for (auto at = facts_.kernels.lower_bound({fact_.first_kernel, 0});
       at != facts_.kernels.end() && at->first.first < next_kernel_; ++at)
    known_.erase(at->second.program);
  phase_ = Phase::kLessons;
  lessons_.clear();
  if (settings_.memory) begin_lessons(all);
}

void Beam::begin_lessons(const std::vector<Group>& all) {
  for (const auto& pair : pairs(all, settings_)) {
    lessons_.push_back({pair, std::nullopt, false});
    const Planned& planned = plans_[pair.group];
    auto task = std::make_shared<Task>();
    task->kind = Task::Kind::kLesson;
    task->index = planned.index;
    task->program = kernels_.at(pair.slow);
    task->other = kernels_.at(pair.fast);
    task->plan = planned.plan;
    task->positive = pair.positive;
    if (!settings_.faithful) task->speedup = fmt::format("{:.2f}", 1 / pair.speedup);
    tasks_.push_back(std::move(task));
  }
}

Status Beam::accept_lesson(const Done& done) {
  std::optional<MemoryItem> item;
  for (auto& lesson : lessons_) {
    if (plans_[lesson.pair.group].index != done.task->index) continue;
    lesson.over = true;
    if (!done.lesson) continue;
    item.emplace();
    item->plan = done.task->index;
    item->positive = lesson.pair.positive;
    item->slow = lesson.pair.slow;
    item->fast = lesson.pair.fast;
    item->speedup = lesson.pair.speedup;
    item->task = run_.task;
    item->target = run_.target;
    item->title = done.lesson->title;
    item->description = done.lesson->description;
    item->original = done.lesson->original;
    item->optimised = done.lesson->optimised;
    lesson.item = item;
  }
  if (done.stop) return {};
  if (!item)
    unusable(fmt::format("{}: {}: {}", who(*done.task, done.model), done.outcome, done.failure));
  return add_lesson(store_, done, item);
}

// Items go into the memory in the order of their pairs, whatever order the answers came in.
void Beam::end_lessons() {
  for (auto& lesson : lessons_) {
    if (!lesson.item) continue;
    note(fmt::format("round {} remembers {} {} to {}, {:.3f}x: {}", round_ + 1,
                     lesson.pair.positive ? "faster" : "slower", lesson.pair.slow, lesson.pair.fast,
                     lesson.pair.speedup, lesson.item->title));
    MemoryItem known = *lesson.item;
    known.plan = -1;
    known.slow = known.fast = 0;  // programs of this run say nothing to another
    if (run_.shared != nullptr) share(run_.shared->add(known.key(), known.target, print(known)));
    if (const auto dropped = memory_.add(*lesson.item))
      note(fmt::format("round {} forgets: {}", round_ + 1, dropped->title));
  }
  lessons_.clear();
  ++round_;
  if (round_ >= settings_.rounds) {
    end("rounds");
    return;
  }
  if (known_.empty() && room() == 0) {  // what an earlier life made has its part of the budget
    end("budget");
    return;
  }
  begin_timing();
}

}  // namespace sculler::search::beam
