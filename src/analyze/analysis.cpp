#include "analyze/analysis.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace sculler::analyze {

Analysis make_analysis(Iteration iteration) {
  Analysis out;
  out.iteration = std::move(iteration);
  out.edges = make_edges(out.iteration);
  out.transfers = make_transfers(out.iteration, out.edges);
  out.headroom = find_headroom(out.iteration, out.edges);
  return out;
}

std::string short_name(const Operation& op) {
  if (op.calls.size() > 1) {
    // A group is called by what it holds.
    std::vector<std::string> names;
    for (const CollectiveCall& call : op.calls)
      if (std::find(names.begin(), names.end(), call.name) == names.end())
        names.push_back(call.name);
    return shorten(join(names, " + "), 60);
  }
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string out = op.name;
  for (auto at = out.find(kAnonymous); at != std::string::npos; at = out.find(kAnonymous))
    out.erase(at, kAnonymous.size());
  out = out.substr(0, out.find('('));
  if (out.starts_with("void ")) out.erase(0, 5);
  const auto angle = out.find('<');
  if (angle != std::string::npos && angle > 0) out.erase(angle);
  const auto colons = out.rfind("::");
  if (colons != std::string::npos) out.erase(0, colons + 2);
  return shorten(out.empty() ? op.name : out, 60);
}

std::string label(const Operation& op) {
  return op.at.empty() ? fmt::format("#{} {}", op.id, short_name(op))
                       : fmt::format("#{} {} ({})", op.id, short_name(op), op.at);
}

}  // namespace sculler::analyze
