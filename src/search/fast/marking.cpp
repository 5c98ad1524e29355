#include "search/fast/marking.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/json.h"
#include "llm/schema.h"
#include "source/answer.h"
#include "source/bad_source.h"
#include "source/marks.h"

namespace sculler::search {
namespace {

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"blocks":{"type":"array","minItems":1,"maxItems":16,"items":)"
    R"({"type":"object","properties":{"first":{"type":"integer","minimum":1,"maximum":1000000},)"
    R"("last":{"type":"integer","minimum":1,"maximum":1000000},"reason":{"type":"string","maxLength":600}},)"
    R"("required":["first","last","reason"],"additionalProperties":false}}},)"
    R"("required":["blocks"],"additionalProperties":false})";

Result<Marking> from_ranges(const nlohmann::json& answer, std::string_view text,
                            std::string_view name) {
  auto schema = parse_json(kSchema, "schema");
  if (!schema) return fail(schema.error());
  if (auto ok = llm::check_schema(*schema, answer); !ok) return fail(ok.error());
  Marking out;
  std::vector<source::Lines> ranges;
  for (const auto& block : answer.at("blocks")) {
    ranges.push_back(
        {static_cast<int>(int_or(block, "first", 0)), static_cast<int>(int_or(block, "last", 0))});
    out.reasons.push_back(agent::one_line(string_or(block, "reason", ""), 300));
  }
  auto marked = source::mark_blocks(text, ranges, name);
  if (!marked) return fail(marked.error());
  out.text = std::move(*marked);
  return out;
}

}  // namespace

std::string numbered(std::string_view text) {
  std::string out;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += fmt::format("{:>4}| {}\n", ++number, text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<Marking> read_marking(std::string_view answer, std::string_view text,
                             std::string_view name) {
  if (answer.size() > source::kMaxAnswerBytes)
    return fail(source::bad_source("answer", 0, "it is too large", "give line ranges"));
  if (auto json = llm::find_json(answer);
      json && json->is_object() && find_member(*json, "blocks") != nullptr)
    return from_ranges(*json, text, name);
  auto parsed = source::parse_answer(answer);
  if (!parsed) return fail(parsed.error());
  if (parsed->edits.size() != 1 || parsed->edits[0].kind != source::Edit::Kind::kRewrite ||
      (!parsed->edits[0].file.empty() && parsed->edits[0].file != name)) {
    return fail(source::bad_source(
        "answer", 0, "it is neither JSON with blocks nor the whole program in one fence",
        "answer {\"blocks\":[{\"first\":12,\"last\":80,\"reason\":\"…\"}]}"));
  }
  Marking out;
  out.text = parsed->edits[0].text;
  if (auto ok = source::check_marks(text, out.text, name); !ok) return fail(ok.error());
  return out;
}

}  // namespace sculler::search
