#include "search/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "search/kept.h"

namespace sculler::search {
namespace {

constexpr std::size_t kElites = 8;
constexpr double kBetter = 1.005;

// What its strategy is told; `text`, the evaluator's line, must outlive it.
Outcome outcome_of(const Elite& elite, const std::string& text) {
  Outcome out;
  out.program = elite.program;
  out.candidate = elite.candidate;
  out.passed = elite.verdict.right();
  out.status = elite.verdict.status;
  out.score = elite.predicted;
  out.verdict = text;
  return out;
}

}  // namespace

Run::Run(store::Store& store, Files& files, Clock& clock, Evaluator& evaluator, Strategy& strategy,
         Progress& progress, Log& log, RunSettings settings)
    : store_(store),
      files_(files),
      clock_(clock),
      evaluator_(evaluator),
      strategy_(strategy),
      progress_(progress),
      log_(log),
      settings_(std::move(settings)) {}

double Run::seconds() const { return static_cast<double>(clock_.now_ns() - start_ns_) * 1e-9; }

// Over each baseline: paired measurements where the evaluator made them, else the quotient of the
// two latencies.
std::map<std::string, double> Run::ratios(const Verdict& v) const {
  std::map<std::string, double> out = v.ratio;
  if (!v.latency_us) return out;
  for (const auto& [name, us] : summary_.baseline_us) out.emplace(name, us / *v.latency_us);
  return out;
}

bool Run::is_stopped() {
  if (!summary_.why.empty()) return true;
  const auto stop = [&](const char* why) {
    summary_.why = why;
    return true;
  };
  if (interrupted != nullptr && interrupted->load()) return stop("interrupted");
  if (settings_.minutes > 0 && seconds() > settings_.minutes * 60) return stop("time");
  if (settings_.patience > 0 && since_better_ >= settings_.patience) return stop("patience");
  if (!elites_.empty()) {
    if (settings_.target_ratio > 0 && !summary_.baseline_us.empty() &&
        elites_[0].score >= settings_.target_ratio)
      return stop("target");
    const auto& sol = elites_[0].verdict.percent_sol;
    if (settings_.stop_at_percent_sol > 0 && sol && *sol >= settings_.stop_at_percent_sol)
      return stop("speed of light");
  }
  return false;
}

Status Run::start(Candidate candidate, const JobFrame& frame, bool confirmation) {
  const std::string job = job_id(frame, candidate);
  auto id = keep_attempt(store_, frame, candidate, job);
  if (!id) return fail(id.error());
  auto known = store_.evaluation(job);
  if (!known) return fail(known.error());
  Flight flight{std::move(candidate), *id, confirmation};
  if (*known && (*known)->status != store::kNotFinal) {
    flights_.emplace(job, std::move(flight));
    ++summary_.from_store;
    return finish(job, std::move((*known)->verdict), true);
  }
  std::string line = job_line(frame, flight.candidate, job);
  flights_.emplace(job, std::move(flight));
  if (tape != nullptr && tape->replaying()) return {};
  return evaluator_.submit(job, std::move(line));
}

// In the store and, where the run is recorded, on the tape, in the order of taking in.
Status Run::keep(const std::string& job, const store::Evaluation& evaluation) {
  if (auto ok = keep_evaluation(store_, evaluation); !ok) return ok;
  if (tape == nullptr || tape->replaying()) return {};
  if (auto ok = tape->keep_verdict(job, evaluation.verdict); !ok) return ok;
  return tape->took({llm::Taken::Kind::kVerdict, job});
}

Status Run::finish(const std::string& job, std::string text, bool known) {
  const auto at = flights_.find(job);
  if (at == flights_.end()) return {};  // an answer to a job that was given up
  auto verdict = parse_verdict(text, job.substr(0, 12));
  if (!verdict) return fail(verdict.error());
  const Flight flight = std::move(at->second);
  flights_.erase(at);
  // What the verdict leads to is written with it.
  auto transaction = store_.begin();
  if (!transaction) return fail(transaction.error());
  if (!known) {
    store::Evaluation evaluation = evaluation_of(*verdict, text);
    evaluation.program = flight.program;
    if (!flight.candidate.baseline) {
      if (const double worst = lowest_ratio(ratios(*verdict)); worst > 0) evaluation.ratio = worst;
    }
    if (auto ok = keep(job, evaluation); !ok) return ok;
  }
  if (auto ok = consider(flight, *verdict, text); !ok) return ok;
  return transaction->commit();
}

Status Run::consider(const Flight& flight, const Verdict& verdict, const std::string& text) {
  const Candidate& candidate = flight.candidate;
  if (candidate.baseline) {
    if (verdict.right() && verdict.latency_us) {
      summary_.baseline_us[candidate.source->name] = *verdict.latency_us;
      const auto best = summary_.baseline_us.find(summary_.best_baseline);
      if (best == summary_.baseline_us.end() || *verdict.latency_us < best->second)
        summary_.best_baseline = candidate.source->name;
    }
    baseline_rows_.insert_or_assign(candidate.source->name, std::pair{flight, verdict});
    live();
    return {};
  }
  Elite elite;
  elite.program = flight.program;
  elite.candidate = candidate;
  elite.verdict = verdict;
  elite.ratio = ratios(verdict);
  if (verdict.right()) {
    // The best of all baselines is what must be beaten. Without baselines, faster is better all the
    // same.
    elite.score = lowest_ratio(elite.ratio);
    if (elite.score == 0 && verdict.latency_us) elite.score = 1e6 / *verdict.latency_us;
    if (elite.score == 0) elite.score = 1e-9;  // right, but nothing was measured
    elite.predicted = elite.score;
    elite.score = correction_.score(flight.program, elite.predicted);
  }
  const auto reference = elite.ratio.find(reference_baseline_);
  show(flight, verdict,
       reference == elite.ratio.end() ? std::nullopt : std::optional<double>(reference->second));
  if (flight.confirmation) {
    elite.verdict_text = text;
    elite.confirmed = verdict.right();
    if (candidate.confirm) confirmed(elite, text);
    else last_confirmation_.emplace(elite, verdict.right());
    return {};
  }
  if (candidate.measurement > 0) {
    timed_again(std::move(elite), text);
    return {};
  }
  ++summary_.tally.evaluated;
  ++since_better_;
  if (verdict.right()) {
    ++summary_.tally.passed;
    if (elites_.empty() || elite.score > elites_[0].score * kBetter) since_better_ = 0;
    elite.verdict_text = text;
    place(elite);
    summary_.tally.best = elites_[0].candidate.label();
    summary_.tally.best_us = elites_[0].verdict.latency_us;
  }
  strategy_.told(outcome_of(elite, text));
  if (batches == nullptr) return {};
  batches->evaluated();
  if (verdict.right()) {
    batches->passed(flight.program, candidate, elite.predicted);
    return known_measurement(flight.program, candidate, elite.predicted);
  }
  return {};
}

// Among the elites, where it is good enough.
void Run::place(Elite elite) {
  const auto at =
      std::upper_bound(elites_.begin(), elites_.end(), elite.score,
                       [](double score, const Elite& other) { return score > other.score; });
  if (elites_.size() >= kElites && at == elites_.end()) return;
  elites_.insert(at, std::move(elite));
  if (elites_.size() > kElites) elites_.pop_back();
}

// An elite that its strategy had tried on fresh seeds, in the middle of the run.
void Run::confirmed(const Elite& elite, const std::string& text) {
  const auto at = std::find_if(elites_.begin(), elites_.end(),
                               [&](const Elite& other) { return other.program == elite.program; });
  if (at != elites_.end()) {
    if (elite.confirmed) at->confirmed = true;
    else elites_.erase(at);
  }
  if (batches != nullptr && !elite.confirmed) batches->failed(elite.program);
  Outcome outcome = outcome_of(elite, text);
  outcome.score = elite.verdict.latency_us ? elite.predicted : 0;
  outcome.confirmation = true;
  strategy_.told(outcome);
}

// A known program: what is newer counts.
void Run::timed_again(Elite elite, const std::string& text) {
  const auto at = std::find_if(elites_.begin(), elites_.end(),
                               [&](const Elite& other) { return other.program == elite.program; });
  elite.verdict_text = text;
  const Outcome outcome = outcome_of(elite, text);
  if (at != elites_.end() && judges_program(outcome.status)) {
    elite.candidate.measurement = 0;
    elite.confirmed = at->confirmed;
    elite.measured = at->measured;
    elite.measured_text = at->measured_text;
    elites_.erase(at);
    if (elite.verdict.right()) place(std::move(elite));
    summary_.tally.best = elites_.empty() ? std::string() : elites_[0].candidate.label();
    summary_.tally.best_us = elites_.empty() ? std::nullopt : elites_[0].verdict.latency_us;
  }
  strategy_.told(outcome);
}

void Run::show(const Flight& flight, const Verdict& verdict, const std::optional<double>& ratio) {
  const bool better = verdict.right() &&
                      (elites_.empty() || (ratio && flight.candidate.origin != "seed" &&
                                           verdict.latency_us && elites_[0].verdict.latency_us &&
                                           *verdict.latency_us < *elites_[0].verdict.latency_us));
  if (!settings_.show_all && !flight.candidate.baseline && !flight.confirmation &&
      (flight.candidate.origin == "tuner" || flight.candidate.origin == "model") && !better)
    return live();
  Row row;
  row.number = flight.candidate.baseline ? 0 : flight.program;
  row.label = flight.candidate.label();
  if (flight.confirmation) row.label = "confirm " + row.label;
  if (flight.candidate.measurement > 0) row.label = "again " + row.label;
  row.directive = flight.candidate.source->has_directive
                      ? directive::print(flight.candidate.source->directive)
                      : "–";
  row.proposed_by = flight.candidate.proposed_by;
  if (row.proposed_by.empty()) row.proposed_by = flight.candidate.origin;
  row.verdict = &verdict;
  row.ratio = ratio;
  row.with_proposer = settings_.show_proposer;
  progress_.line(table_row(row));
  live();
}

void Run::live() {
  summary_.tally.seconds = seconds();
  summary_.tally.usd = strategy_.usd();
  progress_.live(tally_text(summary_.tally, true));
}

// The next completion of the cassette, whatever would come first now.
Status Run::replay_one() {
  const auto next = tape->next();
  if (!next) {
    return fail(Error{ErrorCode::kProtocol,
                      "the cassette ends, but the run does not",
                      {},
                      {},
                      "replay it with the settings that it was recorded with"});
  }
  if (next->kind == llm::Taken::Kind::kVerdict) {
    auto text = recorded_verdict(*tape, next->key);
    if (!text) return fail(text.error());
    if (flights_.count(next->key) > 0) return finish(next->key, std::move(*text), false);
    if (batches != nullptr) return measured(next->key, *text, false);
  } else {
    constexpr int64_t kPatienceMs = 60'000;
    auto took = strategy_.take(kPatienceMs, next->key);
    if (!took) return fail(took.error());
    if (*took) return {};
  }
  return fail(Error{ErrorCode::kProtocol,
                    fmt::format("the cassette goes on with {}, which this run did not ask for",
                                next->key.substr(0, 16)),
                    {},
                    {},
                    "replay it with the settings, task and programs that it was recorded with"});
}

Status Run::wait_for_one() {
  if (tape != nullptr && tape->replaying()) return replay_one();
  auto took = strategy_.take(0, {});
  if (!took) return fail(took.error());
  if (*took) return {};
  if (auto came = take_measurement(); !came || *came) return came ? Status() : fail(came.error());
  if (flights_.empty()) {
    if (auto late = strategy_.take(200, {}); !late) return fail(late.error());
    live();
    return {};
  }
  auto answer = evaluator_.next(200);
  if (!answer) return fail(answer.error());
  if (*answer) {
    log_.write(LogLevel::kDebug, "verdict", {{"job", (*answer)->job}});
    return finish((*answer)->job, std::move((*answer)->verdict), false);
  }
  live();
  return {};
}

Status Run::drain() {
  while (!flights_.empty() && summary_.why != "interrupted") {
    if (auto ok = wait_for_one(); !ok) return ok;
    if (interrupted != nullptr && interrupted->load()) summary_.why = "interrupted";
  }
  return {};
}

JobFrame Run::confirm_frame() const {
  JobFrame frame = settings_.frame;
  frame.stages = confirm_stages(frame.target);
  frame.seed += 1'000'003;  // fresh inputs and schedules
  return frame;
}

JobFrame Run::frame_of(const Candidate& candidate) const {
  if (candidate.confirm) return confirm_frame();
  JobFrame frame = settings_.frame;
  frame.seed += 7919 * static_cast<uint64_t>(candidate.measurement);  // a job of its own
  return frame;
}

Status Run::confirm_best() {
  const JobFrame frame = confirm_frame();
  for (int i = 0; i < settings_.confirm && !elites_.empty(); ++i) {
    last_confirmation_.reset();
    if (auto ok = start(elites_[0].candidate, frame, true); !ok) return ok;
    if (auto ok = drain(); !ok) return ok;
    if (!last_confirmation_) return {};
    if (last_confirmation_->second) {
      Elite confirmed = std::move(last_confirmation_->first);
      confirmed.measured = elites_[0].measured;
      confirmed.measured_text = elites_[0].measured_text;
      if (!confirmed.verdict.latency_us) {
        confirmed.verdict.latency_us = elites_[0].verdict.latency_us;
        confirmed.ratio = elites_[0].ratio;
        confirmed.predicted = elites_[0].predicted;
        confirmed.score = elites_[0].score;
      }
      elites_[0] = std::move(confirmed);
      // A measurement that got worse may no longer be the best.
      if (elites_.size() > 1 && elites_[1].score > elites_[0].score * kBetter &&
          i + 1 < settings_.confirm) {
        std::stable_sort(elites_.begin(), elites_.end(),
                         [](const Elite& a, const Elite& b) { return a.score > b.score; });
        if (!elites_[0].confirmed) continue;
      }
      return {};
    }
    elites_.erase(elites_.begin());
  }
  // Nothing unconfirmed is handed out as best where confirmation was asked for.
  std::erase_if(elites_, [](const Elite& elite) { return !elite.confirmed; });
  return {};
}

// Decisions of one step are written at once.
Status Run::advance() {
  auto transaction = store_.begin();
  if (!transaction) return fail(transaction.error());
  if (auto ok = strategy_.advance(); !ok) return ok;
  return transaction->commit();
}

Result<Summary> Run::execute(const std::vector<Candidate>& baselines) {
  start_ns_ = clock_.now_ns();
  summary_.tally.budget = settings_.budget;
  auto imported = store::import_spool(
      store_, files_, settings_.spool,
      [](const std::string& job, const std::string& text) -> Result<store::Evaluation> {
        auto verdict = parse_verdict(text, job.substr(0, 12));
        if (!verdict) return fail(verdict.error());
        return evaluation_of(*verdict, text);
      });
  if (!imported) return fail(imported.error());
  log_.write(LogLevel::kInfo, "start",
             {{"imported", imported->added}, {"damaged", imported->damaged}});
  if (!baselines.empty()) reference_baseline_ = baselines[0].source->name;
  // Baselines first and to their end: every ratio needs them.
  for (const auto& baseline : baselines) {
    while (static_cast<int>(flights_.size()) >= settings_.in_flight && !is_stopped()) {
      if (auto ok = wait_for_one(); !ok) return fail(ok.error());
    }
    if (is_stopped()) break;
    if (auto ok = start(baseline, settings_.frame, false); !ok) return fail(ok.error());
  }
  if (auto ok = drain(); !ok) return fail(ok.error());
  for (const auto& baseline : baselines) {
    const auto row = baseline_rows_.find(baseline.source->name);
    if (row == baseline_rows_.end()) continue;
    const auto& [flight, verdict] = row->second;
    const auto reference = summary_.baseline_us.find(reference_baseline_);
    const bool both = reference != summary_.baseline_us.end() && verdict.latency_us;
    show(flight, verdict,
         both ? std::optional<double>(reference->second / *verdict.latency_us) : std::nullopt);
  }
  baseline_rows_.clear();
  if (settings_.frame.target != "emu" && !summary_.best_baseline.empty())
    settings_.frame.compare = {summary_.best_baseline};
  if (batches != nullptr && !summary_.best_baseline.empty())
    batches->compare_with(summary_.best_baseline);

  strategy_.begin(summary_.baseline_us);
  evaluator_.set_wake_fd(strategy_.wake_fd());
  int64_t proposed = 0;
  while (!is_stopped()) {
    if (batches != nullptr && batches->due()) {
      if (auto ok = start_batch(); !ok) return fail(ok.error());
    }
    if (auto ok = advance(); !ok) return fail(ok.error());
    const auto room = static_cast<std::size_t>(
        std::max(0, settings_.in_flight - static_cast<int>(flights_.size())));
    std::size_t limit = room;
    if (settings_.budget > 0)
      limit = std::min<std::size_t>(
          limit, static_cast<std::size_t>(std::max<int64_t>(0, settings_.budget - proposed)));
    auto candidates = limit > 0 ? strategy_.propose(limit) : std::vector<Candidate>();
    for (auto& candidate : candidates) {
      const bool confirm = candidate.confirm;
      if (!confirm && candidate.measurement == 0) ++proposed;
      const JobFrame frame = frame_of(candidate);
      if (auto ok = start(std::move(candidate), frame, confirm); !ok) return fail(ok.error());
    }
    const bool used_up = settings_.budget > 0 && proposed >= settings_.budget;
    const bool over = used_up && !strategy_.settling();
    if (flights_.empty() && candidates.empty() && (over || !strategy_.waiting())) {
      summary_.why = used_up ? "budget" : strategy_.why();
      break;
    }
    // Waits only where nothing is left to start, so that what is asked and started when is a
    // function of what was taken in before.
    if (candidates.empty()) {
      if (auto ok = wait_for_one(); !ok) return fail(ok.error());
    }
  }
  if (auto ok = drain(); !ok) return fail(ok.error());
  if (batches != nullptr && summary_.why != "interrupted") {
    if (batches->any_left()) {
      if (auto ok = start_batch(); !ok) return fail(ok.error());
    }
    if (auto ok = await_batches(); !ok) return fail(ok.error());
    if (auto ok = keep_measured(); !ok) return fail(ok.error());
  }
  if (settings_.confirm > 0 && summary_.why != "interrupted") {
    if (auto ok = confirm_best(); !ok) return fail(ok.error());
  }
  summary_.tally.seconds = seconds();
  summary_.tally.usd = strategy_.usd();
  if (!elites_.empty()) summary_.best = elites_[0];
  progress_.clear();
  log_.write(LogLevel::kInfo, "end",
             {{"why", summary_.why}, {"evaluated", summary_.tally.evaluated}});
  return summary_;
}

}  // namespace sculler::search
