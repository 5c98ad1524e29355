// [beam] of run.toml as values.
#pragma once

#include <cstdint>
#include <string>

namespace sculler::search::beam {

// Defaults are those of AccelOpt (arXiv 2511.15915), with its rules mended (docs/beam.md).
struct BeamSettings {
  int64_t width = 6;      // B: programs that go on to the next round
  int64_t plans = 12;     // N: plans for each of them
  int64_t kernels = 2;    // K: programs for each plan
  int64_t rounds = 16;    // T
  double t_pos = 1.04;    // from this speedup a rewrite is worth remembering
  double t_neg = 1.15;    // and from this slowdown
  int64_t topk = 8;       // pairs of a round that are remembered
  int64_t expn = 16;      // items that the memory holds
  bool faithful = false;  // the paper's rules
  bool memory = true;
  bool sampling = false;    // programs without plans and memory, always of the first programs
  bool remeasure = true;    // the programs that go on are timed again each round
  bool whole_file = false;  // a change may go beyond the evolve blocks
  int64_t fixes = 1;        // repairs of a program that did not pass
  int64_t retries = 1;      // questions again after an answer that cannot be used
  double temperature = 1;   // of planner, executor and fixer
  int64_t calls = 0;        // questions at once; 0: llm.parallel
  int64_t context = 0;      // tokens of a prompt and its answer; 0: what the models take
  int64_t give_up = 50;     // answers one after another that could not be used; 0: never
  std::string shared;       // path of a memory that tasks share; empty: none
};

// Of TopK, at most so many are speedups.
inline constexpr std::size_t kMostPositive = 4;

// The settings with the paper's rules where they say so: no repairs, no second questions.
[[nodiscard]] inline BeamSettings effective(BeamSettings settings) {
  if (settings.faithful) settings.fixes = settings.retries = 0;
  if (settings.sampling) settings.memory = false;
  return settings;
}

}  // namespace sculler::search::beam
