#include "search/fast/trial.h"

#include "search/kept.h"

namespace sculler::search {

Result<std::string> Trial::ask(const std::string& job, const Candidate& candidate) {
  if (tape != nullptr && tape->replaying()) return recorded_verdict(*tape, job);
  if (auto ok = evaluator_.submit(job, job_line(frame_, candidate, job)); !ok)
    return fail(ok.error());
  for (;;) {
    auto answer = evaluator_.next(200);
    if (!answer) return fail(answer.error());
    // Verdicts of jobs that an interrupted life left behind may come first.
    if (*answer && (*answer)->job == job) return std::move((*answer)->verdict);
    if (interrupted != nullptr && interrupted->load())
      return fail(ErrorCode::kTimeout, "interrupted");
    if (end_ns > 0 && clock_.now_ns() >= end_ns)
      return fail(ErrorCode::kTimeout, "the time of the run is used up");
  }
}

Result<Trial::Judged> Trial::judge(const Candidate& candidate) {
  Judged out;
  out.job = job_id(frame_, candidate);
  auto id = keep_attempt(store_, frame_, candidate, out.job);
  if (!id) return fail(id.error());
  out.program = *id;
  auto known = store_.evaluation(out.job);
  if (!known) return fail(known.error());
  const bool again = *known && (*known)->status != store::kNotFinal;
  for (int round = 0;; ++round) {
    if (again) {
      out.text = (*known)->verdict;
    } else {
      auto text = ask(out.job, candidate);
      if (!text) return fail(text.error());
      out.text = std::move(*text);
    }
    auto verdict = parse_verdict(out.text, out.job.substr(0, 12));
    if (!verdict) return fail(verdict.error());
    out.verdict = std::move(*verdict);
    if (again || out.verdict.status != store::kNotFinal) break;
    if (round > 0) {
      return fail(Error{ErrorCode::kChildFailed,
                        "the evaluator could not judge it: " + out.verdict.message,
                        {},
                        {},
                        out.verdict.advice});
    }
  }
  if (again) return out;
  store::Evaluation evaluation = evaluation_of(out.verdict, out.text);
  evaluation.job = out.job;
  evaluation.program = out.program;
  if (auto ok = keep_evaluation(store_, evaluation); !ok) return fail(ok.error());
  if (tape != nullptr && !tape->replaying()) {
    if (auto ok = tape->keep_verdict(out.job, out.text); !ok) return fail(ok.error());
  }
  return out;
}

}  // namespace sculler::search
