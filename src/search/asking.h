// What strategies that ask models have in common: what they are told of the run, and how answers
// and failures are judged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "llm/provider.h"
#include "llm/tape.h"

namespace sculler::search {

struct AskingRun {
  uint64_t seed = 1;
  int64_t budget = 0;  // candidates, seeds included; 0: no bound
  int64_t calls = 8;   // questions at once where the settings say 0
  // One line for whoever watches the run: what gave no candidate, what was decided; may be empty.
  std::function<void(const std::string&)> note{};
  llm::Tape* tape = nullptr;  // null: neither recorded nor replayed
};

// Questions at once: what the settings say, else what the run says.
[[nodiscard]] int64_t calls_of(int64_t settings, const AskingRun& run);
// Why a run ends that this failure stops.
[[nodiscard]] const char* why_of(llm::Fault fault);
// The reward of the model that wrote a program that is right and `gain` times as fast as the one it
// was made of.
[[nodiscard]] double worth_of(double gain);

}  // namespace sculler::search
