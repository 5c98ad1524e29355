// The part of the loop that has programs measured on GPUs which are reached in batches.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "search/kept.h"
#include "search/run.h"

namespace sculler::search {

Status Run::start_batch() {
  const auto members = batches->choose();
  if (members.empty()) return {};
  const JobFrame& frame = batches->settings().frame;
  for (const auto& member : members) {
    // That a program is to be measured is known before it is packed.
    if (auto ok =
            store_.add_attempt({member.job, member.program, frame.target, frame.size,
                                join(frame.stages, " "), static_cast<int64_t>(frame.seed), false});
        !ok)
      return ok;
  }
  const bool replaying = tape != nullptr && tape->replaying();
  const std::string folder = batches->start(members, replaying);
  std::string names;
  for (const auto& member : members)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", member.program);
  if (!replaying)
    progress_.line(
        fmt::format("      batch: programs {} go to {}; there: sh run.sh, then bring spool/ back",
                    names, folder));
  log_.write(LogLevel::kInfo, "batch", {{"folder", folder}, {"programs", names}});
  return {};
}

// What an earlier life had measured, or still awaits.
Status Run::known_measurement(int64_t program, const Candidate& candidate, double predicted) {
  const std::string job = job_id(batches->settings().frame, candidate);
  auto attempt = store_.attempt(job);
  if (!attempt) return fail(attempt.error());
  if (!*attempt) return {};
  batches->await({job, program, candidate, predicted});
  auto evaluation = store_.evaluation(job);
  if (!evaluation) return fail(evaluation.error());
  if (!*evaluation) return {};
  return measured(job, (*evaluation)->verdict, true);
}

Result<bool> Run::take_measurement() {
  if (batches == nullptr) return false;
  if (const auto trouble = batches->trouble())
    progress_.line("      batch: " + shorten(printable(trouble->text(), false), 400));
  const auto answer = batches->next();
  if (!answer) return false;
  if (auto ok = measured(answer->job, answer->verdict, false); !ok) return fail(ok.error());
  return true;
}

// By what was measured the others are judged anew.
void Run::rank_again() {
  for (auto& elite : elites_) elite.score = correction_.score(elite.program, elite.predicted);
  std::stable_sort(elites_.begin(), elites_.end(),
                   [](const Elite& a, const Elite& b) { return a.score > b.score; });
}

Status Run::measured(const std::string& job, const std::string& text, bool known) {
  const auto member = batches->settle(job);
  if (!member) {
    return fail(
        Error{ErrorCode::kProtocol,
              fmt::format("a verdict of job {} that this run did not ask for", job.substr(0, 12)),
              {},
              {},
              "replay it with the settings, task and programs that it was recorded with"});
  }
  auto verdict = parse_verdict(text, "batch, job " + job.substr(0, 12));
  if (!verdict || verdict->job != job) {
    // Brought by hand: a damaged file is no reason to end a run.
    progress_.line(fmt::format("      batch: the verdict of program {} is not readable: {}",
                               member->program,
                               verdict ? "it is of another job" : verdict.error().text()));
    return {};
  }
  if (!known) {
    store::Evaluation evaluation = evaluation_of(*verdict, text);
    evaluation.program = member->program;
    if (auto ok = keep(job, evaluation); !ok) return ok;
  }
  const double score = lowest_ratio(verdict->ratio);
  progress_.line(fmt::format(
      "{:>4}  measured {}: {}{}{}", member->program, member->candidate.label(), verdict->status,
      verdict->latency_us ? " " + microseconds_text(*verdict->latency_us) : std::string(),
      score > 0 ? fmt::format(", {:.3f}x the baseline", score)
                : ": " + shorten(printable(verdict->message), 200)));
  Outcome outcome;
  outcome.program = member->program;
  outcome.candidate = member->candidate;
  outcome.passed = verdict->right();
  outcome.status = verdict->status;
  outcome.score = score;
  outcome.verdict = text;
  outcome.measured = true;
  measured_[member->program] = {*verdict, text, *member};
  if (!verdict->right()) {
    // Machines fail too; that says nothing about the program.
    if (verdict->status == store::kNotFinal) return {};
    std::erase_if(elites_, [&](const Elite& e) { return e.program == member->program; });
    correction_.remove(member->program);
    batches->failed(member->program);
  } else {
    correction_.add(member->program, member->predicted, score);
    rank_again();
  }
  strategy_.told(outcome);
  return {};
}

// Where programs were measured, the best is one of them: a corrected prediction is for the search.
Status Run::keep_measured() {
  std::vector<Elite> kept;
  for (const auto& [program, measured] : measured_) {
    if (!measured.verdict.right() || !correction_.measured(program)) continue;
    auto evaluation = store_.evaluation(job_id(settings_.frame, measured.member.candidate));
    if (!evaluation) return fail(evaluation.error());
    if (!*evaluation) continue;
    auto verdict = parse_verdict((*evaluation)->verdict, "store");
    if (!verdict) return fail(verdict.error());
    Elite elite;
    elite.program = program;
    elite.candidate = measured.member.candidate;
    elite.verdict = std::move(*verdict);
    elite.verdict_text = (*evaluation)->verdict;
    elite.ratio = ratios(elite.verdict);
    elite.predicted = measured.member.predicted;
    elite.score = correction_.score(program, elite.predicted);
    elite.measured = measured.verdict;
    elite.measured_text = measured.text;
    kept.push_back(std::move(elite));
  }
  if (kept.empty()) return {};
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Elite& a, const Elite& b) { return a.score > b.score; });
  elites_ = std::move(kept);
  return {};
}

Status Run::await_batches() {
  if (tape != nullptr && tape->replaying()) {
    // What the recorded run did not get in time, this one does not await either.
    for (auto next = tape->peek(); next && batches->owes(next->key); next = tape->peek()) {
      if (auto ok = replay_one(); !ok) return ok;
    }
    return {};
  }
  const int64_t until =
      clock_.now_ns() + static_cast<int64_t>(batches->settings().wait_minutes * 60e9);
  for (;;) {
    auto came = take_measurement();
    if (!came) return fail(came.error());
    if (*came) continue;
    if (!batches->waiting() || clock_.now_ns() >= until) break;
    if (interrupted != nullptr && interrupted->load()) {
      summary_.why = "interrupted";
      return {};
    }
    clock_.sleep_ns(200'000'000);
  }
  if (batches->waiting())
    progress_.line(
        fmt::format("      {} verdicts of batches are owed; sculler resume takes them in "
                    "when they are there",
                    batches->owed()));
  return {};
}

}  // namespace sculler::search
