#include "analyze/graph.h"

#include <algorithm>
#include <map>

namespace sculler::analyze {
namespace {

// Disjoint intervals of one space, each with the operation that wrote it last.
class Owners {
 public:
  void set(uint64_t begin, uint64_t end, std::size_t op) {
    cut(begin);
    cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, op};
  }
  template <class Each>
  void within(uint64_t begin, uint64_t end, Each each) const {
    auto at = pieces_.upper_bound(begin);
    if (at != pieces_.begin()) --at;
    for (; at != pieces_.end() && at->first < end; ++at) {
      const uint64_t from = std::max(begin, at->first), to = std::min(end, at->second.end);
      if (from < to) each(from, to, at->second.op);
    }
  }

 private:
  struct Piece {
    uint64_t end = 0;
    std::size_t op = 0;
  };
  // No piece lies on both sides of `at` afterwards.
  void cut(uint64_t at) {
    auto piece = pieces_.upper_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->first == at || piece->second.end <= at) return;
    const Piece behind = piece->second;
    piece->second.end = at;
    pieces_[at] = behind;
  }
  std::map<uint64_t, Piece> pieces_;  // by their first byte
};

using EdgeMap = std::map<std::tuple<Edge::Kind, std::size_t, std::size_t>, std::vector<Bytes>>;

void add(EdgeMap& edges, Edge::Kind kind, std::size_t from, std::size_t to, Bytes bytes) {
  if (from == to) return;
  auto& list = edges[{kind, from, to}];
  if (!list.empty() && list.back().space == bytes.space && list.back().end == bytes.begin)
    list.back().end = bytes.end;
  else list.push_back(bytes);
}

// Sorted, disjoint, touching ones joined.
std::vector<Bytes> tidy(std::vector<Bytes> list) {
  std::sort(list.begin(), list.end(), [](const Bytes& a, const Bytes& b) {
    return std::tie(a.space, a.begin, a.end) < std::tie(b.space, b.begin, b.end);
  });
  std::vector<Bytes> out;
  for (const Bytes& b : list) {
    if (!out.empty() && out.back().space == b.space && b.begin <= out.back().end)
      out.back().end = std::max(out.back().end, b.end);
    else out.push_back(b);
  }
  return out;
}

class DataEdges {
 public:
  DataEdges(const Iteration& it, EdgeMap& edges) : it_(it), edges_(edges) {}

  void find() {
    std::vector<std::size_t> order(it_.operations.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return it_.operations[a].started < it_.operations[b].started;
    });
    for (const std::size_t i : order) {
      for (const Span& span : it_.operations[i].reads) read(i, span);
      for (const Span& span : it_.operations[i].writes) write(i, span);
    }
  }

 private:
  struct Read {
    Bytes bytes;
    std::size_t op = 0;
  };
  void read(std::size_t i, const Span& span) {
    uint64_t covered = 0;
    writers_[span.space].within(span.begin, span.end,
                                [&](uint64_t begin, uint64_t end, std::size_t op) {
                                  add(edges_, Edge::Kind::kFlow, op, i, {span.space, begin, end});
                                  covered += end - begin;
                                });
    if (covered < span.size()) unwritten_.push_back({span, i});
    readers_[span.space].push_back({span, i});
  }
  void write(std::size_t i, const Span& span) {
    const Operation& op = it_.operations[i];
    // A kernel that began earlier may wait for what this one stores from another rank.
    if (op.kind == "kernel" && !it_.own(op, span)) {
      for (const Read& read : unwritten_) {
        const Operation& reader = it_.operations[read.op];
        if (reader.kind != "kernel" || reader.rank == op.rank || !read.bytes.touches(span))
          continue;
        add(edges_, Edge::Kind::kFlow, i, read.op, common(read.bytes, span));
      }
    }
    writers_[span.space].within(
        span.begin, span.end, [&](uint64_t begin, uint64_t end, std::size_t before) {
          add(edges_, Edge::Kind::kReuse, before, i, {span.space, begin, end});
        });
    auto& readers = readers_[span.space];
    for (const Read& read : readers) {
      if (read.bytes.touches(span))
        add(edges_, Edge::Kind::kReuse, read.op, i, common(read.bytes, span));
    }
    // Nobody needs to be ordered against those any more: whoever writes next is behind this one.
    if (!span.sparse)
      std::erase_if(readers, [&](const Read& r) {
        return r.bytes.begin >= span.begin && r.bytes.end <= span.end && r.op != i;
      });
    writers_[span.space].set(span.begin, span.end, i);
  }
  static Bytes common(const Bytes& a, const Bytes& b) {
    return {a.space, std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }

  const Iteration& it_;
  EdgeMap& edges_;
  std::map<int, Owners> writers_;
  std::map<int, std::vector<Read>> readers_;  // since the last write
  std::vector<Read> unwritten_;               // reads that nobody had written before
};

// Does what `from` sends in `call` arrive in `to`, rank `receiver`'s side of the same collective?
bool carries(const CollectiveCall& to, int receiver, int sender) {
  const bool both = std::find(to.members.begin(), to.members.end(), sender) != to.members.end();
  if (to.name == "ncclRecv") return to.peer == sender;
  if (to.name == "ncclBroadcast") return both && to.peer == sender;
  if (to.name == "ncclReduce") return both && to.peer == receiver;
  return both && to.recv.space >= 0;
}

// Where in `to` the part of `sender` arrives.
Bytes arrival(const CollectiveCall& to, int sender) {
  Bytes out = to.recv;
  const auto place = std::find(to.members.begin(), to.members.end(), sender);
  if (to.name == "ncclAllGather" && place != to.members.end()) {
    out.begin += static_cast<uint64_t>(place - to.members.begin()) * to.bytes;
    out.end = std::min(out.end, out.begin + to.bytes);
  }
  return out;
}

void carry_edges(const Iteration& it, EdgeMap& edges) {
  std::map<int64_t, std::vector<std::size_t>> meetings;
  for (std::size_t i = 0; i < it.operations.size(); ++i)
    if (it.operations[i].meeting >= 0) meetings[it.operations[i].meeting].push_back(i);
  for (const auto& [number, ops] : meetings) {
    for (const std::size_t to : ops) {
      const Operation& receiver = it.operations[to];
      for (const std::size_t from : ops) {
        const Operation& sender = it.operations[from];
        if (sender.rank == receiver.rank) continue;
        for (const CollectiveCall& call : receiver.calls) {
          if (!carries(call, receiver.rank, sender.rank)) continue;
          const Bytes bytes = arrival(call, sender.rank);
          if (bytes.space >= 0 && bytes.begin < bytes.end)
            edges[{Edge::Kind::kCarry, from, to}].push_back(bytes);
        }
      }
    }
  }
}

void order_edges(const Iteration& it, EdgeMap& edges) {
  std::map<std::pair<int, int64_t>, std::size_t> last;
  std::map<int64_t, std::size_t> of_id;
  for (std::size_t i = 0; i < it.operations.size(); ++i) of_id[it.operations[i].id] = i;
  for (std::size_t i = 0; i < it.operations.size(); ++i) {
    const Operation& op = it.operations[i];
    const auto [place, first] = last.try_emplace({op.rank, op.stream}, i);
    if (!first) edges[{Edge::Kind::kOrder, std::exchange(place->second, i), i}];
    for (const int64_t before : op.after) {
      if (const auto found = of_id.find(before); found != of_id.end() && found->second != i)
        edges[{Edge::Kind::kOrder, found->second, i}];
    }
  }
}

}  // namespace

uint64_t Edge::size() const {
  uint64_t total = 0;
  for (const Bytes& b : bytes) total += b.size();
  return total;
}

const char* kind_name(Edge::Kind kind) {
  switch (kind) {
    case Edge::Kind::kFlow: return "flow";
    case Edge::Kind::kCarry: return "carry";
    case Edge::Kind::kReuse: return "reuse";
    case Edge::Kind::kOrder: return "order";
  }
  return "order";
}

std::vector<Edge> make_edges(const Iteration& iteration) {
  EdgeMap found;
  DataEdges(iteration, found).find();
  carry_edges(iteration, found);
  order_edges(iteration, found);
  std::vector<Edge> out;
  for (auto& [key, bytes] : found)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), tidy(std::move(bytes))});
  return out;
}

bool communicates(const Iteration& it, const Operation& op) {
  if (op.kind == "collective") return true;
  const auto foreign = [&](const Span& span) { return !it.own(op, span); };
  return std::any_of(op.reads.begin(), op.reads.end(), foreign) ||
         std::any_of(op.writes.begin(), op.writes.end(), foreign);
}

bool computes(const Iteration& it, const Operation& op) {
  return (op.kind == "kernel" || op.kind == "gemm") && !communicates(it, op);
}

Reach::Reach(std::size_t n, const std::vector<Edge>& edges, std::initializer_list<Edge::Kind> kinds)
    : words_((n + 63) / 64), bits_(n * words_) {
  std::vector<std::vector<std::size_t>> next(n);
  for (const Edge& e : edges)
    if (std::find(kinds.begin(), kinds.end(), e.kind) != kinds.end()) next[e.from].push_back(e.to);
  std::vector<std::size_t> open;
  for (std::size_t from = 0; from < n; ++from) {
    open = {from};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::size_t to : next[at]) {
        uint64_t& word = bits_[from * words_ + to / 64];
        if ((word >> (to % 64) & 1) != 0) continue;
        word |= uint64_t{1} << (to % 64);
        open.push_back(to);
      }
    }
  }
}

}  // namespace sculler::analyze
