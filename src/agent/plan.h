// What a planner says: one step for one program, tied to what was measured of it (AccelOpt, arXiv
// 2511.15915).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::agent {

struct Plan {
  std::string bottleneck;             // one line: what bounds the program
  std::vector<std::string> evidence;  // each stands in the profile that was given
  std::string step;                   // what is to be changed
  std::vector<std::size_t> uses;      // items of the memory that it builds on, from 1, sorted
  int cut = 0;                        // quotes of nothing, numbers of no item
};

// JSON schema of an answer.
[[nodiscard]] std::string_view plan_schema();

// `answer` is JSON that fits the schema. Quotes that `profile` does not hold (blanks aside) are
// cut, as are items above `n_items`. kModel where no quote is left or there is no step.
[[nodiscard]] Result<Plan> parse_plan(std::string_view answer, std::string_view profile,
                                      std::size_t n_items);

// For the executor: bottleneck, evidence and step.
[[nodiscard]] std::string print(const Plan& plan);

}  // namespace sculler::agent
