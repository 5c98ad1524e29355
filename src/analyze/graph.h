// The dependency graph of an iteration: which operation reads what another one wrote, which ones
// only share a buffer, and which ones only a stream or an event orders.
#pragma once

#include <string_view>
#include <vector>

#include "analyze/trace.h"

namespace sculler::analyze {

struct Edge {
  enum class Kind : unsigned char {
    kFlow,   // `to` reads what `from` wrote
    kCarry,  // two sides of a collective: `to` receives what `from`, on another rank, sends
    kReuse,  // `to` writes over what `from` read or wrote
    kOrder,  // the order of a stream, an event, a host that waited, and nothing more
  };
  Kind kind = Kind::kFlow;
  std::size_t from = 0, to = 0;  // indices into Iteration::operations
  std::vector<Bytes> bytes;      // kCarry: where they arrive; kOrder: empty
  [[nodiscard]] uint64_t size() const;
};
[[nodiscard]] const char* kind_name(Edge::Kind kind);  // "flow", …

// Every edge once, sorted by kind, from and to. Two kernels that exchange data while both run have
// one each way.
[[nodiscard]] std::vector<Edge> make_edges(const Iteration& iteration);

// Moves bytes between ranks: a collective, a copy from or to a peer, a kernel that touches a peer's
// memory.
[[nodiscard]] bool communicates(const Iteration& iteration, const Operation& op);
// A kernel or a library's kernel that does not communicate.
[[nodiscard]] bool computes(const Iteration& iteration, const Operation& op);

// Which operations lie behind which along edges of some kinds.
class Reach {
 public:
  Reach(std::size_t n, const std::vector<Edge>& edges, std::initializer_list<Edge::Kind> kinds);
  [[nodiscard]] bool operator()(std::size_t from, std::size_t to) const {
    return (bits_[from * words_ + to / 64] >> (to % 64) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<uint64_t> bits_;
};

}  // namespace sculler::analyze
