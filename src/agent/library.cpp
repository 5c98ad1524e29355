#include "agent/library.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace sculler::agent {
namespace {

constexpr std::array<std::string_view, kRoles> kNames = {
    "directive", "mutator", "judge",    "annotator",  "transformer",
    "meta",      "planner", "executor", "summarizer", "fixer"};
constexpr uint64_t kMaxFile = uint64_t{1} << 20;

// The text between a heading line and the next of the two.
Result<std::pair<std::string, std::string>> parts_of(const std::string& text,
                                                     const std::string& path) {
  std::string system, user;
  std::string* into = nullptr;
  for (const auto line : split(text, '\n')) {
    const auto word = trim(line);
    if (word == "# system") {
      into = &system;
    } else if (word == "# user") {
      into = &user;
    } else if (into != nullptr) {
      (*into += line) += '\n';
    }
  }
  if (trim(system).empty() || trim(user).empty()) {
    return fail(Error{ErrorCode::kBadInput,
                      "has no system or no user part",
                      path,
                      {},
                      "head the two parts by lines \"# system\" and \"# user\""});
  }
  return std::pair{std::string(trim(system)) + "\n", std::string(trim(user)) + "\n"};
}

}  // namespace

std::string_view role_name(Role role) { return kNames[static_cast<std::size_t>(role)]; }

std::string knowledge_name(std::string_view topic) {
  std::string out = "knowledge_" + std::string(topic);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

Result<std::shared_ptr<const Library>> Library::load(Files& files,
                                                     const std::vector<std::string>& folders) {
  auto out = std::make_shared<Library>();
  for (std::size_t i = 0; i < kRoles; ++i) {
    const std::string name = fmt::format("prompts/{}.md", kNames[i]);
    std::string path;
    for (const auto& folder : folders) {
      if (path.empty() && files.exists(join_path(folder, name))) path = join_path(folder, name);
    }
    if (path.empty()) {
      return fail(Error{ErrorCode::kNotFound,
                        fmt::format("{} is in none of these folders", name),
                        join(folders, ", "),
                        {},
                        "set SCULLER_HOME to the source tree or to PREFIX/share/sculler"});
    }
    auto text = files.read(path, kMaxFile);
    if (!text) return fail(text.error());
    auto parts = parts_of(*text, path);
    if (!parts) return fail(parts.error());
    auto system = Template::parse(parts->first, path);
    if (!system) return fail(system.error());
    auto user = Template::parse(parts->second, path);
    if (!user) return fail(user.error());
    out->roles_[i] = {std::move(*system), std::move(*user), path};
  }
  for (const auto& folder : folders) {
    const std::string knowledge = join_path(folder, "knowledge");
    auto names = files.list(knowledge);
    if (!names) continue;
    for (const auto& name : *names) {
      if (!name.ends_with(".md")) continue;
      const std::string topic = name.substr(0, name.size() - 3);
      if (out->knowledge_.count(topic) > 0) continue;
      auto text = files.read(join_path(knowledge, name), kMaxFile);
      if (!text) return fail(text.error());
      out->knowledge_[topic] = std::string(trim(*text)) + "\n";
    }
  }
  return std::shared_ptr<const Library>(std::move(out));
}

}  // namespace sculler::agent
