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

// The directive's line is the engine's: `text` without the first one, as apply finds it.
std::string without_directive(std::string_view text) {
  std::string out;
  bool found = false;
  for (const auto line : sculler::split(text, '\n')) {
    const auto words = sculler::trim(line);
    const bool here =
        words.starts_with("//") && sculler::trim(words.substr(2)).starts_with("sculler:directive");
    if (!here || found) out.append(line).append("\n");
    found = found || here;
  }
  return out;
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
    // were. A directive may be another one after several whole texts, as it is left out or not.
    if (again && input.find('\r') == std::string_view::npos && (*out)[0].text.ends_with('\n') &&
        (*files)[0].text.ends_with('\n'))
      check(without_directive((*again)[0].text) == without_directive((*out)[0].text));
  }
  return 0;
}
