#include "search/kept.h"

#include <nlohmann/json.hpp>

#include "base/hold.h"
#include "base/json.h"
#include "base/strings.h"

namespace sculler::search {

store::Program program_of(const Candidate& candidate) {
  store::Program out;
  out.parent = candidate.parent;
  out.name = candidate.source->name;
  out.origin = candidate.origin;
  out.plan = candidate.why;
  out.directive = candidate.source->has_directive
                      ? dump_json(directive::to_json(candidate.source->directive))
                      : std::string();
  out.defines = source::print(candidate.defines);
  out.source_sha256 = candidate.source->sha256;
  return out;
}

Result<Candidate> candidate_of(store::Store& store, const store::Program& program,
                               const std::string& file_name) {
  auto text = store.source(program.source_sha256);
  if (!text) return fail(text.error());
  auto source = make_source(program.name, file_name, std::move(*text));
  if (!source) return fail(source.error());
  Candidate out = usual(std::move(*source), program.origin);
  out.parent = program.parent;
  return out;
}

Result<int64_t> keep_attempt(store::Store& store, const JobFrame& frame, const Candidate& candidate,
                             const std::string& job) {
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  auto id = store.add_program(program_of(candidate), candidate.source->text);
  if (!id) return fail(id.error());
  if (auto ok = store.add_attempt({job, *id, frame.target, frame.size, join(frame.stages, " "),
                                   static_cast<int64_t>(frame.seed), candidate.baseline});
      !ok)
    return fail(ok.error());
  hold_point("attempt");
  if (auto ok = transaction->commit(); !ok) return fail(ok.error());
  return *id;
}

store::Evaluation evaluation_of(const Verdict& v, std::string text) {
  store::Evaluation out;
  out.job = v.job;
  out.status = v.status;
  out.stage = v.stage;
  out.latency_us = v.latency_us;
  out.percent_sol = v.percent_sol;
  out.verdict = std::move(text);
  return out;
}

Status keep_evaluation(store::Store& store, const store::Evaluation& evaluation) {
  auto transaction = store.begin();
  if (!transaction) return fail(transaction.error());
  if (auto added = store.add_evaluation(evaluation); !added) return fail(added.error());
  hold_point("evaluation");
  return transaction->commit();
}

Result<std::string> recorded_verdict(llm::Tape& tape, const std::string& job) {
  auto text = tape.verdict(job);
  if (!text) return text;
  auto verdict = parse_json(*text, "cassette, job " + job.substr(0, 12), std::size_t{16} << 20, 64);
  if (!verdict) return fail(verdict.error());
  if (!verdict->is_object())
    return fail(Error{ErrorCode::kProtocol,
                      "the cassette's verdict is no JSON object",
                      {},
                      "verdict",
                      "record it again"});
  (*verdict)["recorded"] = true;
  return dump_json(*verdict);
}

}  // namespace sculler::search
