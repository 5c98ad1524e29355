// What a judge says about a program that is not right: by a schema that has no place for code, and
// nothing of it is believed that the evidence does not hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::agent {

struct Diagnosis {
  struct Place {
    std::string file;  // may be empty: the program
    int line = 0;
    int rank = -1;  // -1: all of them, or not said
  };
  std::string category;  // "race", "deadlock", …
  std::vector<Place> where;
  std::vector<std::string> evidence;  // each stands in the evidence that was given
  std::vector<std::string> events;    // from the line at fault to what was seen
  int cut = 0;  // quotes of nothing and sentences that held code or told what to do
};

// JSON schema of an answer.
[[nodiscard]] std::string_view diagnosis_schema();

// `answer` is JSON that fits the schema. Quotes that `evidence` does not hold (blanks aside) are
// cut, as are events that hold code, a fence or an order. kModel where no quote or no event is
// left: such an answer is no diagnosis.
[[nodiscard]] Result<Diagnosis> parse_diagnosis(std::string_view answer, std::string_view evidence);

// Lines for the next prompt and for people.
[[nodiscard]] std::string print(const Diagnosis& diagnosis);

}  // namespace sculler::agent
