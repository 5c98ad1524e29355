// Any text as what comes back: the trusted process's result line, a verdict of the spool, the
// report of a sandbox.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "eval/outcome.h"
#include "eval/sandbox_report.h"
#include "eval/verdict.h"
#include "search/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto result = eval::parse_result(text);
  if (!eval::is_status(result.status)) std::abort();
  const auto incidents = eval::parse_report(text);
  if (incidents.calls.size() > 16 || incidents.notes.size() > 8) std::abort();
  eval::judge_incidents(incidents, result);
  if (!eval::is_status(result.status)) std::abort();
  // What was read is text that a verdict can hold.
  eval::Verdict v;
  v.job = std::string(64, '0');
  v.status = result.status;
  v.message = result.message;
  v.advice = result.advice;
  v.where = result.where;
  v.rank = result.rank;
  v.relative_l2 = result.relative_l2;
  v.max_abs = result.max_abs;
  v.findings = result.findings;
  v.counters = result.counters;
  v.trace = result.trace;
  v.notes = result.notes;
  const std::string line = eval::print_verdict(v);
  if (line.find('\n') != std::string::npos) std::abort();
  const auto read = search::parse_verdict(line, "own");
  if (!read || read->status != v.status || read->message != v.message) std::abort();
  const auto foreign = search::parse_verdict(text, "spool");
  if (!foreign && foreign.error().message.empty()) std::abort();
  return 0;
}
