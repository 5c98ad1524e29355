// Any text as what judge and annotator answer: a diagnosis is bounded and holds nothing that the
// evidence does not; marks vanish without a trace.
#include <cstdlib>
#include <string_view>

#include "agent/diagnosis.h"
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
  return 0;
}
