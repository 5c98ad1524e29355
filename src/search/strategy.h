// Decides what to try next. Given the same seed and the same verdicts it proposes the same
// candidates in the same order, whatever the order in which verdicts arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/candidate.h"

namespace sculler::search {

struct Outcome {
  int64_t program = 0;
  Candidate candidate;
  bool passed = false;
  std::string status;
  double score = 0;  // higher is better; 0 where it did not pass
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // At most `limit` new candidates. Empty: it waits for verdicts, or is at its end.
  [[nodiscard]] virtual std::vector<Candidate> propose(std::size_t limit) = 0;
  virtual void told(const Outcome& outcome) = 0;
  // Nothing more will be proposed, whatever it is told.
  [[nodiscard]] virtual bool exhausted() const = 0;
};

}  // namespace sculler::search
