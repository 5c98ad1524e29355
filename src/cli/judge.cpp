#include "cli/judge.h"

namespace sculler::cli {

Result<Judged> judge(const App& app, search::Evaluator& evaluator, const search::JobFrame& frame,
                     const search::Candidate& candidate) {
  const std::string job = search::job_id(frame, candidate);
  if (auto ok = evaluator.submit(job, search::job_line(frame, candidate, job)); !ok)
    return fail(ok.error());
  for (;;) {
    auto answer = evaluator.next(200);
    if (!answer) return fail(answer.error());
    if (app.interrupted != nullptr && app.interrupted->load())
      return fail(ErrorCode::kTimeout, "interrupted");
    if (!*answer) continue;
    auto verdict = search::parse_verdict((*answer)->verdict, "verdict");
    if (!verdict) return fail(verdict.error());
    return Judged{std::move(*verdict), std::move((*answer)->verdict)};
  }
}

}  // namespace sculler::cli
