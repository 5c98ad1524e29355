// A model's changes applied to a candidate: exactly as written, or not at all with the reason.
// Frozen text outside the evolve blocks, the markers, indentation and line ends stay as they are,
// byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "source/answer.h"
#include "source/bundle.h"

namespace sculler::source {

// What may change: the texts of the evolve blocks, or the whole file. In both cases the number of
// blocks stays above zero and their markers balanced.
enum class Scope { kBlocks, kFile };

// Applies the changes in order, each to what the ones before it left. All or nothing: on failure
// nothing is changed. A search must be found exactly once (blanks at line ends aside), line by
// line, where text may change. A whole file must keep the frozen text; where the file has one
// evolve block, a text without markers and without the frozen entry points is that block's; where
// the answer holds nothing but blocks with their markers, as many as the file has, they are taken
// in order. The directive's line is the engine's: differences there are no differences. A new
// header may be added by its name. kBadSource: `file` is "answer:LINE" of the change, `message`
// says which text is meant and, where a search is not found, the nearest place and the first line
// that differs.
[[nodiscard]] Result<std::vector<File>> apply(const std::vector<File>& files,
                                              const std::vector<Edit>& edits, Scope scope);

// Changes that make `after` of `before`: apply(before, diff(before, after), …) == after, where both
// have the same line ends and a last one. Hunks with enough context to be found exactly once; a
// whole file where that cannot be had.
[[nodiscard]] std::vector<Edit> diff(const std::vector<File>& before,
                                     const std::vector<File>& after);
// As a model would write it.
[[nodiscard]] std::string print(const std::vector<Edit>& edits);

// Evolve block i comes from `b` where bit i of `mask` is set, else from `a`, as the directive's
// line does. kBadSource where the other frozen text differs or a mixture is not possible.
[[nodiscard]] Result<std::string> cross_blocks(std::string_view a, std::string_view b,
                                               uint64_t mask);
// The blocks whose texts differ as a mask (the first 64), where the frozen texts, directive lines
// aside, are the same; 0 elsewhere.
[[nodiscard]] uint64_t different_blocks(std::string_view a, std::string_view b);

// The text with its directive line saying `json`: the first "// sculler:directive" line is
// replaced, or a new one is put on top.
[[nodiscard]] std::string with_directive(std::string_view text, std::string_view json);

}  // namespace sculler::source
