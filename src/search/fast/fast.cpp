#include "search/fast/fast.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/evidence.h"
#include "agent/fence.h"
#include "base/strings.h"
#include "search/kept.h"
#include "source/lint.h"
#include "source/marks.h"

namespace sculler::search {
namespace {

constexpr std::size_t kEvidence = 6000, kWidth = 300;

bool communicates_from_host(const Source& source) {
  return std::any_of(source.files.begin(), source.files.end(),
                     [](const auto& file) { return !source::host_collectives(file.text).empty(); });
}

Candidate without_marks(std::shared_ptr<const Source> source, int64_t parent) {
  Candidate out = usual(std::move(source), "lowering");
  out.parent = parent;
  out.baseline = true;  // it has no evolve blocks yet
  return out;
}

}  // namespace

FastPath::FastPath(store::Store& store, Clock& clock, llm::Provider& provider, Trial& trial,
                   FastSettings settings, Brief brief, Marker marker, Note note)
    : store_(store),
      clock_(clock),
      provider_(provider),
      trial_(trial),
      settings_(settings),
      writer_(std::move(brief), [this](llm::Request request) { return ask(std::move(request)); }),
      marker_(std::move(marker)),
      note_(std::move(note)) {}

llm::Reply FastPath::ask(llm::Request request) {
  if (trial_.end_ns > 0) {
    const int64_t left = trial_.end_ns - clock_.now_ns();
    if (static_cast<double>(left) < settings_.call_seconds * 1e9)
      request.deadline_ns = trial_.end_ns;
  }
  return provider_.ask(request);
}

Status FastPath::stopped() const {
  if (trial_.interrupted != nullptr && trial_.interrupted->load())
    return fail(ErrorCode::kTimeout, "interrupted");
  if (trial_.end_ns > 0 && clock_.now_ns() >= trial_.end_ns)
    return fail(ErrorCode::kTimeout, "the time of the run is used up");
  return {};
}

int64_t FastPath::count(const std::string& stage) const {
  return std::count_if(outcome_.steps.begin(), outcome_.steps.end(), [&](const FastStep& step) {
    return step.stage == stage && step.outcome != "built-in";
  });
}

std::string FastPath::history(const std::string& stage) const {
  std::string out;
  for (const auto& step : outcome_.steps) {
    if (step.stage != stage) continue;
    out += step_line(step) + "\n";
    if (!step.why.empty()) out += "  said: " + step.why + "\n";
  }
  return out;
}

Result<std::shared_ptr<const Source>> FastPath::source_of(int64_t program) {
  auto found = store_.program(program);
  if (!found) return fail(found.error());
  if (!*found)
    return fail(ErrorCode::kNotFound, fmt::format("the run holds no program {}", program));
  auto text = store_.source((*found)->source_sha256);
  if (!text) return fail(text.error());
  return make_source((*found)->name, path_, std::move(*text));
}

std::string FastPath::missing(const std::string& stage, const Source& source) {
  bool communicator = false;
  for (const auto& file : source.files) {
    communicator |= source::names_word(file.text, "ncclDevCommCreate");
    if (stage == "A") continue;
    for (const auto& call : source::host_collectives(file.text)) {
      return fmt::format(
          "stage B is not done: {}:{} still names the host collective {}; every one of them must "
          "become a phase of kernels",
          file.name, call.line, call.name);
    }
  }
  if (stage == "A" && !communicator && communicates_from_host(source))
    return "stage A is not done: no device communicator is made (ncclDevCommCreate)";
  return {};
}

// The state after a step, whether it was just made or comes from the store.
Status FastPath::remember(const FastStep& step) {
  outcome_.usd += step.usd;
  outcome_.steps.push_back(step);
  last_ = {step.failure, false};
  std::string verdict;
  if (!step.job.empty() && step.outcome != "unfinished") {
    auto known = store_.evaluation(step.job);
    if (!known) return fail(known.error());
    if (*known) verdict = (*known)->verdict;
    last_ = {agent::evidence(verdict, kEvidence), true};
  }
  if (step.program == 0) return {};
  auto source = source_of(step.program);
  if (!source) return fail(source.error());
  if (step.stage == "marks") {
    if (!step.passed) return {};
    outcome_.marked = std::move(*source);
    outcome_.marked_by = step.outcome == "built-in" ? "built-in" : "annotator";
    outcome_.verdict = verdict;
    return {};
  }
  current_ = std::move(*source);
  if (!step.passed) return {};
  outcome_.verified = current_;
  outcome_.stage = step.stage;
  last_ = {};
  return {};
}

Status FastPath::restore(const FastStart* start) {
  auto facts = read_facts(store_);
  if (!facts) return fail(facts.error());
  if (!facts->begin) {
    if (start == nullptr)
      return fail(ErrorCode::kNotFound, "the run folder does not say what is to be lowered");
    path_ = start->path;
    auto source = make_source(start->name, start->path, source::without_marks(start->text));
    if (!source) return fail(source.error());
    FastBegin begin{0, start->name, start->path, start->refusal, start->stage_a_done};
    auto id = store_.add_program(program_of(usual(*source, "user")), (*source)->text);
    if (!id) return fail(id.error());
    begin.program = *id;
    if (auto ok = add_begin(store_, begin); !ok) return ok;
    facts->begin = std::move(begin);
  }
  path_ = facts->begin->path;
  outcome_.refusal = facts->begin->refusal;
  auto source = source_of(facts->begin->program);
  if (!source) return fail(source.error());
  current_ = outcome_.verified = std::move(*source);
  if (facts->begin->stage_a_done) outcome_.stage = "A";
  for (const auto& step : facts->steps)
    if (auto ok = remember(step); !ok) return ok;
  return {};
}

Status FastPath::record(FastStep step) {
  if (auto ok = add_step(store_, step); !ok) return ok;
  if (auto ok = remember(step); !ok) return ok;
  if (note_) note_(step);
  return {};
}

FastStep FastPath::next_step(const std::string& stage, int64_t number) const {
  FastStep out;
  out.stage = stage;
  out.number = number;
  out.index = static_cast<int64_t>(outcome_.steps.size());
  return out;
}

// A question that is not answered is an iteration, unless it ends the run.
Status FastPath::no_answer(const llm::Failure& fault, FastStep& step) const {
  if (fault.stops_run()) return fail(fault.error);
  if (auto ok = stopped(); !ok) return ok;
  step.outcome = llm::fault_name(fault.fault);
  step.failure = "no answer came: " + fault.error.text();
  return {};
}

Result<Verdict> FastPath::judge(const Candidate& candidate, FastStep& step) {
  auto judged = trial_.judge(candidate);
  if (!judged) return fail(judged.error());
  step.program = judged->program;
  step.job = judged->job;
  step.status = judged->verdict.status;
  step.passed = judged->verdict.right();
  step.line = agent::verdict_line(judged->text, 0, kWidth);
  return std::move(judged->verdict);
}

// A diagnosis of the last program, where it has a verdict. What a judge cannot say is no reason to
// stop, but a provider that cannot go on is.
Status FastPath::diagnose(FastView& view, FastStep& step) {
  if (!settings_.judge || !last_.verdict) return {};
  auto said = writer_.diagnose(view, step.index);
  if (!said) return fail(said.error());
  step.usd += said->usd;
  if (said->fault) {
    if (said->fault->stops_run()) return fail(said->fault->error);
    step.judge = llm::fault_name(said->fault->fault);
    return {};
  }
  step.judge = said->refused.empty() ? "ok" : "refused: " + agent::one_line(said->refused, kWidth);
  step.diagnosis = view.diagnosis = said->text;
  return {};
}

Result<FastStep> FastPath::iterate(const std::string& stage, int64_t number) {
  FastStep step = next_step(stage, number);
  FastView view;
  view.stage = stage;
  view.current = current_;
  if (outcome_.verified->sha256 != current_->sha256) view.given = outcome_.verified;
  view.refusal = outcome_.refusal;
  view.evidence = last_.text;
  view.history = history(stage);
  if (auto ok = diagnose(view, step); !ok) return fail(ok.error());
  auto said = writer_.transform(view, step.index);
  if (!said) return fail(said.error());
  step.usd += said->usd;
  step.model = said->model;
  step.why = said->why;
  if (said->fault) {
    if (auto ok = no_answer(*said->fault, step); !ok) return fail(ok.error());
    step.line = agent::one_line(step.failure, kWidth);
    return step;
  }
  if (!said->source) {
    step.outcome = "refused";
    step.failure = "the answer could not be used: " + said->refused.text();
    step.line = agent::one_line(step.failure, kWidth);
    return step;
  }
  const Candidate candidate = without_marks(said->source, 0);
  step.failure = missing(stage, *said->source);
  if (!step.failure.empty()) {
    auto id = store_.add_program(program_of(candidate), said->source->text);
    if (!id) return fail(id.error());
    step.program = *id;
    step.outcome = "unfinished";
    step.line = agent::one_line(step.failure, kWidth);
    return step;
  }
  auto verdict = judge(candidate, step);
  if (!verdict) return fail(verdict.error());
  step.outcome = "judged";
  // However it hides them from its text: what ran is what counts.
  if (step.passed && stage == "B" && verdict->host_collectives > 0) {
    step.passed = false;
    step.outcome = "unfinished";
    step.failure = fmt::format(
        "stage B is not done: the program is right, but the emulator saw {} calls of host "
        "collectives",
        verdict->host_collectives);
    step.line = step.failure;
  }
  return step;
}

Status FastPath::stage(const std::string& name, int64_t budget) {
  for (int64_t number = count(name) + 1; number <= budget; ++number) {
    if (auto ok = stopped(); !ok) return ok;
    auto step = iterate(name, number);
    if (!step) return fail(step.error());
    const bool passed = step->passed;
    if (auto ok = record(std::move(*step)); !ok) return ok;
    if (passed) return {};
  }
  const auto last = std::find_if(outcome_.steps.rbegin(), outcome_.steps.rend(),
                                 [&](const FastStep& step) { return step.stage == name; });
  return fail(Error{
      ErrorCode::kNothingPassed,
      fmt::format("stage {} did not pass in {} iteration{}{}", name, budget, budget == 1 ? "" : "s",
                  last == outcome_.steps.rend() ? std::string() : "; the last: " + last->line),
      {},
      name == "A" ? "lower.iterations_a" : "lower.iterations_b",
      "raise it and resume, or ask another model"});
}

Status FastPath::judge_marked(std::shared_ptr<const Source> source, FastStep& step) {
  if (auto verdict = judge(usual(std::move(source), "lowering"), step); !verdict)
    return fail(verdict.error());
  if (!step.passed) step.failure = "with these marks the program did not pass: " + step.line;
  return {};
}

Status FastPath::mark_without_model() {
  FastStep step = next_step("marks", count("marks") + 1);
  step.outcome = "built-in";
  const Source& program = *outcome_.verified;
  const auto& file = program.files.front();
  auto text = marker_(file.text, file.name);
  if (!text) return fail(text.error());
  if (auto ok = source::check_marks(file.text, *text, file.name); !ok) return ok;
  auto source = with_first_file(program, "lowered", std::move(*text));
  if (!source) return fail(source.error());
  if (auto ok = judge_marked(std::move(*source), step); !ok) return ok;
  const bool passed = step.passed;
  const std::string line = step.line;
  if (auto ok = record(std::move(step)); !ok) return ok;
  if (passed) return {};
  return fail(ErrorCode::kNothingPassed, "the marked program did not pass: " + line);
}

Status FastPath::marks() {
  for (int64_t number = count("marks") + 1; number <= settings_.annotations; ++number) {
    if (auto ok = stopped(); !ok) return ok;
    FastStep step = next_step("marks", number);
    auto said =
        writer_.annotate(*outcome_.verified, number > 1 ? last_.text : std::string(), step.index);
    if (!said) return fail(said.error());
    step.usd = said->usd;
    step.model = said->model;
    step.why = said->why;
    if (said->fault) {
      if (auto ok = no_answer(*said->fault, step); !ok) return ok;
    } else if (!said->source) {
      step.outcome = "refused";
      step.failure = "the marks could not be used: " + said->refused.text();
    } else {
      step.outcome = "judged";
      if (auto ok = judge_marked(said->source, step); !ok) return ok;
    }
    if (step.line.empty()) step.line = agent::one_line(step.failure, kWidth);
    const bool passed = step.passed;
    if (auto ok = record(std::move(step)); !ok) return ok;
    if (passed) return {};
  }
  return mark_without_model();
}

Status FastPath::run(const FastStart* start) {
  if (settings_.minutes > 0)
    trial_.end_ns = clock_.now_ns() + static_cast<int64_t>(settings_.minutes * 60e9);
  if (auto ok = writer_.check(); !ok) return ok;
  if (auto ok = restore(start); !ok) return ok;
  if (outcome_.marked) return {};
  if (outcome_.steps.empty()) {
    if (!communicates_from_host(*current_))
      return fail(ErrorCode::kUnsupported, "the program names no host collective of NCCL",
                  "there is nothing to lower");
    auto given = trial_.judge(without_marks(current_, 0));
    if (!given) return fail(given.error());
    if (!given->verdict.right()) {
      return fail(Error{ErrorCode::kNothingPassed,
                        "the program that was given is not right itself: " +
                            agent::verdict_line(given->text, 0, kWidth),
                        path_,
                        {},
                        "mend it first: sculler evaluate says more"});
    }
  }
  if (outcome_.stage.empty()) {
    if (auto ok = stage("A", settings_.iterations_a); !ok) return ok;
  }
  if (outcome_.stage == "A" && settings_.stage_b) {
    // A model that went further than it was asked to is done.
    if (!communicates_from_host(*outcome_.verified)) outcome_.stage = "B";
    else if (auto ok = stage("B", settings_.iterations_b); !ok) return ok;
  }
  return marks();
}

}  // namespace sculler::search
