// [evolve] of run.toml as values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::search {

// Shares of the mutations; they need not add up to one.
struct Mix {
  double diff = 0, full = 0, crossover = 0;
};

// Defaults are those of preset `cuco` (arXiv 2603.02376 and the settings of its public code) but
// for the repairs, which it has none of.
struct EvolveSettings {
  int64_t islands = 2;
  int64_t archive = 60;     // programs that may become parents, over all islands
  int64_t generations = 0;  // proposals in all, one a generation; 0: the run's other bounds hold
  int64_t calls = 0;        // proposals that are being written at once; 0: llm.parallel
  double lambda = 8;        // of the parents' weights
  int64_t migrate_every = 8;
  double migrate_share = 0.15;
  double explore = 0.4;  // first part of the run
  Mix explore_mix{0.15, 0.70, 0.15};
  Mix exploit_mix{0.25, 0.60, 0.15};
  std::vector<double> explore_temperatures{0.2, 0.5, 0.8};
  std::vector<double> exploit_temperatures{0.0, 0.2, 0.5};
  double fix = 0.25;       // chance that a proposal repairs a failed program, where there is one
  int64_t fixes = 2;       // repairs that one failed program gets at most
  double novelty = 0.995;  // token shingles in common from which a program is not new; above 1: off
  int64_t summary_every = 8;
  int64_t recommendations = 5;
  int64_t inspirations = 2;
  int64_t retries = 1;          // questions again after an answer that cannot be used
  bool directive_first = true;  // a question of its own, before any code; else on top of the answer
  bool whole_file = false;      // a change may go beyond the evolve blocks
  bool judge = false;           // a diagnosis before each repair
  std::vector<std::string> backends{};  // of the islands in turn; empty: any
  int64_t context = 0;   // tokens of a prompt and its answer; 0: what the models take, else 128k
  int64_t give_up = 50;  // proposals one after another without a usable answer; 0: never
};

// "0.15,0.70,0.15" and "0.2,0.5,0.8"; kBadInput says what is wrong.
[[nodiscard]] Result<Mix> parse_mix(std::string_view text);
[[nodiscard]] Result<std::vector<double>> parse_temperatures(std::string_view text);
// Words of directive::Backend, separated by commas; empty: none.
[[nodiscard]] Result<std::vector<std::string>> parse_backends(std::string_view text);

}  // namespace sculler::search
