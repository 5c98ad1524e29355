// What each transfer between ranks carries, who makes and who needs it, and what could run beside
// it.
#pragma once

#include <optional>
#include <vector>

#include "analyze/graph.h"
#include "analyze/progress.h"

namespace sculler::analyze {

// A piece of what is sent or received, and when its other side touches it.
struct Piece {
  Bytes bytes;
  Progress when;  // of the producer's writes, or of the reader's reads
};

struct Transfer {
  std::size_t op = 0;
  uint64_t sent = 0, received = 0;  // bytes of the own memory that are read, and written
  struct Part {
    std::size_t op = 0;
    uint64_t bytes = 0;
    Walk walk = Walk::kNone;    // over the bytes
    std::string at;             // line of the store or load; empty: as the operation's
    std::vector<Piece> pieces;  // in the order of addresses
  };
  std::vector<Part> producers;  // of what is sent, in the order in which they end
  std::vector<Part> readers;    // of what is received, the first one first; none: an output
  // A computation of the same rank that the program puts before or after the transfer.
  struct Overlap {
    enum class How : unsigned char {
      kBeside,   // no data flows between them: only streams order them
      kDoubled,  // only a buffer that is used again stands between them
      kPieces,   // data flows between them: piece by piece
    };
    std::size_t op = 0;
    How how = How::kBeside;
    bool before = false;  // the computation comes first
    // The second of the two could begin after this share of the first; kPieces.
    double from = 0;
    double gain_us = 0;  // of the two alone, where times are predicted
  };
  std::vector<Overlap> overlaps;  // the largest gain first
};
[[nodiscard]] const char* how_name(Transfer::Overlap::How how);  // "beside", "second_buffer", …

// For each step of `second`, in kSteps equal ones, the share of `first` that must be done before:
// data flows from first to second through `bytes`.
inline constexpr int kSteps = 16;
[[nodiscard]] std::vector<double> needs(const Operation& first, const Operation& second,
                                        const std::vector<Bytes>& bytes);

[[nodiscard]] std::vector<Transfer> make_transfers(const Iteration& iteration,
                                                   const std::vector<Edge>& edges);

}  // namespace sculler::analyze
