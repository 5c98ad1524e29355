#include "search/beam/beam.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/evidence.h"
#include "agent/fence.h"
#include "base/status_words.h"
#include "base/strings.h"
#include "search/kept.h"
#include "search/verdict.h"

namespace sculler::search::beam {
namespace {

constexpr std::size_t kEvidence = 6000;

// What a repair can mend: not the machine, not a feature that is not there, not a deceit.
bool can_be_mended(std::string_view said) { return judges_program(said) && said != status::kCheat; }

}  // namespace

Beam::Beam(std::vector<std::shared_ptr<const Source>> seeds, BeamSettings settings, BeamRun run,
           llm::Provider& provider, Brief brief, store::Store& store)
    : settings_(effective(std::move(settings))),
      run_(std::move(run)),
      provider_(provider),
      store_(store),
      writer_(std::make_unique<Writer>(provider, settings_, std::move(brief))),
      memory_(static_cast<std::size_t>(settings_.expn), settings_.faithful) {
  run_.calls = calls_of(settings_.calls, run_);
  pool_ = std::make_unique<Pool<Task, Done>>(
      static_cast<std::size_t>(run_.calls),
      [this](std::shared_ptr<const Task> task) { return writer_->carry_out(std::move(task)); });
  for (auto& seed : seeds) {
    if (!seed_hashes_.insert(seed->sha256).second) continue;
    hashes_.insert(seed->sha256);
    seeds_.push_back(std::move(seed));
  }
}

Beam::~Beam() { finish(); }

void Beam::finish() {
  if (!pool_) return;
  provider_.stop();
  pool_.reset();
}

Status Beam::restore() {
  if (auto ok = writer_->check(); !ok) return ok;
  auto facts = read_facts(store_);
  if (!facts) return fail(facts.error());
  facts_ = std::move(*facts);
  for (const auto& [number, round] : facts_.rounds) {
    const int64_t end = round.first_kernel + round.plans * round.kernels;
    for (auto at = facts_.kernels.lower_bound({round.first_kernel, 0});
         at != facts_.kernels.end() && at->first.first < end; ++at)
      if (at->second.program > 0) known_.insert(at->second.program);
  }
  if (!settings_.memory) return {};
  if (auto ok = take_over(); !ok) return ok;
  // What a cassette says was told to the memory when it was recorded.
  if (run_.tape != nullptr && run_.tape->replaying()) run_.shared = nullptr;
  return {};
}

void Beam::note(const std::string& text) const {
  if (run_.note) run_.note(text);
}

int64_t Beam::room() const {
  if (run_.budget <= 0) return INT64_MAX;
  const auto taken = static_cast<int64_t>(seeds_.size() + known_.size()) + candidates_ + writing_;
  return std::max<int64_t>(0, run_.budget - taken);
}

std::vector<Candidate> Beam::propose(std::size_t limit) {
  std::vector<Candidate> out;
  while (out.size() < limit && seeds_proposed_ < seeds_.size())
    out.push_back(usual(seeds_[seeds_proposed_++], "seed"));
  while (out.size() < limit && !ready_.empty()) {
    out.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return out;
}

bool Beam::exhausted() const {
  return phase_ == Phase::kEnd && ready_.empty() && asked_ == 0 && seeds_proposed_ == seeds_.size();
}

bool Beam::Planned::over() const {
  return answered && std::all_of(attempts.begin(), attempts.end(),
                                 [](const Attempt& attempt) { return attempt.over; });
}

Beam::Planned& Beam::planned(int64_t index) {
  return plans_.at(static_cast<std::size_t>(index - fact_.first_plan));
}

Beam::Attempt& Beam::attempt(int64_t index) {
  const int64_t at = index - fact_.first_kernel;
  return plans_.at(static_cast<std::size_t>(at / fact_.kernels))
      .attempts.at(static_cast<std::size_t>(at % fact_.kernels));
}

Beam::Planned& Beam::planned_of(const Attempt& attempt) {
  return plans_.at(static_cast<std::size_t>((attempt.index - fact_.first_kernel) / fact_.kernels));
}

Status Beam::advance() {
  for (;;) {
    const Phase before = phase_;
    if (auto ok = issue(); !ok) return ok;
    switch (phase_) {
      case Phase::kSeeds:
        if (seeds_told_ < seeds_.size()) return {};
        if (auto ok = begin_search(); !ok) return ok;
        break;
      case Phase::kTiming:
        if (owed_ > 0) return {};
        if (auto ok = end_timing(); !ok) return ok;
        break;
      case Phase::kRound:
        if (!std::all_of(plans_.begin(), plans_.end(),
                         [](const Planned& planned) { return planned.over(); }))
          return {};
        close_round();
        break;
      case Phase::kLessons:
        if (!std::all_of(lessons_.begin(), lessons_.end(),
                         [](const Lesson& lesson) { return lesson.over; }))
          return {};
        end_lessons();
        break;
      case Phase::kEnd: return {};
    }
    if (phase_ == before) return {};
  }
}

// Asks as much as may be asked; what an earlier life was answered is taken from the store.
Status Beam::issue() {
  while (!tasks_.empty() && static_cast<int64_t>(asked_) < run_.calls) {
    const auto task = tasks_.front();
    tasks_.pop_front();
    const bool program = task->kind == Task::Kind::kKernel || task->kind == Task::Kind::kFix;
    bool known = false;
    if (auto ok = answer_known(*task, known); !ok) return ok;
    if (known) continue;
    if (program && room() == 0) {
      attempt(task->index).over = true;
      continue;
    }
    // A plan that no program can follow is not paid for.
    if (task->kind == Task::Kind::kPlan && room() == 0) {
      planned(task->index).answered = true;
      continue;
    }
    if (program) ++writing_;
    ++asked_;
    pool_->add(task);
  }
  return {};
}

Status Beam::answer_known(const Task& task, bool& known) {
  if (task.kind == Task::Kind::kPlan) {
    const auto at = facts_.plans.find(task.index);
    known = at != facts_.plans.end();
    return known ? accept_plan(at->second) : Status();
  }
  if (task.kind == Task::Kind::kLesson) {
    const auto at = facts_.lessons.find({task.index, task.program->program, task.other->program});
    known = at != facts_.lessons.end();
    for (auto& lesson : lessons_) {
      if (!known || plans_[lesson.pair.group].index != task.index) continue;
      lesson.item = at->second;
      lesson.over = true;
    }
    return {};
  }
  const auto at = facts_.kernels.find({task.index, task.fix});
  if (at == facts_.kernels.end()) return {};
  std::shared_ptr<const Source> source;
  if (at->second.program > 0) {
    auto program = store_.program(at->second.program);
    if (!program) return fail(program.error());
    if (!*program) return {};
    auto candidate = candidate_of(store_, **program, seeds_.front()->file_name);
    if (!candidate) return fail(candidate.error());
    source = candidate->source;
    hashes_.insert(source->sha256);
  }
  known = true;
  return accept_kernel(at->second, source);
}

Result<bool> Beam::take(int64_t timeout_ms, std::string_view name) {
  if (asked_ == 0) return false;
  auto done = pool_->take(timeout_ms, name);
  if (!done) return false;
  --asked_;
  if (run_.tape != nullptr && !run_.tape->replaying()) {
    if (auto ok = run_.tape->took({llm::Taken::Kind::kAnswer, done->name()}); !ok)
      return fail(ok.error());
  }
  if (auto ok = accept(std::move(*done)); !ok) return fail(ok.error());
  return true;
}

std::string Beam::who(const Task& task, const std::string& model) const {
  return fmt::format("round {} {}{}", round_ + 1, task.name(), model.empty() ? "" : ", " + model);
}

void Beam::unusable(const std::string& what) {
  note(agent::one_line(what, 300));
  if (settings_.give_up > 0 && ++unusable_ >= settings_.give_up)
    end(fmt::format("{} answers that could not be used", unusable_));
}

Status Beam::accept(Done done) {
  const Task& task = *done.task;
  const bool program = task.kind == Task::Kind::kKernel || task.kind == Task::Kind::kFix;
  if (program) --writing_;
  // A call that could not be made is no fact: it is made again in a later life.
  if (done.stop) {
    const auto fault = done.stop->fault;
    const bool nobody = fault == llm::Fault::kSetup || fault == llm::Fault::kRefused;
    if (task.kind != Task::Kind::kLesson || !nobody) {
      stop(*done.stop);
      return {};
    }
    settings_.memory = false;
    note(agent::one_line("nothing more is remembered: " + done.failure, 300));
    return accept_lesson(done);
  }
  if (task.kind == Task::Kind::kLesson) return accept_lesson(done);
  if (task.kind == Task::Kind::kPlan) {
    PlanFact fact{task.index, done.outcome, done.failure, done.model, {}, {}};
    if (done.plan) {
      fact.plan = agent::print(*done.plan);
      for (const std::size_t number : done.plan->uses)
        fact.uses.push_back(memory_.items().at(number - 1).key());
    }
    if (auto ok = add_plan(store_, fact, done.usd); !ok) return ok;
    if (stopping_) return {};
    if (done.plan) unusable_ = 0;
    else unusable(fmt::format("{}: {}: {}", who(task, done.model), done.outcome, done.failure));
    return accept_plan(std::move(fact));
  }
  KernelFact fact{task.index, task.fix, done.outcome,         done.failure, done.model,
                  done.why,   0,        task.program->program};
  if (done.source && !settings_.faithful && !hashes_.insert(done.source->sha256).second) {
    done.source = nullptr;
    fact.outcome = "not_new";
    fact.failure = "the text of a program that was there before";
  }
  if (auto ok = add_kernel(store_, fact, done); !ok) return ok;
  if (stopping_) return {};
  if (done.source) {
    unusable_ = 0;
  } else {
    if (!done.model.empty()) provider_.reward(done.model, 0);
    unusable(fmt::format("{}: {}: {}", who(task, done.model), fact.outcome, fact.failure));
    if (stopping_) return {};
  }
  attempt(task.index).model = done.model;
  return accept_kernel(fact, done.source);
}

Status Beam::accept_plan(PlanFact fact) {
  Planned& p = planned(fact.index);
  p.answered = true;
  p.plan = std::move(fact.plan);
  p.uses = std::move(fact.uses);
  if (!p.plan.empty()) begin_attempts(p);
  return {};
}

Status Beam::accept_kernel(const KernelFact& fact, const std::shared_ptr<const Source>& source) {
  Attempt& a = attempt(fact.index);
  if (!source) {
    a.over = true;
    return {};
  }
  known_.erase(fact.program);
  // By the paper's rules a text may come twice: it has one verdict.
  if (const auto known = kernels_.find(fact.program); known != kernels_.end()) {
    settle(a, known->second);
    return {};
  }
  auto& owners = owners_[fact.program];
  owners.push_back(a.index);
  if (owners.size() > 1) return {};
  ++candidates_;
  Candidate candidate = usual(source, "model");
  candidate.parent = fact.parent;
  candidate.why = fact.why;
  candidate.proposed_by =
      fmt::format("r{} p{} {}", round_ + 1, planned_of(a).index + 1, fact.model);
  ready_.push_back(std::move(candidate));
  return {};
}

// The verdict of an attempt's program is there.
void Beam::settle(Attempt& a, const std::shared_ptr<const Kernel>& kernel) {
  reward(a, *kernel);
  if (kernel->right) {
    a.right = sample_of(*kernel);
    a.over = true;
    return;
  }
  const auto verdict = parse_verdict(*kernel->verdict, "verdict");
  const std::string said = verdict ? verdict->status : status::kInternal;
  a.timed_out = said == status::kTimeout;
  if (a.fix >= settings_.fixes || !can_be_mended(said) || stopping_) {
    a.over = true;
    return;
  }
  const Planned& p = planned_of(a);
  auto task = std::make_shared<Task>();
  task->kind = Task::Kind::kFix;
  task->index = a.index;
  task->fix = ++a.fix;
  task->step = (a.fix - 1) * (settings_.retries + 1);
  task->program = kernel;
  task->other = p.candidate;
  task->profile = agent::evidence(*kernel->verdict, kEvidence);
  task->plan = p.plan;
  tasks_.push_front(std::move(task));
}

void Beam::reward(const Attempt& a, const Kernel& kernel) {
  if (a.model.empty()) return;
  double worth = 0;
  const Kernel& before = *planned_of(a).candidate;
  if (kernel.right && before.speed > 0) worth = worth_of(kernel.speed / before.speed);
  provider_.reward(a.model, worth);
}

std::shared_ptr<const Kernel> Beam::kernel_of(const Outcome& o) const {
  auto out = std::make_shared<Kernel>();
  out->program = o.program;
  out->candidate = o.candidate;
  out->candidate.measurement = 0;
  out->right = o.passed;
  out->verdict = std::make_shared<const std::string>(o.verdict);
  out->line = agent::verdict_line(o.verdict, o.passed ? o.score : 0, 200);
  if (o.passed) {
    out->speed = o.score;
    // The paper compares times; pairs with the baseline, where there are any, are steadier.
    const auto verdict = parse_verdict(o.verdict, "verdict");
    if (settings_.faithful && verdict && verdict->latency_us)
      out->speed = 1e6 / *verdict->latency_us;
  }
  return out;
}

void Beam::told(const Outcome& o) {
  if (o.measured || o.confirmation) {
    // On GPUs, in a batch: models are told; what does not pass there goes on no more.
    const auto at = kernels_.find(o.program);
    if (at == kernels_.end()) return;
    auto kernel = std::make_shared<Kernel>(*at->second);
    kernel->measured = agent::verdict_line(o.verdict, o.score, 160);
    kernel->right = o.passed;
    // By the paper's rules speeds are of times that were predicted; a ratio is none.
    if (o.passed && !settings_.faithful) kernel->speed = o.score;
    at->second = kernel;
    std::erase_if(beam_, [&](const Sample& s) { return s.program == o.program && !o.passed; });
    return;
  }
  const auto kernel = kernel_of(o);
  if (o.candidate.measurement > 0) {
    if (owed_ > 0) --owed_;
    if (judges_program(o.status)) kernels_[o.program] = kernel;
    return;
  }
  kernels_[o.program] = kernel;
  if (o.candidate.origin == "seed" && seed_hashes_.count(o.candidate.source->sha256) > 0) {
    ++seeds_told_;
    return;
  }
  const auto owners = owners_.find(o.program);
  if (owners == owners_.end()) return;
  const auto waiting = std::move(owners->second);
  owners_.erase(owners);
  if (phase_ != Phase::kRound) return;
  for (const int64_t index : waiting) settle(attempt(index), kernel);
}

void Beam::end(std::string why) {
  why_ = std::move(why);
  stopping_ = true;
  phase_ = Phase::kEnd;
  tasks_.clear();
}

void Beam::stop(const llm::Failure& failure) {
  if (!stopped_by_) {
    stopped_by_ = failure.error;
    why_ = why_of(failure.fault);
  }
  end(why_);
}

}  // namespace sculler::search::beam
