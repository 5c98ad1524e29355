// What `sculler analyze` found in one iteration, and how it is shown (docs/analyze.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/graph.h"
#include "analyze/headroom.h"
#include "analyze/transfers.h"

namespace sculler::analyze {

struct Analysis {
  Iteration iteration;
  std::vector<Edge> edges;
  std::vector<Transfer> transfers;
  std::optional<Headroom> headroom;
};
[[nodiscard]] Analysis make_analysis(Iteration iteration);

struct About {
  std::string file, task, size;  // size: the emulated one
  std::string profile, predict_size;
};

// For people: the operations of one rank, its transfers, what could overlap, headroom.
[[nodiscard]] std::string print_analysis(const Analysis& analysis, const About& about, int rank);
// One object, docs/analyze.schema.json.
[[nodiscard]] std::string analysis_json(const Analysis& analysis, const About& about);
// A lane for each stream of each rank, a box for each operation, arrows where data flows; complete
// in itself. Names are text, whatever they hold.
[[nodiscard]] std::string draw_analysis(const Analysis& analysis, const About& about);

// "#12 attend (ring.cu:84)": number, name, line of the call.
[[nodiscard]] std::string label(const Operation& op);
// The name without what stands before its last "::" and without template arguments.
[[nodiscard]] std::string short_name(const Operation& op);

}  // namespace sculler::analyze
