// Asks the three roles of the fast path and reads their answers: the transformer that rewrites, the
// judge that diagnoses, the annotator that marks. Knows nothing of the run's state; the same
// answers give the same program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/prompt.h"
#include "llm/provider.h"
#include "search/candidate.h"
#include "search/evolve/proposer.h"
#include "search/fast/marking.h"

namespace sculler::search {

// What the transformer is told about the state of a stage.
struct FastView {
  std::string stage;                      // "A", "B"
  std::shared_ptr<const Source> current;  // the last program, right or not
  std::shared_ptr<const Source> given;    // the last right one; null where it is `current`
  std::string refusal;                    // why the built-in lowering does not do it
  std::string evidence;                   // about `current`, or why the last answer was of no use
  std::string diagnosis, history;
};

class FastWriter {
 public:
  // `ask` puts one question; what it fails with ends the talk.
  using Ask = std::function<llm::Reply(llm::Request request)>;
  FastWriter(Brief brief, Ask ask);

  // kBadInput where a prompt asks for a name that nobody gives.
  [[nodiscard]] Status check() const;

  // What came of one question. `fault` is set where there was no answer.
  struct Said {
    std::optional<llm::Failure> fault;
    std::string model, why;
    double usd = 0;
  };
  struct Program : Said {
    std::shared_ptr<const Source> source;  // null: `refused` says why, or `fault`
    Error refused;
  };
  // kBadInput where the prompt does not fit the model.
  [[nodiscard]] Result<Program> transform(const FastView& view, int64_t index) const;

  struct Diagnosed : Said {
    std::string text;     // of the diagnosis; empty: none
    std::string refused;  // why what came is none
  };
  [[nodiscard]] Result<Diagnosed> diagnose(const FastView& view, int64_t index) const;

  struct Marked : Said {
    std::shared_ptr<const Source> source;
    std::vector<std::string> reasons;
    Error refused;
  };
  // Marks of `program`, which has none. `refusal`: why the last ones could not be used.
  [[nodiscard]] Result<Marked> annotate(const Source& program, const std::string& refusal,
                                        int64_t index) const;

 private:
  [[nodiscard]] Result<llm::Request> request(agent::Role role, const agent::Fill& fill,
                                             int64_t index) const;
  // The answer; empty where none came, `said` says why.
  [[nodiscard]] std::optional<std::string> put(llm::Request question, Said& said) const;
  [[nodiscard]] Result<std::shared_ptr<const Source>> read(const FastView& view,
                                                           const std::string& answer, int64_t index,
                                                           std::string& why) const;
  [[nodiscard]] const agent::Filler& filler(agent::Role role) const {
    return fillers_[static_cast<std::size_t>(role)];
  }

  Brief brief_;
  Ask ask_;
  std::vector<agent::Filler> fillers_;  // by role
};

// A program of several files with another first one.
[[nodiscard]] Result<std::shared_ptr<const Source>> with_first_file(const Source& of,
                                                                    const std::string& name,
                                                                    std::string text);

}  // namespace sculler::search
