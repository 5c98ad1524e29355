#include "analyze/blocks.h"

#include <algorithm>

namespace sculler::analyze {

std::vector<source::Lines> function_blocks(const TextModel& model,
                                           const std::set<std::string>& names,
                                           std::pair<std::size_t, std::size_t> without) {
  std::vector<source::Lines> out;
  for (const Function& function : model.functions()) {
    const std::size_t begin = model.code()[function.head].begin;
    if (begin >= without.first && begin < without.second) continue;
    if (function.name == "sculler_setup" || function.name == "sculler_teardown") continue;
    const int open = model.line(function.open), close = model.line(function.close);
    const bool entry = function.name == "sculler_run";
    bool kernel = false;
    for (std::size_t i = function.head; i < function.open; ++i)
      kernel |= model.is(i, "__global__") || model.is(i, "__device__");
    if (!entry && !kernel && names.count(function.name) == 0) continue;
    // The signature of an entry point is no one's to change.
    const source::Lines lines = entry ? source::Lines{open + 1, close - 1}
                                      : source::Lines{model.line(function.head), close};
    if (lines.last >= lines.first) out.push_back(lines);
  }
  return out;
}

std::vector<source::Lines> merge_blocks(std::vector<source::Lines> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<source::Lines> merged;
  for (const auto& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last + 1)
      merged.back().last = std::max(merged.back().last, range.last);
    else merged.push_back(range);
  }
  return merged;
}

Result<std::string> mark_usual(std::string_view text, std::string_view origin) {
  const TextModel model(text);
  std::set<std::string> names;
  for (std::size_t i = 0; i < model.code().size(); ++i) {
    const bool acts = model.is(i, "<<<") ||
                      (model.identifier(i) && (model.code()[i].text.starts_with("nccl") ||
                                               model.code()[i].text.starts_with("cudaLaunch") ||
                                               model.code()[i].text.starts_with("cudaMemcpy")));
    const int at = acts ? model.function_at(i) : -1;
    if (at >= 0) names.insert(model.functions()[static_cast<std::size_t>(at)].name);
  }
  const auto ranges = merge_blocks(function_blocks(model, names));
  if (!ranges.empty()) {
    if (auto marked = source::mark_blocks(text, ranges, origin)) return marked;
  }
  const auto lines =
      std::count(text.begin(), text.end(), '\n') + (text.ends_with('\n') || text.empty() ? 0 : 1);
  return source::mark_blocks(text, {{1, static_cast<int>(lines)}}, origin);
}

}  // namespace sculler::analyze
