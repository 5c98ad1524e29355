// A source and an answer, split at the first line "----": whatever is applied keeps the frozen text
// and the number of blocks, and what is refused has a reason; the difference of two texts applied
// to the first gives the second.
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "source/blocks.h"
#include "source/edit.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

// As apply sees it: a comment's line.
bool has_directive_line(std::string_view text) {
  for (const auto line : sculler::split(text, '\n')) {
    const auto words = sculler::trim(line);
    if (words.starts_with("//") && sculler::trim(words.substr(2)).starts_with("sculler:directive"))
      return true;
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::source;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto cut = input.find("----\n");
  if (cut == std::string_view::npos) return 0;
  const auto files = split_bundle(input.substr(0, cut), "candidate.cu", "seed.cu");
  if (!files) return 0;
  const auto answer = parse_answer(input.substr(cut + 5));
  if (!answer) return 0;
  const auto blocks = find_blocks((*files)[0].text, "candidate.cu");
  for (const Scope scope : {Scope::kBlocks, Scope::kFile}) {
    const auto out = apply(*files, answer->edits, scope);
    if (!out) {
      check(!out.error().message.empty());
      continue;
    }
    check(blocks.has_value() && out->size() >= files->size());
    const auto after = find_blocks((*out)[0].text, "candidate.cu");
    check(after.has_value());
    if (scope == Scope::kBlocks) {
      check(after->blocks.size() == blocks->blocks.size());
      check(after->frozen_sha256 == blocks->frozen_sha256);
    } else {
      check(blocks->blocks.empty() || !after->blocks.empty());
    }
    const auto edits = diff(*files, *out);
    const auto again = apply(*files, edits, Scope::kFile);
    // Line ends of mixed texts become those of the majority: only plain ones come back as they
    // were. A directive on the first line comes back where a whole text leaves it out, as models
    // do.
    const bool kept =
        !(*files)[0].text.starts_with("// sculler:directive") || has_directive_line((*out)[0].text);
    if (again && kept && input.find('\r') == std::string_view::npos &&
        (*out)[0].text.ends_with('\n') && (*files)[0].text.ends_with('\n'))
      check((*again)[0].text == (*out)[0].text);
  }
  return 0;
}
