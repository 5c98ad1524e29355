// Any text as a model's answer: what is taken lies within bounds, printing and reading the changes
// again gives the same.
#include <cstdlib>
#include <string_view>

#include "source/answer.h"
#include "source/edit.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::source;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto answer = parse_answer(text);
  if (!answer) {
    check(!answer.error().message.empty() && answer.error().file.starts_with("answer"));
    return 0;
  }
  check(answer->edits.size() <= kMaxEdits && answer->prose.size() <= 4000);
  for (const auto& edit : answer->edits) {
    check(edit.line >= 1);
    check(edit.search.empty() || edit.search.ends_with('\n'));
    check(edit.text.empty() || edit.text.ends_with('\n'));
    check(edit.file.empty() || is_file_name(edit.file));
  }
  return 0;
}
