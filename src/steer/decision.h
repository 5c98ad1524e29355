// What a decision maker may turn, what it promises, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sculler::steer {

enum class Direction { kIncrease, kDecrease, kStagnant };
[[nodiscard]] std::string_view direction_word(Direction direction);
// Of a change of a share; less than half a percentage point is stagnant.
[[nodiscard]] Direction direction_of(double change);

// Everything but `replace` is left as it is where it is empty.
struct Decision {
  bool replace = false;          // policies that wait for a decision replace now
  std::optional<uint64_t> rows;  // most rows admitted or replaced a minibatch, at least 1
  std::optional<double> decay;   // of counts a minibatch, 0.01 to 1
  std::optional<double> buffer;  // share of the capacity that is used, 0 to 1
  std::string policy;            // as make_policy() takes it
  std::optional<Direction> hit_rate, communication;  // what it expects of them
  std::string explanation;                           // at most kMaxExplanation columns, printable

  static constexpr size_t kMaxExplanation = 400;
};

// The answer of a model or of a person: one JSON object against answer_schema(), alone or in a
// text, in a code fence or not. Hostile: bounded, every member checked, unknown ones refused.
// kModel says what is wrong in a sentence that can be given back to a model.
[[nodiscard]] Result<Decision> parse_answer(std::string_view text);
[[nodiscard]] std::string_view answer_schema();

}  // namespace sculler::steer
