// The facts of an evolution in the run's store, written when they become true, read when a run goes
// on: which proposals were decided, what came of each, what was summarized, what migrated.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "search/evolve/proposal.h"
#include "store/store.h"

namespace sculler::search {

class Journal {
 public:
  explicit Journal(store::Store& store) : store_(store) {}

  // Before it is asked.
  [[nodiscard]] Status decided(const Proposal& proposal);
  // The program of `made` is written with it, so that nothing that was paid for is lost; gives its
  // id, 0 where there is none.
  [[nodiscard]] Result<int64_t> answered(const Made& made);
  [[nodiscard]] Status migrated(int64_t program, int island);

  // As the store has it.
  struct Decided {
    int64_t index = 0, parent = 0, partner = 0;
    int island = 0;
    bool explore = true;
    Mutation mutation = Mutation::kDiff;
    double temperature = 0;
    uint64_t blocks = 0;
    std::vector<int64_t> inspirations;
    bool answered = false;
    int64_t program = 0;  // 0: no program came of it
    std::string model, why;
  };
  struct State {
    std::vector<Decided> proposals;          // by index
    int64_t summaries = 0;                   // calls that ended
    std::string summary;                     // of the last one that gave a text
    std::multimap<int64_t, int> migrations;  // program → island
  };
  [[nodiscard]] Result<State> read();

 private:
  store::Store& store_;
};

}  // namespace sculler::search
