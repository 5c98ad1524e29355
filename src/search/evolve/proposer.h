// Makes a program of a proposal: prompts, questions, answers read, validated and applied. Knows
// nothing of the run's state, so it works on many threads at once, and the same answers give the
// same program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/prompt.h"
#include "directive/directive.h"
#include "llm/provider.h"
#include "search/evolve/proposal.h"
#include "search/evolve/settings.h"

namespace sculler::search {

// What is known of the run before it begins.
struct Brief {
  std::shared_ptr<const agent::Library> library;
  agent::Fill constants;  // task, target, hardware …: names in prompts/README.md
  directive::Topology topology;
  bool device_code = true;        // false on the cpu target: no directive is asked for
  std::size_t context_bytes = 0;  // of a prompt and its answer; 0: no bound
};

// The bounds of a topology in words, for those who choose.
[[nodiscard]] std::string topology_text(const directive::Topology& topology);
// A program's files for a prompt; `order` says when they are cut (agent::Text).
[[nodiscard]] std::vector<agent::Item> files_of(const Source& source, int order);

class Proposer {
 public:
  Proposer(llm::Provider& provider, EvolveSettings settings, Brief brief);

  // kBadInput where a prompt asks for a name that nobody gives.
  [[nodiscard]] Status check() const;
  // Thread-safe, blocks for as long as the model takes.
  [[nodiscard]] Made make(std::shared_ptr<const Proposal> proposal) const;

 private:
  struct Talk;
  [[nodiscard]] bool ask(Talk& talk, Made& made, std::string& answer) const;
  [[nodiscard]] bool decide_directive(const Proposal& p, Made& made,
                                      directive::Directive& directive) const;
  [[nodiscard]] bool write_program(const Proposal& p, Made& made,
                                   directive::Directive directive) const;
  [[nodiscard]] bool diagnose(const Proposal& p, Made& made, std::string& diagnosis) const;
  [[nodiscard]] Result<std::shared_ptr<const Source>> read_program(
      const Proposal& p, const std::string& answer, const directive::Directive& directive,
      std::string& why) const;
  void summarize(const Proposal& p, Made& made) const;
  void cross(const Proposal& p, Made& made) const;
  [[nodiscard]] agent::Fill common_fill(const Proposal& p) const;
  [[nodiscard]] Status check_directive(const directive::Directive& d, const std::string& backend,
                                       const std::string& origin) const;

  llm::Provider& provider_;
  EvolveSettings settings_;
  Brief brief_;
  std::vector<agent::Filler> fillers_;  // by role
};

}  // namespace sculler::search
