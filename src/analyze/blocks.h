// Which lines of a program a search may change, told from its text alone.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyze/text_model.h"
#include "base/error.h"
#include "source/marks.h"

namespace sculler::analyze {

// Device functions and kernels, the functions called `names`, and the body of sculler_run; never
// sculler_setup and sculler_teardown. Functions that begin within the bytes `without` are left out.
[[nodiscard]] std::vector<source::Lines> function_blocks(
    const TextModel& model, const std::set<std::string>& names,
    std::pair<std::size_t, std::size_t> without = {0, 0});
// Sorted, and neighbours made one.
[[nodiscard]] std::vector<source::Lines> merge_blocks(std::vector<source::Lines> ranges);

// A program without marks gets some: around kernels, functions that launch kernels or communicate,
// and the body of sculler_run. Where a mark would not stand in code, around everything. kBadSource
// where that cannot be either.
[[nodiscard]] Result<std::string> mark_usual(std::string_view text, std::string_view origin);

}  // namespace sculler::analyze
