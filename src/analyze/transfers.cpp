#include "analyze/transfers.h"

#include <algorithm>
#include <map>

namespace sculler::analyze {
namespace {

// About eight pieces in all, in whole grains of the emulator's records.
std::vector<Bytes> pieces_of(const std::vector<Bytes>& bytes) {
  constexpr uint64_t kPieces = 8, kGrain = 256;
  uint64_t total = 0;
  for (const Bytes& b : bytes) total += b.size();
  const uint64_t step = std::max(kGrain, (total / kPieces + kGrain - 1) / kGrain * kGrain);
  std::vector<Bytes> out;
  for (const Bytes& b : bytes) {
    for (uint64_t at = b.begin; at < b.end;) {
      const uint64_t end = std::min(b.end, at + step);
      out.push_back({b.space, at, end});
      at = end;
    }
  }
  return out;
}

const Span* touching(const std::vector<Span>& spans, const std::vector<Bytes>& bytes) {
  for (const Span& span : spans)
    for (const Bytes& b : bytes)
      if (span.touches(b)) return &span;
  return nullptr;
}

// How a kernel goes over these bytes; kAny where it goes over several ranges in different ways.
Walk walk_over(const std::vector<Span>& spans, const std::vector<Bytes>& bytes) {
  std::optional<Walk> all;
  for (const Span& span : spans) {
    const bool touches =
        std::any_of(bytes.begin(), bytes.end(), [&](const Bytes& b) { return span.touches(b); });
    const Walk walk = walk_of(span);
    if (!touches || walk == Walk::kNone) continue;
    all = !all || *all == walk ? walk : Walk::kAny;
  }
  return all.value_or(Walk::kNone);
}

Transfer::Part part_of(const Operation& op, std::size_t index, const std::vector<Bytes>& bytes,
                       bool written) {
  Transfer::Part out;
  out.op = index;
  const auto& spans = written ? op.writes : op.reads;
  for (const Bytes& b : bytes) out.bytes += b.size();
  if (op.kind == "kernel") out.walk = walk_over(spans, bytes);
  if (const Span* span = touching(spans, bytes); span != nullptr && span->at != op.at)
    out.at = span->at;
  for (const Bytes& b : pieces_of(bytes))
    out.pieces.push_back({b, written ? when_written(op, b) : when_read(op, b)});
  return out;
}

// Of two operations alone: how much sooner both are over when the second begins each step as soon
// as what it needs of the first is there.
double gain(double first, double second, const std::vector<double>& needed) {
  const double step = second / kSteps;
  double end = 0;
  for (const double share : needed) end = std::max(end, share * first) + step;
  return first + second - std::max(end, first);
}

class Finder {
 public:
  Finder(const Iteration& it, const std::vector<Edge>& edges)
      : it_(it),
        edges_(edges),
        data_(it.operations.size(), edges, {Edge::Kind::kFlow, Edge::Kind::kCarry}),
        uses_(it.operations.size(), edges,
              {Edge::Kind::kFlow, Edge::Kind::kCarry, Edge::Kind::kReuse}),
        ordered_(it.operations.size(), edges,
                 {Edge::Kind::kFlow, Edge::Kind::kCarry, Edge::Kind::kReuse, Edge::Kind::kOrder}) {}

  Transfer find(std::size_t i) const {
    const Operation& op = it_.operations[i];
    Transfer out;
    out.op = i;
    for (const Span& s : op.reads) out.sent += it_.own(op, s) ? s.size() : 0;
    for (const Span& s : op.writes) out.received += it_.own(op, s) ? s.size() : 0;
    std::map<std::size_t, std::vector<Bytes>> producers, readers;
    for (const Edge& e : edges_) {
      if (e.kind != Edge::Kind::kFlow) continue;
      if (e.to == i) append(producers[e.from], e.bytes);
      if (arrives_by(e.from, i) && it_.operations[e.to].rank == op.rank && e.to != i) {
        std::vector<Bytes> own;
        for (const Bytes& b : e.bytes)
          if (it_.own(op, b)) own.push_back(b);
        if (!own.empty()) append(readers[e.to], own);
      }
    }
    for (const auto& [p, bytes] : producers)
      out.producers.push_back(part_of(it_.operations[p], p, bytes, true));
    for (const auto& [r, bytes] : readers)
      out.readers.push_back(part_of(it_.operations[r], r, bytes, false));
    const auto by = [&](auto time) {
      return [this, time](const Transfer::Part& a, const Transfer::Part& b) {
        return time(it_.operations[a.op]) < time(it_.operations[b.op]);
      };
    };
    std::stable_sort(out.producers.begin(), out.producers.end(),
                     by([](const Operation& o) { return o.end_us; }));
    std::stable_sort(out.readers.begin(), out.readers.end(),
                     by([](const Operation& o) { return o.start_us; }));
    for (std::size_t c = 0; c < it_.operations.size(); ++c) {
      const Operation& other = it_.operations[c];
      if (other.rank != op.rank || c == i || !computes(it_, other)) continue;
      if (auto overlap = overlap_of(out, c)) out.overlaps.push_back(*overlap);
    }
    std::stable_sort(out.overlaps.begin(), out.overlaps.end(),
                     [](const auto& a, const auto& b) { return a.gain_us > b.gain_us; });
    return out;
  }

 private:
  static void append(std::vector<Bytes>& to, const std::vector<Bytes>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  // Does what operation `from` writes into this rank's memory belong to transfer `i`? Its own
  // writes do, and what its counterparts on other ranks store here.
  bool arrives_by(std::size_t from, std::size_t i) const {
    if (from == i) return true;
    const Operation &a = it_.operations[from], &b = it_.operations[i];
    return a.rank != b.rank && a.kind == b.kind && a.name == b.name && a.at == b.at &&
           communicates(it_, a);
  }
  std::optional<Transfer::Overlap> overlap_of(const Transfer& t, std::size_t c) const {
    using How = Transfer::Overlap::How;
    const std::size_t i = t.op;
    Transfer::Overlap out;
    out.op = c;
    if (ordered_(c, i) == ordered_(i, c)) return std::nullopt;  // free already, or entangled
    out.before = ordered_(c, i);
    const std::size_t first = out.before ? c : i, second = out.before ? i : c;
    const Operation &a = it_.operations[first], &b = it_.operations[second];
    out.how = data_(first, second)   ? How::kPieces
              : uses_(first, second) ? How::kDoubled
                                     : How::kBeside;
    if (out.how != How::kPieces) {
      out.gain_us = std::min(a.duration(), b.duration());
      return out;
    }
    // In pieces with direct partners alone: what lies further away is theirs to hide.
    const auto& parts = out.before ? t.producers : t.readers;
    const auto direct = std::find_if(parts.begin(), parts.end(),
                                     [&](const Transfer::Part& p) { return p.op == c; });
    if (direct == parts.end()) return std::nullopt;
    std::vector<Bytes> bytes;
    for (const Piece& piece : direct->pieces) bytes.push_back(piece.bytes);
    const auto needed = needs(a, b, bytes);
    out.from = needed.front();
    out.gain_us = gain(a.duration(), b.duration(), needed);
    return out;
  }

  const Iteration& it_;
  const std::vector<Edge>& edges_;
  Reach data_, uses_, ordered_;
};

}  // namespace

const char* how_name(Transfer::Overlap::How how) {
  switch (how) {
    case Transfer::Overlap::How::kBeside: return "beside";
    case Transfer::Overlap::How::kDoubled: return "second_buffer";
    case Transfer::Overlap::How::kPieces: return "pieces";
  }
  return "beside";
}

std::vector<double> needs(const Operation& first, const Operation& second,
                          const std::vector<Bytes>& bytes) {
  std::vector<double> out(kSteps, 0);
  for (const Bytes& range : pieces_of(bytes)) {
    // Twice as fine: a step of the second may need half a piece.
    const uint64_t half = range.begin + (range.size() + 1) / 2;
    for (const Bytes& b :
         {Bytes{range.space, range.begin, half}, Bytes{range.space, half, range.end}}) {
      if (b.begin >= b.end) continue;
      const double there = when_written(first, b).last, wanted = when_read(second, b).first;
      for (int k = 0; k < kSteps; ++k)
        if (wanted < (k + 1.0) / kSteps)
          out[static_cast<std::size_t>(k)] = std::max(out[static_cast<std::size_t>(k)], there);
    }
  }
  return out;
}

std::vector<Transfer> make_transfers(const Iteration& iteration, const std::vector<Edge>& edges) {
  const Finder finder(iteration, edges);
  std::vector<Transfer> out;
  for (std::size_t i = 0; i < iteration.operations.size(); ++i)
    if (communicates(iteration, iteration.operations[i])) out.push_back(finder.find(i));
  return out;
}

}  // namespace sculler::analyze
