// A role's template filled in: bounded to what the model takes, with what was cut said in it.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "agent/library.h"
#include "llm/provider.h"

namespace sculler::agent {

// One text of others. It is cut before it is fenced, so that a fence is always closed.
struct Text {
  std::string text;
  std::string language;  // of the fence; empty: put in as it is
  // The lower, the earlier it is cut; 0: never.
  int order = 0;
};

struct Item {
  std::string title;  // one line, ours
  Text body;
};

struct Fill {
  // {{name}} and {{#name}}.
  std::map<std::string, Text> texts;
  std::map<std::string, bool> flags;
  // {{#name}}{{title}} {{body}}{{/name}}; cut from the last one.
  std::map<std::string, std::vector<Item>> lists;
};

struct Prompt {
  std::vector<llm::Message> messages;  // system, user
  std::vector<std::string> cut;        // names of what was shortened or left out
};

// Fills a role's template for one run: its system part is rendered once.
class Filler {
 public:
  // `constants` are known to every prompt of the run (task, target, …). Topics of the library are
  // known as knowledge_NAME; those that the role's template does not name come as the list
  // more_knowledge. `max_bytes`: of both messages; 0: no bound.
  Filler(std::shared_ptr<const Library> library, Role role, Fill constants, std::size_t max_bytes);

  // Names that the template asks for and neither constants nor `known` have: a typing error in an
  // edited prompt.
  [[nodiscard]] std::vector<std::string> unknown(const std::vector<std::string>& known) const;
  // kBadInput with the prompt's file where there is such a name.
  [[nodiscard]] Status check(const std::vector<std::string>& known) const;

  // kBadInput where the prompt is larger than the bound although all that may be cut is.
  [[nodiscard]] Result<Prompt> fill(const Fill& fill) const;

 private:
  std::shared_ptr<const Library> library_;
  Role role_;
  Fill constants_;
  std::size_t max_bytes_;
  std::string system_;
  std::vector<std::string> known_;  // names of all constants
};

// A filler a role, in order of roles. A third of `context_bytes` (0: no bound) is left to the
// answer.
[[nodiscard]] std::vector<Filler> make_fillers(const std::shared_ptr<const Library>& library,
                                               const Fill& constants, std::size_t context_bytes);

// The same talk goes on: what was said, and why it cannot be used.
void object(llm::Request& request, const std::string& answer, const std::string& reason);

}  // namespace sculler::agent
