// A proposal on its way: what it starts from, frozen when it was decided, and what came of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llm/provider.h"
#include "search/evolve/novelty.h"
#include "search/evolve/population.h"
#include "search/evolve/schedule.h"

namespace sculler::search {

// Texts that many proposals share.
struct Standing {
  std::string table;    // baselines and the best so far
  std::string summary;  // of the last meta call, may be empty
};

struct Proposal {
  enum class Kind { kProgram, kSummary };
  Kind kind = Kind::kProgram;
  int64_t index = 0;  // of its kind, from 0
  int island = 0;
  bool explore = true;
  Mutation mutation = Mutation::kDiff;
  double temperature = 0;
  uint64_t blocks = 0;  // mask of a crossover without a model
  Member parent;
  std::optional<Member> partner;  // crossover
  std::vector<Member> inspirations;
  std::string history;  // what the island, or for a summary the run, tried last
  std::string backend;  // of the island; empty: any
  std::shared_ptr<const Standing> standing;

  // By this an answer is known: that of the first question about it.
  [[nodiscard]] std::string name() const;
};

// What came of it: a source, a summary, or why not.
struct Made {
  std::shared_ptr<const Proposal> proposal;
  std::shared_ptr<const Source> source;  // with the directive in it
  std::shared_ptr<const Signature> signature;
  std::string text;                    // a summary's
  std::string why;                     // what the model says it did
  std::string failure;                 // empty where there is a source or a text
  std::string outcome;                 // "candidate", "summary", "refused", or llm::fault_name
  std::optional<llm::Failure> stop{};  // asking again cannot help
  std::string model;                   // of the last answer; empty: none was asked
  int64_t questions = 0;
  double usd = 0;

  [[nodiscard]] std::string name() const { return proposal->name(); }
};

}  // namespace sculler::search
