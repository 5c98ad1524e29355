#include "eval/verdict.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/status_words.h"

namespace sculler::eval {
namespace {

struct Advice {
  std::string_view status, text;
};

constexpr std::array<Advice, status::kAll.size()> kAdvice{{
    {status::kPassed, ""},
    {status::kLintError,
     "Correct the line named in the message; text outside of the evolve blocks must stay as it "
     "was."},
    {status::kCompileError, "Correct the first error; later ones often follow from it."},
    {status::kLaunchError,
     "Check the launch configuration and the return code of every call in sculler_setup and "
     "sculler_run."},
    {status::kUnsupported,
     "Use a supported instruction or call instead, or evaluate on the cuda target."},
    {status::kIncorrect,
     "Compare the element named in the message with the reference: indices, missing waits and "
     "precision."},
    {status::kRace,
     "Order the two accesses: a barrier or a signal with release and acquire between them, between "
     "these ranks."},
    {status::kDeadlock,
     "Find who must signal the wait named in the message; keep the grid within what can be "
     "resident."},
    {status::kHang,
     "Something waits for ever: bound every spin, and check that each wait has exactly one "
     "signal."},
    {status::kUninitialised,
     "Write the memory named in the message before it is read, or wait for the rank that writes "
     "it."},
    {status::kOutOfBounds,
     "Check the index at the place named in the message against the buffer's size, ragged ends "
     "included."},
    {status::kTimeout,
     "Do less work an iteration, or look for a loop that does not end at this size."},
    {status::kOom,
     "Allocate less: the buffers of all sets are there already; keep scratch memory small."},
    {status::kCrash,
     "A rank died: look for a wild host pointer, an assertion or an unchecked return code."},
    {status::kImplausible,
     "The time is below what the hardware's rates allow: some of the work is not done."},
    {status::kCheat,
     "Do the whole work of each iteration inside sculler_run, from the inputs of that iteration."},
    {status::kAmbiguous, "The difference is within the machine's noise; look for a larger gain."},
    {status::kInternal,
     "The evaluator failed, not the candidate: look at the message and try again."},
}};
static_assert(std::all_of(status::kAll.begin(), status::kAll.end(), [](std::string_view word) {
  return std::any_of(kAdvice.begin(), kAdvice.end(),
                     [&](const Advice& entry) { return entry.status == word; });
}));

nlohmann::json interval_json(const Interval& value) {
  return {{"median", value.median}, {"low", value.low}, {"high", value.high}};
}

nlohmann::json parsed_or(const std::string& text, nlohmann::json fallback) {
  auto value = nlohmann::json::parse(text, nullptr, false);
  return value.is_discarded() ? std::move(fallback) : value;
}

void put(nlohmann::json& object, const char* key, const std::optional<double>& value) {
  if (value) object[key] = *value;
}

}  // namespace

std::string_view default_advice(std::string_view status) {
  for (const auto& entry : kAdvice) {
    if (entry.status == status) return entry.text;
  }
  return "";
}

bool is_status(std::string_view status) { return status::is_word(status); }

std::string print_verdict(const Verdict& v) {
  nlohmann::json object{
      {"version", 1},
      {"job", v.job},
      {"status", v.status},
      {"stage", v.stage},
      {"target", v.target},
      {"size", v.size},
      {"seed", static_cast<int64_t>(v.seed)},
      {"rank", v.rank},
      {"where", v.where},
      {"message", v.message},
      {"advice", v.advice.empty() ? std::string(default_advice(v.status)) : v.advice},
      {"findings", parsed_or(v.findings, nlohmann::json::array())},
      {"facts", v.facts},
      {"sha256", {{"source", v.source_sha256}, {"artifact", v.artifact_sha256}}},
      {"containment", v.containment},
      {"notes", v.notes},
      {"cost_ms", v.cost_ms},
      {"per_rank_us", v.per_rank_us}};
  if (v.latency) {
    object["latency_us"] = interval_json(v.latency->us);
    object["latency_us"]["kind"] = v.latency->kind;
    object["latency_us"]["size"] = v.latency->size;
  }
  object["ratio"] = nlohmann::json::object();
  for (const auto& [name, value] : v.ratio) object["ratio"][name] = interval_json(value);
  if (!v.comparison.empty()) {
    object["comparison"] = v.comparison;
    object["compare_call"] = v.compare_call;
    object["margin"] = v.margin;
  }
  if (v.cold_us) object["cold_us"] = interval_json(*v.cold_us);
  for (const auto& [name, value] : v.cold_ratio) object["cold_ratio"][name] = interval_json(value);
  if (v.clocks != "{}") object["clocks"] = parsed_or(v.clocks, nlohmann::json::object());
  put(object, "percent_sol", v.percent_sol);
  put(object, "percent_contended_sol", v.percent_contended_sol);
  put(object, "percent_peak", v.percent_peak);
  put(object, "tflops", v.tflops);
  put(object, "bus_gbps", v.bus_gbps);
  if (v.relative_l2 || v.max_abs) {
    object["errors"] = {{"relative_l2", v.relative_l2.value_or(0)},
                        {"max_abs", v.max_abs.value_or(0)}};
  }
  if (!v.sync_hash.empty()) object["sync_hash"] = v.sync_hash;
  if (!v.schedule.empty()) object["schedule"] = v.schedule;
  if (v.counters != "{}") object["counters"] = parsed_or(v.counters, nlohmann::json::object());
  if (v.trace != "{}") object["trace"] = parsed_or(v.trace, nlohmann::json::object());
  if (v.profile != "{}") object["profile"] = parsed_or(v.profile, nlohmann::json::object());
  if (v.external != "{}") object["external"] = parsed_or(v.external, nlohmann::json::object());
  if (!v.samples_us.empty()) object["samples_us"] = v.samples_us;
  return dump_json(object);
}

std::string internal_line(const Job& job, std::string message, std::string advice) {
  Verdict v;
  v.job = job.id;
  v.target = target_name(job.target);
  v.size = job.size;
  v.seed = job.seed;
  v.message = std::move(message);
  v.advice = std::move(advice);
  return print_verdict(v);
}

}  // namespace sculler::eval
