#include "agent/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "agent/quote.h"
#include "base/json.h"
#include "base/strings.h"
#include "llm/schema.h"

namespace sculler::agent {
namespace {

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"bottleneck":{"type":"string","minLength":1,"maxLength":300},)"
    R"("evidence":{"type":"array","minItems":1,"maxItems":4,"items":{"type":"string","minLength":1,"maxLength":400}},)"
    R"("plan":{"type":"string","minLength":1,"maxLength":6000},)"
    R"("uses":{"type":"array","maxItems":16,"items":{"type":"integer","minimum":1,"maximum":1000000}}},)"
    R"("required":["bottleneck","evidence","plan","uses"],"additionalProperties":false})";

}  // namespace

std::string_view plan_schema() { return kSchema; }

Result<Plan> parse_plan(std::string_view answer, std::string_view profile, std::size_t n_items) {
  auto parsed = llm::parse_by_schema(kSchema, answer, "plan");
  if (!parsed) return fail(parsed.error());
  Plan out;
  out.bottleneck = one_line(string_or(*parsed, "bottleneck", ""), 300);
  out.evidence = quotes_of(parsed->at("evidence"), profile, out.cut);
  if (out.evidence.empty()) {
    return fail(Error{ErrorCode::kModel, "it quotes nothing of the profile", "plan", "evidence",
                      "quote the line of the profile that the step is meant to change"});
  }
  out.step = printable(trim(string_or(*parsed, "plan", "")), true);
  if (out.step.empty())
    return fail(Error{ErrorCode::kModel, "it holds no step", "plan", "plan", "say what to change"});
  for (const auto& item : parsed->at("uses")) {
    const auto number = static_cast<std::size_t>(item.get<int64_t>());
    if (number > n_items) ++out.cut;
    else out.uses.push_back(number);
  }
  std::sort(out.uses.begin(), out.uses.end());
  out.uses.erase(std::unique(out.uses.begin(), out.uses.end()), out.uses.end());
  return out;
}

std::string print(const Plan& plan) {
  std::string out = fmt::format("bottleneck: {}\n", plan.bottleneck);
  for (const auto& quote : plan.evidence) out += "measured: " + one_line(quote, 400) + "\n";
  out += plan.step + "\n";
  return out;
}

}  // namespace sculler::agent
