#include "agent/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "agent/quote.h"
#include "base/json.h"
#include "base/strings.h"
#include "llm/schema.h"
#include "source/bundle.h"

namespace sculler::agent {
namespace {

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"category":{"enum":["compile","setup","race","deadlock",)"
    R"("wrong_values","out_of_bounds","uninitialised","timeout","rule","unsupported","other"]},)"
    R"("where":{"type":"array","maxItems":4,"items":{"type":"object","properties":)"
    R"({"file":{"type":"string","maxLength":80},"line":{"type":"integer","minimum":1,"maximum":1000000},)"
    R"("rank":{"type":"integer","minimum":-1,"maximum":1023}},"required":["line"],"additionalProperties":false}},)"
    R"("evidence":{"type":"array","minItems":1,"maxItems":6,"items":{"type":"string","minLength":1,"maxLength":400}},)"
    R"("events":{"type":"array","minItems":1,"maxItems":10,"items":{"type":"string","minLength":1,"maxLength":400}}},)"
    R"("required":["category","where","evidence","events"],"additionalProperties":false})";

// A sentence tells what happens; a line of code or an order belongs to whoever writes the program.
bool prescribes(std::string_view event) {
  constexpr std::array kMarks = {
      "```", "~~~", "<<<<<<", "======", ">>>>>>", "#include", "EVOLVE-BLOCK", "sculler:"};
  for (const std::string_view mark : kMarks)
    if (event.find(mark) != std::string_view::npos) return true;
  const auto end = trim(event);
  if (end.empty() || end.ends_with(';') || end.ends_with('{') || end.ends_with('}')) return true;
  const std::string lower = to_lower(end);
  constexpr std::array kOrders = {"add ",    "use ",    "replace ",  "insert ", "change ",
                                  "remove ", "move ",   "call ",     "fix ",    "put ",
                                  "write ",  "ensure ", "make sure", "try ",    "ignore "};
  for (const std::string_view order : kOrders)
    if (lower.starts_with(order)) return true;
  constexpr std::array kAdvice = {"you should",         "you must",    "you need to",
                                  "should be replaced", "to fix this", "the fix is"};
  return std::any_of(kAdvice.begin(), kAdvice.end(), [&](std::string_view advice) {
    return lower.find(advice) != std::string::npos;
  });
}

}  // namespace

std::string_view diagnosis_schema() { return kSchema; }

Result<Diagnosis> parse_diagnosis(std::string_view answer, std::string_view evidence) {
  const auto no = [](std::string message, std::string cure) {
    return fail(Error{ErrorCode::kModel, std::move(message), "diagnosis", {}, std::move(cure)});
  };
  auto parsed = llm::parse_by_schema(kSchema, answer, "diagnosis");
  if (!parsed) return fail(parsed.error());
  Diagnosis out;
  out.category = string_or(*parsed, "category", "other");
  for (const auto& place : parsed->at("where")) {
    Diagnosis::Place one;
    one.file = string_or(place, "file", "");
    if (!source::is_file_name(one.file)) one.file.clear();
    one.line = static_cast<int>(int_or(place, "line", 0));
    one.rank = static_cast<int>(int_or(place, "rank", -1));
    out.where.push_back(std::move(one));
  }
  out.evidence = quotes_of(parsed->at("evidence"), evidence, out.cut);
  if (out.evidence.empty())
    return no("it quotes nothing that the evaluator said", "quote the evidence word by word");
  for (const auto& event : parsed->at("events")) {
    const auto& text = event.get_ref<const std::string&>();
    if (prescribes(text)) ++out.cut;
    else out.events.push_back(one_line(text, 400));
  }
  if (out.events.empty())
    return no("it holds code or orders instead of what happens", "say what happens, where and why");
  return out;
}

std::string print(const Diagnosis& d) {
  std::string out = fmt::format("category: {}\n", d.category);
  for (const auto& place : d.where) {
    out +=
        fmt::format("where: {}{}{}\n", place.file.empty() ? "line " : place.file + ":", place.line,
                    place.rank >= 0 ? fmt::format(", rank {}", place.rank) : std::string());
  }
  for (const auto& quote : d.evidence) out += "evidence: " + one_line(quote, 400) + "\n";
  for (std::size_t i = 0; i < d.events.size(); ++i)
    out += fmt::format("{}. {}\n", i + 1, d.events[i]);
  return out;
}

}  // namespace sculler::agent
