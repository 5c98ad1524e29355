// A mustache-like template: {{name}}, {{#list}}…{{/list}}, {{^none}}…{{/none}}, {{! comment}}.
// Nothing is escaped: prompts are text. What is put in is never read as a template again.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::agent {

class Template {
 public:
  // kBadInput with "origin" where a section is not closed or a tag has no end.
  [[nodiscard]] static Result<Template> parse(const std::string& text, std::string_view origin);

  // `data` is an object of strings, numbers, booleans, arrays of objects, objects. Thread-safe.
  [[nodiscard]] std::string render(const nlohmann::json& data) const;
  // Every name that a tag asks for, each once, sorted.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  struct Parsed;
  std::shared_ptr<Parsed> parsed_;
  std::vector<std::string> names_;
};

}  // namespace sculler::agent
