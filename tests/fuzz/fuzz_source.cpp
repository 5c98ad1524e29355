// Any text as a candidate: tokens lie within it, blocks too, replacing a block's text keeps the
// frozen text.
#include <cstdlib>
#include <string_view>

#include "source/blocks.h"
#include "source/lint.h"
#include "source/token.h"
#include "source/tunables.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::size_t last = 0;
  for (const auto& token : source::tokenize(text, true)) {
    check(token.begin >= last && token.end > token.begin && token.end <= text.size());
    last = token.end;
  }
  if (const auto found = source::find_blocks(text, "c.cu")) {
    std::vector<std::string> inner;
    for (const auto& block : found->blocks) {
      check(block.begin <= block.end && block.end <= text.size());
      inner.emplace_back(text.substr(block.begin, block.end - block.begin));
    }
    if (!inner.empty()) {
      const auto same = source::replace_blocks(text, inner, "c.cu");
      check(same.has_value() && source::first_frozen_difference(*same, text) == 0);
    }
  }
  if (const auto tunables = source::find_tunables(text, "c.cu")) {
    for (const auto& tunable : *tunables) check(tunable.usual < tunable.values.size());
  }
  check(source::lint(text, {}).size() <= 100);
  return 0;
}
