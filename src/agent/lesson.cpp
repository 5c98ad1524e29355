#include "agent/lesson.h"

#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "agent/quote.h"
#include "base/json.h"
#include "base/strings.h"
#include "llm/schema.h"

namespace sculler::agent {
namespace {

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"title":{"type":"string","minLength":1,"maxLength":160},)"
    R"("description":{"type":"string","minLength":1,"maxLength":2000},)"
    R"("original":{"type":"string","maxLength":6000},"optimized":{"type":"string","maxLength":6000}},)"
    R"("required":["title","description","original","optimized"],"additionalProperties":false})";

// The segment where the program holds it, else nothing.
std::string segment_of(const std::string& text, const std::string& program, int& cut) {
  const std::string plain = plain_blanks(text);
  if (plain.empty()) return {};
  if (program.find(plain) != std::string::npos) return printable(text, true);
  ++cut;
  return {};
}

}  // namespace

std::string_view lesson_schema() { return kSchema; }

Result<Lesson> parse_lesson(std::string_view answer, std::string_view slow, std::string_view fast) {
  auto parsed = llm::parse_by_schema(kSchema, answer, "lesson");
  if (!parsed) return fail(parsed.error());
  Lesson out;
  out.title = one_line(string_or(*parsed, "title", ""), 160);
  out.description = printable(trim(string_or(*parsed, "description", "")), true);
  if (trim(out.title).empty() || out.description.empty())
    return fail(Error{ErrorCode::kModel,
                      "its title or description is empty",
                      "lesson",
                      {},
                      "say what was learnt"});
  out.original = segment_of(string_or(*parsed, "original", ""), plain_blanks(slow), out.cut);
  out.optimised = segment_of(string_or(*parsed, "optimized", ""), plain_blanks(fast), out.cut);
  if (out.original.empty() && out.optimised.empty()) {
    return fail(Error{ErrorCode::kModel, "its segments do not stand in the programs", "lesson",
                      "optimized", "copy lines of the two programs word by word, without \"…\""});
  }
  return out;
}

}  // namespace sculler::agent
