// What the agents are told: prompts/ROLE.md (a template with a system and a user part) and
// knowledge/TOPIC.md, both editable text. A user's own folder comes first, file by file.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/template.h"
#include "base/error.h"
#include "base/files.h"

namespace sculler::agent {

enum class Role {
  kDirective,
  kMutator,
  kJudge,
  kAnnotator,
  kTransformer,
  kMeta,
  kPlanner,
  kExecutor,
  kSummarizer,
  kFixer
};
inline constexpr std::size_t kRoles = 10;
// "directive", "mutator", …: the file's name and the role that a [[model]] serves.
[[nodiscard]] std::string_view role_name(Role role);

struct RoleText {
  Template system, user;
  std::string path;
};

class Library {
 public:
  // Each folder may hold prompts/ and knowledge/; the first that has a file gives it. kNotFound
  // with the name where a role has no file, kBadInput where one does not parse: the two parts are
  // headed by lines "# system" and "# user".
  [[nodiscard]] static Result<std::shared_ptr<const Library>> load(
      Files& files, const std::vector<std::string>& folders);

  [[nodiscard]] const RoleText& role(Role role) const {
    return roles_[static_cast<std::size_t>(role)];
  }
  // Topic ("nccl-device-api") → text.
  [[nodiscard]] const std::map<std::string, std::string>& knowledge() const { return knowledge_; }

 private:
  std::array<RoleText, kRoles> roles_;
  std::map<std::string, std::string> knowledge_;
};

// The name by which a template asks for a topic: "knowledge_nccl_device_api".
[[nodiscard]] std::string knowledge_name(std::string_view topic);

}  // namespace sculler::agent
