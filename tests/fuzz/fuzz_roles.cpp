// Any text as what judge, annotator, planner and summarizer answer: a diagnosis and a plan are
// bounded and hold nothing that the evidence does not, a lesson nothing that its programs do not;
// marks vanish without a trace. Any text as an item of a memory that others wrote.
#include <cstdlib>
#include <string_view>

#include "agent/diagnosis.h"
#include "agent/lesson.h"
#include "agent/plan.h"
#include "agent/quote.h"
#include "search/beam/memory.h"
#include "search/fast/marking.h"
#include "source/marks.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

constexpr std::string_view kProgram =
    "#include <nccl.h>\n/* a comment\n   of lines */\n__global__ void kernel() {}\n#define A \\\n  "
    "1\n"
    "extern \"C\" int sculler_run() {\n  kernel<<<1, 1>>>();\n  return 0;\n}\n";
constexpr std::string_view kEvidence = "status: RACE\nwhat: no barrier orders them\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto marking = search::read_marking(text, kProgram, "candidate.cu"))
    check(source::without_marks(marking->text) == kProgram);
  // The input as the program, too: ranges that fit it or not.
  if (const auto marking =
          search::read_marking(R"({"blocks":[{"first":2,"last":4,"reason":"x"}]})", text, "a.cu"))
    check(source::without_marks(marking->text) == text);
  if (const auto diagnosis = agent::parse_diagnosis(text, kEvidence)) {
    check(!diagnosis->evidence.empty() && !diagnosis->events.empty());
    const auto printed = agent::print(*diagnosis);
    check(printed.size() < 20'000 && printed.find("```") == std::string::npos);
  }
  if (const auto plan = agent::parse_plan(text, kEvidence, 3)) {
    check(!plan->evidence.empty() && !plan->step.empty() && plan->uses.size() <= 3);
    for (const std::size_t item : plan->uses) check(item >= 1 && item <= 3);
    for (const auto& quote : plan->evidence)
      check(agent::plain_blanks(kEvidence).find(quote) != std::string::npos);
    check(agent::print(*plan).size() < 40'000);
  }
  if (const auto lesson = agent::parse_lesson(text, kProgram, kEvidence)) {
    check(!lesson->title.empty() && lesson->title.find('\n') == std::string::npos);
    check(!lesson->original.empty() || !lesson->optimised.empty());
    check(agent::plain_blanks(kEvidence).find(agent::plain_blanks(lesson->optimised)) !=
          std::string::npos);
  }
  if (const auto item = search::beam::parse_item(text)) {
    check(item->title.find('\n') == std::string::npos && item->wins <= item->uses);
    const auto again = search::beam::parse_item(search::beam::print(*item));
    check(again && again->key() == item->key());
  }
  return 0;
}
