#include "analyze/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::analyze {
namespace {

using nlohmann::json;

// Above what the emulator writes.
constexpr std::size_t kMostOperations = 1024, kMostSpans = 8192, kMostParts = 16, kMostCalls = 1024;
constexpr int kMostRanks = 64;

const json& list_of(const json& object, const char* key) {
  static const json empty = json::array();
  const auto* found = find_member(object, key);
  return found != nullptr && found->is_array() ? *found : empty;
}

uint64_t unsigned_or(const json& object, const char* key) {
  return static_cast<uint64_t>(std::max<int64_t>(0, int_or(object, key, 0)));
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Result<Iteration> read(const json& trace) {
    read_spaces(list_of(trace, "spaces"));
    const auto& operations = list_of(trace, "operations");
    // The harness's own barrier comes first, and its host waits for it.
    std::set<int64_t> opened;
    for (const auto& entry : operations) {
      if (!entry.is_object()) continue;
      const int64_t rank = int_or(entry, "rank", -1);
      const std::string kind = string_or(entry, "kind", "");
      if (rank < 0 || rank >= kMostRanks) continue;
      if (kind == "host_wait") opened.insert(rank);
      if (kind == "mark" || kind == "host_wait" || !opened.contains(rank)) continue;
      if (out_.operations.size() >= kMostOperations) {
        out_.truncated = true;
        break;
      }
      out_.n_ranks = std::max(out_.n_ranks, static_cast<int>(rank) + 1);
      out_.operations.push_back(operation(entry));
    }
    // Its own events stand around the program's operations: they have no line, and nobody waits.
    std::set<int64_t> waited;
    for (const Operation& op : out_.operations) waited.insert(op.after.begin(), op.after.end());
    std::erase_if(out_.operations, [&](const Operation& op) {
      return op.kind == "event_record" && op.at.empty() && !waited.contains(op.id);
    });
    if (out_.operations.empty())
      return fail(ErrorCode::kProtocol, "the verdict's trace holds no operations of the program");
    out_.truncated = out_.truncated || bool_or(trace, "truncated", false);
    out_.untimed = text(trace, "untimed");
    return std::move(out_);
  }

 private:
  std::string text(const json& object, const char* key) const {
    return printable(shorten(string_or(object, key, ""), 200));
  }
  // "candidate.cu:88" under the name that the user knows.
  std::string place(const json& object) const {
    constexpr std::string_view kName = "candidate.cu:";
    std::string at = text(object, "at");
    if (at.starts_with(kName) && !file_.empty()) at.replace(0, kName.size() - 1, file_);
    return at;
  }
  // "set 3 buffer C" is C of set 3; the second "cudaMalloc" of a rank is cudaMalloc 2.
  std::string named(const std::string& name, int rank) {
    const auto at = name.find(" buffer ");
    if (name.starts_with("set ") && at != std::string::npos)
      return name.substr(at + 8) + " of " + name.substr(0, at);
    return fmt::format("{} {}", name, ++seen_[{rank, name}]);
  }
  void read_spaces(const json& spaces) {
    // Numbered by address: the order of their making.
    std::vector<std::size_t> order(spaces.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return unsigned_or(spaces[a], "address") < unsigned_or(spaces[b], "address");
    });
    out_.spaces.resize(spaces.size());
    for (const std::size_t i : order) {
      Space& s = out_.spaces[i];
      s.rank = static_cast<int>(std::clamp<int64_t>(int_or(spaces[i], "rank", 0), 0, kMostRanks));
      s.bytes = unsigned_or(spaces[i], "bytes");
      s.name = named(printable(shorten(string_or(spaces[i], "name", "?"), 80)), s.rank);
    }
  }
  Bytes bytes(const json* entry) const {
    Bytes out;
    if (entry == nullptr || !entry->is_object()) return out;
    const int64_t space = int_or(*entry, "space", -1);
    const uint64_t begin = unsigned_or(*entry, "begin"), end = unsigned_or(*entry, "end");
    if (space < 0 || static_cast<std::size_t>(space) >= out_.spaces.size()) return out;
    if (end <= begin || end > out_.spaces[static_cast<std::size_t>(space)].bytes) return out;
    return {static_cast<int>(space), begin, end};
  }
  std::vector<Span> spans(const json& operation, const char* key) {
    std::vector<Span> out;
    for (const auto& entry : list_of(operation, key)) {
      const Bytes range = bytes(&entry);
      if (range.space < 0) continue;
      if (++n_spans_ > kMostSpans) {
        out_.truncated = true;
        break;
      }
      Span span{range, bool_or(entry, "sparse", false), place(entry), {}};
      for (const auto& part : list_of(entry, "parts")) {
        const auto number = [&](std::size_t i) {
          return part[i].is_number_integer() ? std::max<int64_t>(0, part[i].get<int64_t>()) : 0;
        };
        if (part.is_array() && part.size() == 4 && span.parts.size() < kMostParts)
          span.parts.push_back({number(0), number(1), number(2), number(3)});
      }
      out.push_back(std::move(span));
    }
    return out;
  }
  CollectiveCall call(const json& entry) const {
    CollectiveCall out;
    out.name = text(entry, "name");
    out.at = place(entry);
    out.peer = static_cast<int>(std::clamp<int64_t>(int_or(entry, "peer", -1), -1, kMostRanks));
    for (const auto& member : list_of(entry, "members")) {
      if (member.is_number_integer() && out.members.size() < kMostRanks)
        out.members.push_back(
            static_cast<int>(std::clamp<int64_t>(member.get<int64_t>(), 0, kMostRanks)));
    }
    out.bytes = unsigned_or(entry, "bytes");
    out.send = bytes(find_member(entry, "send"));
    out.recv = bytes(find_member(entry, "recv"));
    return out;
  }
  Operation operation(const json& entry) {
    Operation op;
    op.rank = static_cast<int>(int_or(entry, "rank", 0));
    op.kind = text(entry, "kind");
    op.id = int_or(entry, "id", 0);
    op.stream = int_or(entry, "stream", 0);
    op.started = int_or(entry, "started", op.id);
    op.name = text(entry, "name");
    op.at = place(entry);
    op.meeting = int_or(entry, "meeting", -1);
    op.bytes = unsigned_or(entry, "bytes");
    op.flops = unsigned_or(entry, "flops");
    op.blocks = std::max<int64_t>(0, int_or(entry, "blocks", 0));
    op.steps = std::max<int64_t>(0, int_or(entry, "steps", 0));
    op.start_us = number_or(entry, "start_us", -1);
    op.end_us = number_or(entry, "end_us", -1);
    op.bound = text(entry, "bound");
    const bool sound = std::isfinite(op.start_us) && std::isfinite(op.end_us) && op.start_us >= 0 &&
                       op.end_us >= op.start_us && op.end_us < 1e12;
    if (!sound) op.start_us = op.end_us = -1;
    for (const auto& before : list_of(entry, "after"))
      if (before.is_number_integer()) op.after.push_back(before.get<int64_t>());
    op.reads = spans(entry, "reads");
    op.writes = spans(entry, "writes");
    for (const auto& one : list_of(entry, "calls")) {
      if (!one.is_object() || ++n_calls_ > kMostCalls) continue;
      op.calls.push_back(call(one));
    }
    return op;
  }

  std::string file_;
  Iteration out_;
  std::map<std::pair<int, std::string>, int> seen_;
  std::size_t n_spans_ = 0, n_calls_ = 0;
};

}  // namespace

Result<Iteration> read_iteration(std::string_view trace_json, std::string_view file) {
  auto parsed = parse_json(trace_json, "trace");
  if (!parsed) return fail(parsed.error());
  if (!parsed->is_object()) return fail(ErrorCode::kProtocol, "the verdict's trace is no object");
  return Reader(file).read(*parsed);
}

}  // namespace sculler::analyze
