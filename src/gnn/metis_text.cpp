// Graph files of METIS.
#include <charconv>

#include "base/files.h"
#include "base/strings.h"
#include "gnn/graph.h"

namespace sculler::gnn {

namespace {

class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  // The next line that is no comment; false at the end.
  bool next(std::string_view& line) {
    while (!rest_.empty()) {
      const auto end = std::min(rest_.find('\n'), rest_.size());
      line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(rest_.size(), end + 1));
      ++number_;
      if (!line.starts_with('%')) return true;
    }
    return false;
  }
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  std::string_view rest_;
  uint64_t number_ = 0;
};

// The whole numbers of a line; false where there is something else.
bool numbers(std::string_view line, std::vector<uint64_t>& out) {
  out.clear();
  const char* at = line.data();
  const char* const stop = line.data() + line.size();
  while (true) {
    while (at < stop && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
    if (at == stop) return true;
    uint64_t value = 0;
    const auto [next, error] = std::from_chars(at, stop, value);
    if (error != std::errc()) return false;
    out.push_back(value);
    at = next;
  }
}

}  // namespace

Result<Graph> parse_metis(std::string_view text, const std::string& origin) {
  Lines lines(text);
  const auto bad = [&](std::string message, std::string cure = {}) {
    return fail({ErrorCode::kBadInput,
                 std::move(message),
                 origin + ":" + std::to_string(lines.number()),
                 {},
                 std::move(cure)});
  };
  std::string_view line;
  std::vector<uint64_t> values;
  if (!lines.next(line) || !numbers(line, values) || values.size() < 2 || values.size() > 4)
    return bad("is no head of a METIS graph: \"nodes edges [format [constraints]]\" is expected");
  const uint64_t nodes = values[0], edges_said = values[1];
  if (nodes >= UINT32_MAX) return bad("has more than 2^32 nodes");
  const uint64_t format = values.size() > 2 ? values[2] : 0;
  if (format > 111 || format % 10 > 1 || format / 10 % 10 > 1)
    return bad("has format " + std::to_string(format), "Three digits of 0 and 1 are expected.");
  const bool edge_weights = format % 10 == 1;
  const uint64_t constraints = values.size() > 3 ? values[3] : 1;
  const uint64_t skip = (format / 100) + (format / 10 % 10 == 1 ? constraints : 0);

  std::vector<Edge> edges;
  uint64_t listed = 0;
  for (uint64_t v = 0; v < nodes; ++v) {
    if (!lines.next(line))
      return bad("ends at node " + std::to_string(v) + " of " + std::to_string(nodes),
                 "The file was cut: get it again.");
    if (!numbers(line, values)) return bad("has something that is no whole number");
    if (values.size() < skip) return bad("has fewer numbers than weights of a node");
    const uint64_t step = edge_weights ? 2 : 1;
    if ((values.size() - skip) % step != 0) return bad("has a neighbour without its weight");
    for (size_t i = skip; i < values.size(); i += step) {
      if (values[i] < 1 || values[i] > nodes)
        return bad("names neighbour " + std::to_string(values[i]) + ", nodes are 1 to " +
                   std::to_string(nodes));
      ++listed;
      edges.emplace_back(static_cast<uint32_t>(v), static_cast<uint32_t>(values[i] - 1));
    }
  }
  if (listed != 2 * edges_said)
    return bad("lists " + std::to_string(listed) + " neighbours, its head says twice " +
                   std::to_string(edges_said),
               "Every edge stands at both of its nodes.");
  return graph_of(nodes, edges);
}

Result<Graph> read_metis(const std::string& path) {
  auto text = real_files().read(path, uint64_t{1} << 36);
  if (!text) return fail(text.error());
  return parse_metis(*text, path);
}

}  // namespace sculler::gnn
