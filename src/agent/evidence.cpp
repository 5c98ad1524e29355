#include "agent/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strings.h"

namespace sculler::agent {
namespace {

constexpr std::size_t kWidth = 400, kFindings = 8, kOps = 24;

using nlohmann::json;

std::string text_of(const json& object, std::string_view key, std::size_t width = kWidth) {
  return printable(shorten(string_or(object, key, ""), width));
}

const json* member(const json& object, std::string_view key, json::value_t type) {
  const auto* found = find_member(object, key);
  return found != nullptr && found->type() == type ? found : nullptr;
}

double median(const json& object, std::string_view key) {
  const auto* interval = member(object, key, json::value_t::object);
  return interval == nullptr ? 0 : number_or(*interval, "median", 0);
}

std::string place(const json& finding, std::string_view file, std::string_view line) {
  const std::string name = file_name(string_or(finding, file, ""));
  const int64_t number = int_or(finding, line, 0);
  if (name.empty() || number <= 0) return {};
  return fmt::format("{}:{}", printable(shorten(name, 60)), number);
}

void add_times(const json& v, std::string& out) {
  const double us = median(v, "latency_us");
  if (us <= 0) return;
  const auto& latency = v.at("latency_us");
  out += fmt::format("time: {}, {} at size {}\n", microseconds_text(us),
                     text_of(latency, "kind", 20), text_of(latency, "size", 40));
  if (const auto* ranks = member(v, "per_rank_us", json::value_t::array);
      ranks != nullptr && ranks->size() > 1 && ranks->size() <= 16) {
    out += "time of each rank:";
    for (const auto& rank : *ranks)
      if (rank.is_number()) out += " " + microseconds_text(rank.get<double>());
    out += "\n";
  }
  for (const auto& [key, label] :
       {std::pair{"percent_sol", "of the speed of light at nominal rates"},
        std::pair{"percent_contended_sol", "of what perfect overlap costs in practice"}}) {
    if (const double percent = number_or(v, key, 0); percent > 0)
      out += fmt::format("{:.0f} % {}\n", percent, label);
  }
  if (const auto* ratios = member(v, "ratio", json::value_t::object)) {
    for (const auto& [name, ratio] : ratios->items()) {
      if (const double value = number_or(ratio, "median", 0); value > 0)
        out += fmt::format("{:.3f} times as fast as baseline {}\n", value,
                           printable(shorten(name, 40)));
    }
  }
}

void add_timeline(const json& v, std::string& out) {
  const auto* trace = member(v, "trace", json::value_t::object);
  const auto* list = trace == nullptr ? nullptr : member(*trace, "timeline", json::value_t::array);
  if (list == nullptr || list->empty()) return;
  out += "timeline of rank 0 (start to end in us, stream, operation, what bounds it):\n";
  std::size_t shown = 0;
  for (const auto& op : *list) {
    if (!op.is_object() || int_or(op, "rank", 0) != 0) continue;
    if (++shown > kOps) {
      out += "  …\n";
      return;
    }
    out += fmt::format("  {:.1f} to {:.1f}  s{}  {}  {}\n", number_or(op, "start_us", 0),
                       number_or(op, "end_us", 0), int_or(op, "stream", 0), text_of(op, "what", 80),
                       text_of(op, "bound", 20));
  }
}

}  // namespace

std::string evidence(std::string_view verdict, std::size_t bytes) {
  const auto parsed = parse_json(verdict, "verdict", std::size_t{16} << 20, 64);
  if (!parsed || !parsed->is_object()) return "the verdict is not readable\n";
  const json& v = *parsed;
  std::string out =
      fmt::format("status: {} at stage {}\n", text_of(v, "status", 24), text_of(v, "stage", 24));
  const std::string where = text_of(v, "where", 120), message = text_of(v, "message", 3000);
  if (const int64_t rank = int_or(v, "rank", -1); rank >= 0) out += fmt::format("rank: {}\n", rank);
  if (!where.empty()) out += fmt::format("where: {}\n", where);
  if (!message.empty()) {
    // A compiler's message has lines.
    out += "what: " + printable(shorten(string_or(v, "message", ""), 3000), true) + "\n";
  }
  if (const auto advice = text_of(v, "advice"); !advice.empty()) out += "advice: " + advice + "\n";
  if (const auto* errors = member(v, "errors", json::value_t::object);
      errors != nullptr && string_or(v, "status", "") == "INCORRECT") {
    out += fmt::format("relative L2 error {:.3g}, largest error {:.3g}\n",
                       number_or(*errors, "relative_l2", 0), number_or(*errors, "max_abs", 0));
  }
  add_times(v, out);
  if (const auto* findings = member(v, "findings", json::value_t::array)) {
    std::size_t shown = 0;
    for (const auto& finding : *findings) {
      if (!finding.is_object()) continue;
      if (++shown > kFindings) {
        out += fmt::format("and {} more findings\n", findings->size() - kFindings);
        break;
      }
      const std::string at = place(finding, "file", "line"),
                        other = place(finding, "other_file", "other_line");
      out += fmt::format("finding {}: {}{}{}{}{}\n", shown, text_of(finding, "kind", 40),
                         at.empty() ? "" : " at ", at, other.empty() ? "" : ", the other side at ",
                         other);
      out += "  " + text_of(finding, "text", 600) + "\n";
    }
  }
  if (const auto* facts = member(v, "facts", json::value_t::object)) {
    std::string line;
    for (const auto& [name, value] : facts->items()) {
      if (name == "compile_cached" || !value.is_number() || line.size() > 300) continue;
      line += fmt::format("{}{} {}", line.empty() ? "compiler: " : ", ",
                          printable(shorten(name, 40)), value.dump());
    }
    if (!line.empty()) out += line + "\n";
  }
  if (const auto* counters = member(v, "counters", json::value_t::object)) {
    if (const int64_t n = int_or(*counters, "warp_instructions", 0); n > 0)
      out += fmt::format("{} warp instructions and {} API calls at the verified size\n", n,
                         int_or(*counters, "api_calls", 0));
  }
  if (const auto* notes = member(v, "notes", json::value_t::array)) {
    for (std::size_t i = 0; i < notes->size() && i < 4; ++i) {
      const auto& note = (*notes)[i];
      // Those name folders of the machine.
      if (note.is_string() && note.get_ref<const std::string&>().find('/') == std::string::npos)
        out += "note: " + printable(shorten(note.get<std::string>(), 300)) + "\n";
    }
  }
  add_timeline(v, out);
  return cut(out, bytes);
}

std::string verdict_line(std::string_view verdict, double score, std::size_t width) {
  const auto parsed = parse_json(verdict, "verdict", std::size_t{16} << 20, 64);
  if (!parsed || !parsed->is_object()) return "no verdict";
  const json& v = *parsed;
  std::string out = text_of(v, "status", 24);
  const std::string status = out;
  if (status == "PASSED" || status == "AMBIGUOUS") {
    if (const double us = median(v, "latency_us"); us > 0) out += " " + microseconds_text(us);
    if (score > 0 && score < 1000) out += fmt::format(", {:.3f}x the best baseline", score);
    if (const double percent = number_or(v, "percent_sol", 0); percent > 0)
      out += fmt::format(", {:.0f} % of SOL", percent);
  } else {
    const std::string where = text_of(v, "where", 80), message = text_of(v, "message", 300);
    if (!where.empty() && message.find(where) == std::string::npos) out += " at " + where;
    if (!message.empty()) out += ": " + message;
  }
  return one_line(out, width);
}

}  // namespace sculler::agent
