// A model's answer made into a program: read, applied within its bounds, with its directive.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "search/candidate.h"
#include "source/edit.h"

namespace sculler::search {

struct AnswerRules {
  source::Scope scope = source::Scope::kBlocks;
  // Written into the program; none: what the text says stays.
  std::optional<directive::Directive> directive{};
  // The answer may bring a directive, on top or in a whole text, that takes its place.
  bool may_choose = false;
  // Judges a chosen directive.
  std::function<Status(const directive::Directive&)> check{};
};

struct ProgramAnswer {
  std::shared_ptr<const Source> source;
  std::string why;  // one line: what the model says it did
};

// kBadSource, kBadDirective with the place in the answer where it cannot be used; an answer that
// changes nothing is none.
[[nodiscard]] Result<ProgramAnswer> program_of_answer(const Source& parent,
                                                      const std::string& answer, AnswerRules rules,
                                                      const std::string& name);

}  // namespace sculler::search
