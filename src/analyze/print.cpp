// The analysis for people.
#include <fmt/format.h>

#include <algorithm>

#include "analyze/analysis.h"
#include "base/strings.h"

namespace sculler::analyze {
namespace {

constexpr std::size_t kShown = 4;  // ranges, readers, candidates: the rest is counted

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

class Printer {
 public:
  Printer(const Analysis& a, int rank) : a_(a), it_(a.iteration), rank_(rank) {}

  std::string print(const About& about) {
    out_ = fmt::format("{}: one iteration of {} on {} rank{} at size {}", about.file, about.task,
                       it_.n_ranks, it_.n_ranks == 1 ? "" : "s", about.size);
    if (a_.headroom)
      out_ += fmt::format("; times predicted for {} at size {}", about.profile, about.predict_size);
    out_ += fmt::format("\n\noperations of rank {}\n", rank_);
    for (const Operation& op : it_.operations)
      if (op.rank == rank_) operation(op);
    out_ += fmt::format("\ntransfers of rank {}\n", rank_);
    bool any = false;
    for (const Transfer& t : a_.transfers) {
      if (it_.operations[t.op].rank != rank_) continue;
      transfer(t);
      any = true;
    }
    if (!any) out_ += "  none: this rank exchanges nothing with the others\n";
    headroom();
    if (it_.truncated)
      out_ +=
          "\nNot all of the iteration was kept, and what is above may be incomplete: choose a "
          "smaller size with --size.\n";
    return std::move(out_);
  }

 private:
  // "C of set 3 [0, 262144)"; the range only where it is not all.
  std::string place(const Bytes& bytes) const {
    const Space& space = it_.spaces[static_cast<std::size_t>(bytes.space)];
    std::string out = space.name;
    if (space.rank != rank_) out += fmt::format(" of rank {}", space.rank);
    if (bytes.begin != 0 || bytes.end != space.bytes)
      out += fmt::format(" [{}, {})", bytes.begin, bytes.end);
    return out;
  }
  std::string places(const std::vector<Span>& spans) const {
    std::string out;
    for (std::size_t i = 0; i < spans.size() && i < kShown; ++i)
      out += fmt::format("{}{}{}", i == 0 ? "" : ", ", place(spans[i]),
                         spans[i].sparse ? " in parts" : "");
    if (spans.size() > kShown) out += fmt::format(" and {} more", spans.size() - kShown);
    return out;
  }
  // As label(), and of which rank where it is another's.
  std::string who(const Operation& op) const {
    return label(op) + (op.rank == rank_ ? "" : fmt::format(" of rank {}", op.rank));
  }

  void operation(const Operation& op) {
    std::string kind = op.kind;
    std::replace(kind.begin(), kind.end(), '_', ' ');
    out_ += fmt::format("  #{:<4} stream {}  {:<12} {}", op.id, op.stream, kind, short_name(op));
    if (!op.at.empty()) out_ += fmt::format(" ({})", op.at);
    if (op.blocks > 0) out_ += fmt::format(", {} block{}", op.blocks, op.blocks == 1 ? "" : "s");
    if (op.timed() && op.duration() > 0) {
      out_ += fmt::format(", {:.0f} to {:.0f} µs", op.start_us, op.end_us);
      if (!op.bound.empty()) out_ += ", limited by " + op.bound;
    }
    for (std::size_t i = 0; i < op.after.size(); ++i)
      out_ += fmt::format("{} #{}", i == 0 ? ", after" : ",", op.after[i]);
    if (!op.reads.empty()) out_ += "\n        reads  " + places(op.reads);
    if (!op.writes.empty()) out_ += "\n        writes " + places(op.writes);
    out_ += "\n";
  }

  void call(const CollectiveCall& call, const Operation& op) {
    out_ += fmt::format("    {}", call.name);
    if (call.name == "ncclSend") out_ += fmt::format(" to rank {}", call.peer);
    else if (call.name == "ncclRecv") out_ += fmt::format(" from rank {}", call.peer);
    else if (call.peer >= 0) out_ += fmt::format(", root rank {}", call.peer);
    if (!call.at.empty() && call.at != op.at) out_ += fmt::format(" ({})", call.at);
    out_ += ":";
    if (call.send.space >= 0) out_ += " from " + place(call.send);
    if (call.recv.space >= 0) out_ += " to " + place(call.recv);
    out_ += "\n";
  }

  static const char* walk_text(Walk walk) {
    switch (walk) {
      case Walk::kNone: return "";
      case Walk::kBlocks: return ", one block after another";
      case Walk::kBlocksDescending: return ", the last block's part first";
      case Walk::kSteps: return ", each block from front to back";
      case Walk::kStepsDescending: return ", each block from back to front";
      case Walk::kAny: return ", in no order";
    }
    return "";
  }

  void producer(const Transfer::Part& part) {
    const Operation& op = it_.operations[part.op];
    out_ += fmt::format("    sends what {} wrote: {}{}", who(op), bytes_text(part.bytes),
                        walk_text(part.walk));
    if (!part.at.empty()) out_ += fmt::format(", stored at {}", part.at);
    if (op.kind == "gemm") {
      out_ += "; a library call: nothing is known to be there before its end";
    } else if (const Piece* first = least(part, [](const Piece& p) { return p.when.last; })) {
      out_ += fmt::format("; first complete is {}, after {} of it", place(first->bytes),
                          percent(first->when.last));
    }
    out_ += "\n";
  }
  void reader(const Transfer::Part& part, bool first) {
    const Operation& op = it_.operations[part.op];
    out_ += fmt::format("    {} by {}: {}{}", first ? "read first" : "then", who(op),
                        bytes_text(part.bytes), walk_text(part.walk));
    if (!part.at.empty()) out_ += fmt::format(", loaded at {}", part.at);
    if (op.kind == "kernel") {
      const Piece* begin = least(part, [](const Piece& p) { return p.when.first; });
      const Piece* end = least(part, [](const Piece& p) { return -p.when.first; });
      if (begin != nullptr && end != begin)
        out_ += fmt::format("; it begins with {} and comes to {} after {} of its time",
                            place(begin->bytes), place(end->bytes), percent(end->when.first));
    }
    out_ += "\n";
  }
  template <class Key>
  static const Piece* least(const Transfer::Part& part, Key key) {
    const auto at =
        std::min_element(part.pieces.begin(), part.pieces.end(),
                         [&](const Piece& a, const Piece& b) { return key(a) < key(b); });
    return at == part.pieces.end() ? nullptr : &*at;
  }

  void overlap(const Transfer::Overlap& overlap) {
    const Operation& op = it_.operations[overlap.op];
    out_ += fmt::format("    could overlap with {}", who(op));
    using How = Transfer::Overlap::How;
    if (overlap.how == How::kBeside) out_ += ": no data flows between them";
    if (overlap.how == How::kDoubled) out_ += " if it had a second buffer: only that is used again";
    if (overlap.how == How::kPieces) {
      out_ += overlap.before ? fmt::format(" piece by piece: it could begin after {} of that",
                                           percent(overlap.from))
                             : fmt::format(" piece by piece: that could begin after {} of it",
                                           percent(overlap.from));
      if (overlap.from >= 0.999) out_ += ", so only by a change of the kernel";
    }
    if (overlap.gain_us >= 0.5) out_ += fmt::format("; at most {:.0f} µs", overlap.gain_us);
    out_ += "\n";
  }

  void transfer(const Transfer& t) {
    const Operation& op = it_.operations[t.op];
    out_ += fmt::format("  {}: {}, {}\n", label(op), sends(t.sent), receives(t.received));
    for (std::size_t i = 0; i < op.calls.size() && i < 2 * kShown; ++i) call(op.calls[i], op);
    if (op.calls.size() > 2 * kShown)
      out_ += fmt::format("    and {} calls more\n", op.calls.size() - 2 * kShown);
    for (const auto& part : t.producers) producer(part);
    if (t.producers.empty() && t.sent > 0)
      out_ += "    sends what was there before the iteration: inputs\n";
    for (std::size_t i = 0; i < t.readers.size() && i < kShown; ++i) reader(t.readers[i], i == 0);
    if (t.readers.size() > kShown)
      out_ += fmt::format("    then by {} more\n", t.readers.size() - kShown);
    if (t.readers.empty() && t.received > 0)
      out_ += "    nobody reads what arrives within the iteration: an output\n";
    for (std::size_t i = 0; i < t.overlaps.size() && i < kShown; ++i) overlap(t.overlaps[i]);
    if (t.overlaps.size() > kShown)
      out_ += fmt::format("    and {} more that could overlap\n", t.overlaps.size() - kShown);
    if (t.overlaps.empty()) out_ += "    no kernel that could overlap with it\n";
  }
  static std::string sends(uint64_t bytes) {
    return bytes == 0 ? "sends nothing of its own" : "sends " + bytes_text(bytes);
  }
  static std::string receives(uint64_t bytes) {
    return bytes == 0 ? "receives nothing" : "receives " + bytes_text(bytes);
  }

  void headroom() {
    out_ += "\nheadroom\n";
    if (!a_.headroom) {
      out_ += "  not predicted" + (it_.untimed.empty() ? "" : ": " + it_.untimed) + "\n";
      return;
    }
    const Headroom& h = *a_.headroom;
    const auto gain = [&](double us) {
      return us > 0 ? fmt::format(", {:.2f}×", h.now / us) : std::string();
    };
    out_ += fmt::format(
        "  now             {}: rank {} computes {}, communicates {}\n"
        "  piece by piece  {}{}: each operation begins as soon as the bytes it needs are there\n"
        "  bound           {}{}: the shorter of computing and communicating wholly hidden\n",
        microseconds_text(h.now), h.rank, microseconds_text(h.computes),
        microseconds_text(h.communicates), microseconds_text(h.pieces), gain(h.pieces),
        microseconds_text(h.bound), gain(h.bound));
    out_ += "  critical path  ";
    for (std::size_t i = 0; i < h.critical.size(); ++i) {
      const Operation& op = it_.operations[h.critical[i]];
      out_ +=
          fmt::format("{} {}{} {:.0f} µs", i == 0 ? "" : " →", label(op),
                      op.rank == h.rank ? "" : fmt::format(" of rank {}", op.rank), op.duration());
    }
    out_ += "\n";
  }

  const Analysis& a_;
  const Iteration& it_;
  int rank_;
  std::string out_;
};

}  // namespace

std::string print_analysis(const Analysis& analysis, const About& about, int rank) {
  return Printer(analysis, rank).print(about);
}

}  // namespace sculler::analyze
