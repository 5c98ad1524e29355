// What a summarizer makes of two programs of which one is faster: an item of the optimization
// memory (AccelOpt, arXiv 2511.15915).
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace sculler::agent {

struct Lesson {
  std::string title;        // one line
  std::string description;  // when it holds, and why
  std::string original;     // of the slower program
  std::string optimised;    // of the faster one
  int cut = 0;              // segments that do not stand in their program
};

// JSON schema of an answer.
[[nodiscard]] std::string_view lesson_schema();

// `answer` is JSON that fits the schema. A segment that its program does not hold (blanks aside) is
// cut. kModel where none is left, or title or description say nothing.
[[nodiscard]] Result<Lesson> parse_lesson(std::string_view answer, std::string_view slow,
                                          std::string_view fast);

}  // namespace sculler::agent
