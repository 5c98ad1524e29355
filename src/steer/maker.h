// Who decides: built-in rules, and a callback for classifiers and language models outside.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "steer/context.h"
#include "steer/decision.h"

namespace sculler::steer {

class DecisionMaker {
 public:
  virtual ~DecisionMaker() = default;
  // Whether it reads the text; it is not made for those that do not.
  [[nodiscard]] virtual bool wants_text() const { return false; }
  // Empty: nothing is to change. An error is an answer that was none. Called by one thread at a
  // time, not by the trainer's in the modes async and deadline; it must end by itself.
  [[nodiscard]] virtual Result<std::optional<Decision>> decide(const Situation& now,
                                                               const std::string& text) = 0;
};

// "none"; "fixed:N": replaces every N minibatches; "heuristic": replaces while that pays, forgets
// after a change of the accesses; "random:SEED": any valid answer, to compare a model with.
[[nodiscard]] Result<std::unique_ptr<DecisionMaker>> make_maker(std::string_view specification);

// Gets the text, gives an answer's text (parse_answer()), or an error.
using AskText = std::function<Result<std::string>(const std::string& text)>;
[[nodiscard]] std::unique_ptr<DecisionMaker> make_asking(AskText ask);

}  // namespace sculler::steer
