// Carries tasks out: prompts, questions, answers read and checked. Knows nothing of the run's
// state, so it works on many threads at once, and the same answers give the same result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/prompt.h"
#include "search/beam/settings.h"
#include "search/beam/task.h"
#include "search/evolve/proposer.h"

namespace sculler::search::beam {

class Writer {
 public:
  Writer(llm::Provider& provider, BeamSettings settings, Brief brief);

  // kBadInput where a prompt asks for a name that nobody gives.
  [[nodiscard]] Status check() const;
  // Thread-safe, blocks for as long as the model takes.
  [[nodiscard]] Done carry_out(std::shared_ptr<const Task> task) const;

 private:
  [[nodiscard]] agent::Fill fill_of(const Task& task) const;
  // False where there is no answer; `done` says why.
  [[nodiscard]] bool ask(const llm::Request& request, Done& done, std::string& answer) const;
  // Reads an answer into `done`.
  [[nodiscard]] Status read(const Task& task, const std::string& answer, Done& done) const;

  llm::Provider& provider_;
  BeamSettings settings_;
  Brief brief_;
  std::vector<agent::Filler> fillers_;  // by role
};

// What was measured of a program, its lines in an order that `salt` decides: the same facts asked
// about differently.
[[nodiscard]] std::string shuffled_profile(const std::string& evidence, uint64_t seed,
                                           int64_t salt);

}  // namespace sculler::search::beam
