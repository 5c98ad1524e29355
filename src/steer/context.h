// What a decision maker is told: facts of the run, the buffer's state, and past decisions with
// their outcomes, as numbers and as a text for a language model.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "steer/buffer.h"
#include "steer/history.h"

namespace sculler::steer {

// What the trainer knows; 0 and "" where it does not say.
struct RunFacts {
  std::string graph;                          // a name or a line about it
  uint64_t nodes = 0, edges = 0, remote = 0;  // remote: nodes next to the partition
  uint64_t epochs = 0, minibatches = 0;       // in all; a epoch
};

struct Situation {
  uint64_t minibatch = 0;  // how many are done
  uint64_t epoch = 0;
  Counts window, total;
  uint64_t capacity = 0, limit = 0, used = 0;
  std::string policy;
  Knobs knobs;
};

[[nodiscard]] Situation situation_of(const Buffer& buffer, uint64_t epoch);

// The format is fixed (a test holds it to its text): models and prompts are compared on it.
[[nodiscard]] std::string context_text(const RunFacts& facts, const Situation& situation,
                                       const std::deque<Outcome>& outcomes);

}  // namespace sculler::steer
