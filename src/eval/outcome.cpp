#include "eval/outcome.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/verdict.h"

namespace sculler::eval {
namespace {

constexpr std::size_t kMessage = 800, kPart = 200, kFindings = 32, kIterations = 100'000;
constexpr std::size_t kObjectBytes = std::size_t{256} << 10;
constexpr std::size_t kTraceBytes = std::size_t{2} << 20;

std::string bounded(const nlohmann::json& object, std::string_view key, std::size_t width) {
  return printable(shorten(string_or(object, key, ""), width));
}

// Numbers that JSON cannot hold come as words.
std::optional<double> number_in(const nlohmann::json& object, std::string_view key) {
  const auto* member = find_member(object, key);
  if (member == nullptr) return std::nullopt;
  if (member->is_number()) return member->get<double>();
  if (member->is_string()) return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::string object_text(const nlohmann::json& object, std::string_view key,
                        std::size_t most = kObjectBytes) {
  const auto* member = find_member(object, key);
  if (member == nullptr || !member->is_object()) return "{}";
  auto text = dump_json(*member);
  return text.size() <= most ? text : "{}";
}

std::string findings_text(const nlohmann::json& object) {
  nlohmann::json kept = nlohmann::json::array();
  if (const auto* list = find_member(object, "findings"); list != nullptr && list->is_array()) {
    for (const auto& f : *list) {
      if (kept.size() == kFindings) break;
      if (!f.is_object()) continue;
      kept.push_back({{"kind", bounded(f, "kind", 40)},
                      {"text", bounded(f, "text", kMessage)},
                      {"file", bounded(f, "file", kPart)},
                      {"line", int_or(f, "line", 0)},
                      {"other_file", bounded(f, "other_file", kPart)},
                      {"other_line", int_or(f, "other_line", 0)},
                      {"rank", int_or(f, "rank", -1)}});
    }
  }
  return dump_json(kept);
}

// What the predicted iteration did when, for those who propose what comes next.
nlohmann::json timeline_of(const nlohmann::json& list) {
  nlohmann::json out = nlohmann::json::array();
  if (!list.is_array()) return out;
  for (const auto& op : list) {
    if (out.size() == 96) break;
    if (!op.is_object()) continue;
    out.push_back({{"rank", int_or(op, "rank", 0)},
                   {"stream", int_or(op, "stream", 0)},
                   {"what", bounded(op, "what", 120)},
                   {"start_us", number_or(op, "start_us", 0)},
                   {"end_us", number_or(op, "end_us", 0)},
                   {"bound", bounded(op, "bound", 20)}});
  }
  return out;
}

// The timeline beside what the trace holds already.
std::string with_timeline(const std::string& trace, const nlohmann::json& timeline) {
  auto object = parse_json(trace, "trace");
  if (!object || !object->is_object()) object = nlohmann::json::object();
  (*object)["timeline"] = timeline_of(timeline);
  return dump_json(*object);
}

void read_iterations(const nlohmann::json& object, RunResult& out) {
  const auto* list = find_member(object, "iterations");
  if (list == nullptr || !list->is_array()) return;
  for (const auto& it : *list) {
    if (out.latency_us.size() >= kIterations) break;
    if (!it.is_object() || bool_or(it, "warm_up", false)) continue;
    out.latency_us.push_back(number_or(it, "latency_ns", 0) / 1e3);
    out.agrees.push_back(bool_or(it, "clocks_agree", true));
    out.region_us.push_back(number_or(it, "region_ns", 0) / 1e3);
    const bool replayed = int_or(it, "replayed", 0) > 0;
    out.replayed = (out.latency_us.size() == 1 || out.replayed) && replayed;
    auto& ranks = out.rank_us.emplace_back();
    out.event_us.push_back(0);
    const auto* entries = find_member(it, "ranks");
    if (entries == nullptr || !entries->is_array() || entries->size() > 16) continue;
    for (const auto& r : *entries) {
      out.event_us.back() = std::max(out.event_us.back(), number_or(r, "event_ns", 0) / 1e3);
      ranks.push_back((number_or(r, "end_ns", 0) - number_or(r, "start_ns", 0)) / 1e3);
    }
  }
}

}  // namespace

RunResult parse_result(std::string_view line) {
  RunResult out;
  auto parsed = parse_json(line, "result", std::size_t{4} << 20);
  if (!parsed || !parsed->is_object()) {
    out.message = "the trusted process's answer is no JSON object";
    return out;
  }
  const auto& object = *parsed;
  const std::string status = string_or(object, "status", "");
  if (!is_status(status)) {
    out.message =
        "the trusted process gave the unknown status '" + printable(shorten(status, 40)) + "'";
    return out;
  }
  out.status = status;
  out.message = bounded(object, "message", kMessage);
  out.advice = bounded(object, "advice", kMessage);
  out.where = bounded(object, "where", kPart);
  out.rank = static_cast<int>(std::clamp<int64_t>(int_or(object, "rank", -1), -1, 63));
  out.sync_hash = bounded(object, "sync_hash", 64);
  out.schedule = bounded(object, "schedule", 64);
  if (const auto* errors = find_member(object, "errors");
      errors != nullptr && errors->is_object()) {
    out.relative_l2 = number_in(*errors, "relative_l2");
    out.max_abs = number_in(*errors, "max_abs");
  }
  out.findings = findings_text(object);
  out.counters = object_text(object, "counters");
  out.trace = object_text(object, "trace", kTraceBytes);
  read_iterations(object, out);
  out.clock_offset_us = number_or(object, "clock_offset_ns", 0) / 1e3;
  if (const auto* p = find_member(object, "predicted"); p != nullptr && p->is_object()) {
    Prediction prediction{bounded(*p, "size", 64), number_or(*p, "latency_us", 0), {}};
    if (const auto* ranks = find_member(*p, "per_rank_us"); ranks != nullptr && ranks->is_array()) {
      for (const auto& value : *ranks) {
        if (value.is_number() && prediction.per_rank_us.size() < 64)
          prediction.per_rank_us.push_back(value.get<double>());
      }
    }
    if (prediction.latency_us > 0) out.predicted = std::move(prediction);
    if (const auto* timeline = find_member(*p, "timeline"))
      out.trace = with_timeline(out.trace, *timeline);
  }
  if (const auto* notes = find_member(object, "notes"); notes != nullptr && notes->is_array()) {
    for (const auto& note : *notes) {
      if (note.is_string() && out.notes.size() < 16)
        out.notes.push_back(printable(shorten(note.get<std::string>(), kMessage)));
    }
  }
  return out;
}

bool is_our_failure(const GroupOutcome& outcome) {
  return outcome.line.empty() && !outcome.timed_out;
}

RunResult result_of(const GroupOutcome& outcome) {
  RunResult out;
  if (!outcome.line.empty()) {
    out = parse_result(outcome.line);
  } else if (outcome.timed_out) {
    out.status = "TIMEOUT";
    out.message = "no result in time, and everything was killed";
  } else {
    out.message =
        "the trusted process ended with " + outcome.trusted.text() + " and gave no result";
    const std::string said = printable(shorten(trim(outcome.trusted_error), 300));
    if (!said.empty()) out.message += ": " + said;
  }
  if (out.status == "CRASH" || out.status == "INTERNAL") {
    // 128 + signal is how sculler-rank passes a rank's signal on.
    if (outcome.ranks.code > 128 && outcome.ranks.code < 128 + 65) {
      ExitStatus inner;
      inner.signal = outcome.ranks.code - 128;
      out.message += "; a rank was " + inner.text();
      if (inner.signal == SIGSYS) out.message += ", for a call that the sandbox refuses";
    } else if (!outcome.ranks.ok()) {
      out.message += "; the ranks ended with " + outcome.ranks.text();
    }
  }
  judge_incidents(outcome.incidents, out);
  out.notes.insert(out.notes.end(), outcome.notes.begin(), outcome.notes.end());
  if (const auto printed = trim(outcome.output); !printed.empty()) {
    out.notes.push_back("printed by the ranks (not believed): " + printable(shorten(printed, 400)));
  }
  return out;
}

}  // namespace sculler::eval
