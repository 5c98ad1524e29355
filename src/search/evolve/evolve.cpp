#include "search/evolve/evolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "agent/evidence.h"
#include "agent/fence.h"
#include "base/strings.h"
#include "search/kept.h"
#include "source/edit.h"

namespace sculler::search {
namespace {

constexpr std::size_t kHistory = 8, kSummaryHistory = 40;

// Some of the bits of a mask, neither none nor all; 0 where it has fewer than two.
uint64_t some_of(uint64_t mask, Random& random) {
  std::vector<uint64_t> bits;
  for (int i = 0; i < 64; ++i)
    if (((mask >> i) & 1) != 0) bits.push_back(uint64_t{1} << i);
  if (bits.size() < 2) return 0;
  const auto in = random.below(bits.size());
  const auto out = (in + 1 + random.below(bits.size() - 1)) % bits.size();
  uint64_t some = 0;
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (i == in || (i != out && random.below(2) == 0)) some |= bits[i];
  return some;
}

}  // namespace

Evolve::Evolve(std::vector<std::shared_ptr<const Source>> seeds, EvolveSettings settings,
               AskingRun run, llm::Provider& provider, Brief brief, store::Store& store)
    : settings_(std::move(settings)),
      run_(std::move(run)),
      provider_(provider),
      store_(store),
      journal_(store),
      proposer_(std::make_unique<Proposer>(provider, settings_, std::move(brief))),
      population_(static_cast<int>(settings_.islands), settings_.archive, settings_.lambda) {
  run_.calls = calls_of(settings_.calls, run_);
  pool_ = std::make_unique<Pool<Proposal, Made>>(
      static_cast<std::size_t>(run_.calls),
      [this](std::shared_ptr<const Proposal> proposal) { return proposer_->make(proposal); });
  std::set<std::string> texts;
  for (auto& seed : seeds)
    if (texts.insert(seed->sha256).second) seeds_.push_back(std::move(seed));
  // An island with a backend gets the seeds of it; the others are dealt in turn, cell by cell, so
  // that no two islands begin alike where it can be helped.
  std::stable_sort(seeds_.begin(), seeds_.end(), [](const auto& a, const auto& b) {
    return directive::cell(a->directive) < directive::cell(b->directive);
  });
  const auto islands = static_cast<int>(population_.islands());
  int turn = 0;
  for (const auto& seed : seeds_) {
    auto& to = seed_islands_[seed->sha256];
    for (int i = 0; i < islands && !settings_.backends.empty(); ++i) {
      const auto& backend =
          settings_.backends[static_cast<std::size_t>(i) % settings_.backends.size()];
      if (backend == directive::name(seed->directive.backend)) to.push_back(i);
    }
    if (to.empty()) to.push_back(turn++ % islands);
  }
}

Evolve::~Evolve() { finish(); }

void Evolve::finish() {
  if (!pool_) return;
  provider_.stop();
  pool_.reset();
}

Status Evolve::restore() {
  if (auto ok = proposer_->check(); !ok) return ok;
  auto state = journal_.read();
  if (!state) return fail(state.error());
  summaries_ = state->summaries;
  summarized_at_ = summaries_ * std::max<int64_t>(1, settings_.summary_every);
  migrations_ = std::move(state->migrations);
  if (!state->summary.empty()) {
    auto standing = std::make_shared<Standing>();
    standing->summary = state->summary;
    standing_ = std::move(standing);
  }
  for (auto& decided : state->proposals) {
    next_ = std::max(next_, decided.index + 1);
    if (!decided.answered) {
      again_.push_back(std::move(decided));
      continue;
    }
    if (decided.program == 0 || !programs_.insert(decided.program).second) continue;
    auto program = store_.program(decided.program);
    if (!program) return fail(program.error());
    if (!*program) continue;
    auto candidate = candidate_of(store_, **program, seeds_.front()->file_name);
    if (!candidate) return fail(candidate.error());
    if (seed_islands_.count(candidate->source->sha256) > 0) continue;
    candidate->origin = "model";
    candidate->parent = decided.parent;
    candidate->why = decided.why;
    candidate->proposed_by =
        fmt::format("g{} i{} {}", decided.index + 1, decided.island, decided.model);
    auto signature = std::make_shared<Signature>(signature_of(candidate->source->text));
    made_[decided.program] = {decided.island, decided.index, decided.parent, {}, signature};
    ++candidates_;
    ready_.push_back(std::move(*candidate));
  }
  return {};
}

void Evolve::begin(const std::map<std::string, double>& baseline_us) {
  baseline_us_ = baseline_us;
  refresh_standing();
}

void Evolve::note(const std::string& text) const {
  if (run_.note) run_.note(text);
}

// Proposals that the run is planned for: the phases are shares of it.
int64_t Evolve::planned() const {
  constexpr int64_t kPaper = 50;
  if (settings_.generations > 0) return settings_.generations;
  if (run_.budget > 0)
    return std::max<int64_t>(1, run_.budget - static_cast<int64_t>(seeds_.size()));
  return kPaper;
}

bool Evolve::more() const {
  if (stopping_) return false;
  if (settings_.generations > 0 && next_ >= settings_.generations && again_.empty()) return false;
  // What is asked for may become a candidate.
  return run_.budget <= 0 ||
         static_cast<int64_t>(seeds_.size() + asked_) + candidates_ < run_.budget;
}

std::vector<Candidate> Evolve::propose(std::size_t limit) {
  std::vector<Candidate> out;
  while (out.size() < limit && seeds_proposed_ < seeds_.size())
    out.push_back(usual(seeds_[seeds_proposed_++], "seed"));
  // What an earlier life made needs its parents' verdicts no more, but the islands do.
  while (out.size() < limit && seeds_told_ == seeds_.size() && !ready_.empty()) {
    out.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return out;
}

bool Evolve::exhausted() const {
  return seeds_proposed_ == seeds_.size() && ready_.empty() && asked_ == 0 && !more();
}

std::string Evolve::history_of(const std::vector<const Member*>& members) const {
  std::string out;
  for (const auto* m : members) {
    out += agent::one_line(
        fmt::format(
            "program {} ({}{}): {}. {}", m->program, m->candidate.source->name,
            m->candidate.parent > 0 ? fmt::format(" of {}", m->candidate.parent) : std::string(),
            m->line, m->candidate.why),
        500);
    out += '\n';
  }
  return out;
}

void Evolve::refresh_standing() {
  auto standing = std::make_shared<Standing>();
  standing->summary = standing_->summary;
  for (const auto& [name, us] : baseline_us_)
    standing->table += fmt::format("baseline {}: {}\n", name, microseconds_text(us));
  for (const auto* m : population_.elites(6, 0)) {
    standing->table += agent::one_line(
        fmt::format("program {} ({}), directive {}: {}", m->program, m->candidate.source->name,
                    print(m->candidate.source->directive), m->line),
        300);
    standing->table += '\n';
  }
  standing_ = std::move(standing);
}

std::shared_ptr<Proposal> Evolve::decide(int64_t index) {
  auto p = std::make_shared<Proposal>();
  Draw d = draw(settings_, run_.seed, index, planned());
  p->index = index;
  p->island = d.island;
  p->explore = d.explore;
  p->mutation = d.mutation;
  p->temperature = d.temperature;
  const Member* broken = population_.broken(d.island, settings_.fixes);
  const Member* parent = nullptr;
  // Where nothing passes there is only repairing.
  if (broken != nullptr && (d.may_fix || population_.size(d.island) == 0)) {
    parent = broken;
    p->mutation = Mutation::kFix;
  } else {
    parent = population_.parent(d.island, d.random);
  }
  if (parent == nullptr) return nullptr;
  p->parent = *parent;
  if (p->mutation == Mutation::kCrossover) {
    if (const Member* partner = population_.partner(d.island, parent->program, d.random)) {
      p->partner = *partner;
      p->blocks = some_of(source::different_blocks(parent->candidate.source->files[0].text,
                                                   partner->candidate.source->files[0].text),
                          d.random);
    } else {
      p->mutation = Mutation::kFull;
    }
  }
  for (const auto* member :
       population_.elites(static_cast<std::size_t>(settings_.inspirations) + 1, parent->program)) {
    if (p->inspirations.size() >= static_cast<std::size_t>(settings_.inspirations)) break;
    if (p->partner && member->program == p->partner->program) continue;
    p->inspirations.push_back(*member);
  }
  if (!settings_.backends.empty())
    p->backend = settings_.backends[static_cast<std::size_t>(d.island) % settings_.backends.size()];
  p->history = history_of(population_.recent(d.island, kHistory));
  p->standing = standing_;
  return p;
}

// A program that is in no archive any more, as the store has it.
Member Evolve::member_of(int64_t program) {
  if (const Member* found = population_.find(program)) return *found;
  Member out;
  out.program = program;
  auto row = store_.program(program);
  if (!row || !*row) return out;
  auto candidate = candidate_of(store_, **row, seeds_.front()->file_name);
  if (candidate) out.candidate = std::move(*candidate);
  return out;
}

std::shared_ptr<Proposal> Evolve::decide_again(const Journal::Decided& decided) {
  auto p = std::make_shared<Proposal>();
  p->index = decided.index;
  p->island = std::min(decided.island, population_.islands() - 1);
  p->explore = decided.explore;
  p->mutation = decided.mutation;
  p->temperature = decided.temperature;
  p->blocks = decided.blocks;
  p->parent = member_of(decided.parent);
  if (!p->parent.candidate.source) return decide(decided.index);
  if (decided.partner > 0) {
    p->partner = member_of(decided.partner);
    if (!p->partner->candidate.source) return decide(decided.index);
  }
  for (const int64_t id : decided.inspirations) {
    Member member = member_of(id);
    if (member.candidate.source) p->inspirations.push_back(std::move(member));
  }
  if (!settings_.backends.empty())
    p->backend =
        settings_.backends[static_cast<std::size_t>(p->island) % settings_.backends.size()];
  p->history = history_of(population_.recent(p->island, kHistory));
  p->standing = standing_;
  return p;
}

// Every island needs a program: where all of its seeds failed it gets the best of the others.
void Evolve::deal_seeds() {
  if (dealt_) return;
  dealt_ = true;
  for (int i = 0; i < population_.islands(); ++i) {
    if (population_.size(i) > 0) continue;
    const auto best = population_.elites(static_cast<std::size_t>(population_.islands()), 0);
    if (best.empty()) continue;
    Member copy = *best[static_cast<std::size_t>(i) % best.size()];
    copy.island = i;
    copy.children = 0;
    population_.add(std::move(copy));
  }
}

Status Evolve::advance() {
  // Programs of an earlier life first: what is decided from here on builds on their verdicts.
  if (seeds_told_ < seeds_.size() || (!dealt_ && !made_.empty())) return {};
  if (!dealt_) {
    deal_seeds();
    refresh_standing();
  }
  if (settings_.generations > 0 && next_ >= settings_.generations && !stopping_)
    why_ = "generations";
  while (more() && static_cast<int64_t>(asked_ + ready_.size()) < run_.calls) {
    std::shared_ptr<Proposal> p;
    const bool again = !again_.empty();
    if (again) {
      p = decide_again(again_.front());
      again_.pop_front();
    } else {
      p = decide(next_);
    }
    if (!p) {
      // No seed passed and nothing may be repaired any more.
      if (asked_ == 0 && ready_.empty()) {
        why_ = "no program passed, and none can be repaired";
        stopping_ = true;
      }
      return {};
    }
    if (!again) {
      ++next_;
      if (auto ok = journal_.decided(*p); !ok) return ok;
    }
    if (p->mutation == Mutation::kFix) population_.count_repair(p->parent.program);
    population_.count_child(p->parent.program);
    ++asked_;
    pool_->add(std::move(p));
    // One at a time: a second one, asked before the first is there, would sum up nearly the same.
    if (settings_.summary_every > 0 && !summary_asked_ &&
        next_ - summarized_at_ >= settings_.summary_every)
      issue_summary();
    if (!again && settings_.migrate_every > 0 && population_.islands() > 1 &&
        next_ % settings_.migrate_every == 0)
      start_migration();
  }
  return {};
}

void Evolve::issue_summary() {
  summarized_at_ = next_;
  auto p = std::make_shared<Proposal>();
  p->kind = Proposal::Kind::kSummary;
  p->index = summaries_++;
  std::vector<const Member*> all;
  for (int i = 0; i < population_.islands(); ++i)
    for (const auto* member :
         population_.recent(i, kSummaryHistory / static_cast<std::size_t>(population_.islands())))
      all.push_back(member);
  if (all.empty()) return;
  p->history = history_of(all);
  p->standing = standing_;
  ++asked_;
  summary_asked_ = true;
  pool_->add(std::move(p));
}

// The island's best go over to the next one; those that were not seen twice are tried again first.
void Evolve::start_migration() {
  for (int i = 0; i < population_.islands(); ++i) {
    const auto n = static_cast<std::size_t>(std::max(
        1.0, std::round(settings_.migrate_share * static_cast<double>(population_.size(i)))));
    for (const auto* member : population_.best(i, n)) {
      emigrants_[member->program] = (i + 1) % population_.islands();
      if (member->confirmed) {
        migrate(*member);
        continue;
      }
      Candidate candidate = member->candidate;
      candidate.confirm = true;
      ready_.push_front(std::move(candidate));
    }
  }
}

void Evolve::migrate(const Member& member) {
  const auto at = emigrants_.find(member.program);
  if (at == emigrants_.end()) return;
  Member copy = member;
  copy.island = at->second;
  copy.children = 0;
  emigrants_.erase(at);
  note(fmt::format("program {} (confirmed) migrates to island {}", copy.program, copy.island));
  (void)journal_.migrated(copy.program, copy.island);
  population_.add(std::move(copy));
}

void Evolve::reward(const Born& born, double score) {
  if (born.model.empty()) return;
  double worth = 0;
  if (score > 0) {
    const Member* parent = population_.find(born.parent);
    const double before = parent != nullptr && parent->score > 0 ? parent->score : score;
    worth = worth_of(score / before);
  }
  provider_.reward(born.model, worth);
}

void Evolve::told(const Outcome& o) {
  if (o.measured) {
    told_measured(o);
    return;
  }
  if (o.confirmation) {
    if (!o.passed) {
      population_.remove(o.program);
      emigrants_.erase(o.program);
      note(fmt::format("program {} did not pass again: {}", o.program, o.status));
    } else {
      population_.confirm(o.program, o.score);
      const Member* member = population_.find(o.program);
      if (member != nullptr) migrate(Member(*member));
    }
    refresh_standing();
    return;
  }
  Member member;
  member.program = o.program;
  member.candidate = o.candidate;
  member.score = o.passed ? o.score : 0;
  member.status = o.status;
  member.verdict = std::make_shared<const std::string>(o.verdict);
  member.line = agent::verdict_line(o.verdict, member.score, 200);
  const auto born = made_.find(o.program);
  std::vector<int> islands;
  if (born != made_.end()) {
    member.signature = born->second.signature;
    islands.push_back(std::min(born->second.island, population_.islands() - 1));
    reward(born->second, member.score);
    made_.erase(born);
  } else if (const auto seed = seed_islands_.find(o.candidate.source->sha256);
             seed != seed_islands_.end()) {
    ++seeds_told_;
    member.signature = std::make_shared<Signature>(signature_of(o.candidate.source->text));
    islands = seed->second;
  }
  const auto moved = migrations_.equal_range(o.program);
  for (auto at = moved.first; at != moved.second; ++at)
    if (at->second < population_.islands() && member.score > 0) islands.push_back(at->second);
  for (const int island : islands) {
    Member copy = member;
    copy.island = island;
    population_.add(std::move(copy));
  }
  refresh_standing();
}

// A program that was predicted and is measured now.
void Evolve::told_measured(const Outcome& o) {
  if (o.passed) {
    population_.measure(o.program, o.score, std::make_shared<const std::string>(o.verdict),
                        fmt::format("; measured {}", agent::verdict_line(o.verdict, o.score, 120)));
  } else {
    population_.remove(o.program);
    emigrants_.erase(o.program);
    note(agent::one_line(fmt::format("program {} does not pass on GPUs: {}", o.program,
                                     agent::verdict_line(o.verdict, 0, 160)),
                         300));
  }
  refresh_standing();
}

void Evolve::stop(const llm::Failure& failure) {
  stopping_ = true;
  if (stopped_by_) return;
  stopped_by_ = failure.error;
  why_ = why_of(failure.fault);
}

Result<bool> Evolve::take(int64_t timeout_ms, std::string_view name) {
  if (asked_ == 0) return false;
  auto made = pool_->take(timeout_ms, name);
  if (!made) return false;
  --asked_;
  if (made->proposal->kind == Proposal::Kind::kSummary) summary_asked_ = false;
  if (run_.tape != nullptr && !run_.tape->replaying()) {
    if (auto ok = run_.tape->took({llm::Taken::Kind::kAnswer, made->proposal->name()}); !ok)
      return fail(ok.error());
  }
  if (auto ok = accept(std::move(*made)); !ok) return fail(ok.error());
  return true;
}

Status Evolve::accept(Made made) {
  const Proposal& p = *made.proposal;
  // A call that could not be made is no fact about the proposal: it is made again in a later life.
  if (made.stop) {
    const auto fault = made.stop->fault;
    if (p.kind == Proposal::Kind::kSummary &&
        (fault == llm::Fault::kSetup || fault == llm::Fault::kRefused)) {
      // Nobody serves that role: a search needs no summaries.
      settings_.summary_every = 0;
      note(agent::one_line("no more summaries: " + made.failure, 300));
      return {};
    }
    stop(*made.stop);
    return {};
  }
  if (p.kind == Proposal::Kind::kSummary) {
    if (!made.text.empty()) {
      auto standing = std::make_shared<Standing>(*standing_);
      standing->summary = made.text;
      standing_ = std::move(standing);
      note(fmt::format("summary {} by {}", p.index, made.model));
    }
    auto id = journal_.answered(made);
    if (!id) return fail(id.error());
    return {};
  }
  std::string reason;
  if (made.source) {
    // Exploring is for what is new; a small change may be all that exploiting or repairing needs.
    const bool strict = p.explore && p.mutation != Mutation::kDiff && p.mutation != Mutation::kFix;
    const Member* like = population_.like(*made.signature, strict ? settings_.novelty : 2);
    if (like != nullptr && like->candidate.source->sha256 != made.source->sha256 &&
        like->candidate.source->directive == made.source->directive &&
        like->candidate.source->files.size() == made.source->files.size() && strict)
      reason = fmt::format("not new: like program {}", like->program);
    else if (like != nullptr && like->signature->exact == made.signature->exact)
      reason = fmt::format("not new: the tokens of program {}", like->program);
    if (!reason.empty()) {
      made.source = nullptr;
      made.outcome = "not_new";
      made.failure = reason;
    }
  }
  auto id = journal_.answered(made);
  if (!id) return fail(id.error());
  const std::string who =
      fmt::format("proposal {} ({} of {}, island {}{})", p.index, mutation_name(p.mutation),
                  p.parent.program, p.island, made.model.empty() ? "" : ", " + made.model);
  if (!made.source) {
    if (!made.model.empty()) provider_.reward(made.model, 0);
    note(agent::one_line(fmt::format("{}: {}: {}", who, made.outcome, made.failure), 300));
    if (settings_.give_up > 0 && ++unusable_ >= settings_.give_up) {
      stopping_ = true;
      why_ = fmt::format("{} proposals without a usable answer", unusable_);
    }
    return {};
  }
  unusable_ = 0;
  if (!programs_.insert(*id).second || seed_islands_.count(made.source->sha256) > 0) {
    note(fmt::format("{}: the same as program {}", who, *id));
    return {};
  }
  ++candidates_;
  made_[*id] = {p.island, p.index, p.parent.program, made.model, made.signature};
  Candidate candidate = usual(made.source, "model");
  candidate.parent = p.parent.program;
  candidate.why = made.why;
  candidate.proposed_by = fmt::format("g{} i{} {}", p.index + 1, p.island, made.model);
  ready_.push_back(std::move(candidate));
  return {};
}

}  // namespace sculler::search
