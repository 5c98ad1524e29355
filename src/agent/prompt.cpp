#include "agent/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/strings.h"

namespace sculler::agent {
namespace {

std::string shown(const Text& text) {
  if (text.text.empty()) return {};
  return text.language.empty() ? text.text : fence(text.text, text.language);
}

nlohmann::json json_of(const Fill& fill) {
  auto out = nlohmann::json::object();
  for (const auto& [name, text] : fill.texts) out[name] = shown(text);
  for (const auto& [name, flag] : fill.flags) out[name] = flag;
  for (const auto& [name, items] : fill.lists) {
    auto list = nlohmann::json::array();
    for (const auto& item : items)
      list.push_back({{"title", item.title}, {"body", shown(item.body)}});
    out[name] = std::move(list);
    out["has_" + name] = !items.empty();
  }
  return out;
}

void merge(Fill& into, const Fill& from) {
  for (const auto& [name, text] : from.texts) into.texts.insert_or_assign(name, text);
  for (const auto& [name, flag] : from.flags) into.flags.insert_or_assign(name, flag);
  for (const auto& [name, items] : from.lists) into.lists.insert_or_assign(name, items);
}

// What is cut next, and by how much it can become smaller.
struct Victim {
  Text* text = nullptr;
  std::string name;
  std::vector<Item>* list = nullptr;  // of which it is the last
};

Victim next_victim(Fill& fill) {
  Victim out;
  int order = 0;
  const auto offer = [&](Text& text, const std::string& name, std::vector<Item>* list) {
    if (text.order <= 0 || text.text.empty()) return;
    if (out.text != nullptr && text.order >= order) return;
    out = {&text, name, list};
    order = text.order;
  };
  for (auto& [name, text] : fill.texts) offer(text, name, nullptr);
  for (auto& [name, items] : fill.lists)
    if (!items.empty()) offer(items.back().body, name, &items);
  return out;
}

// Smaller by `excess` bytes at least, or gone.
void shorten_by(Fill& fill, std::size_t excess, std::vector<std::string>& names) {
  constexpr std::size_t kLeast = 400;  // a piece smaller than this says nothing
  while (excess > 0) {
    const Victim victim = next_victim(fill);
    if (victim.text == nullptr) return;
    if (std::find(names.begin(), names.end(), victim.name) == names.end())
      names.push_back(victim.name);
    const std::size_t size = victim.text->text.size();
    if (size >= excess + kLeast) {
      victim.text->text = cut(victim.text->text, size - excess);
      victim.text->order = 0;  // as small as it has to be
      return;
    }
    excess -= std::min(excess, size);
    if (victim.list != nullptr) victim.list->pop_back();
    else victim.text->text.clear();
  }
}

}  // namespace

Filler::Filler(std::shared_ptr<const Library> library, Role role, Fill constants,
               std::size_t max_bytes)
    : library_(std::move(library)),
      role_(role),
      constants_(std::move(constants)),
      max_bytes_(max_bytes) {
  const auto& text = library_->role(role_);
  std::vector<Item> more;
  for (const auto& [topic, body] : library_->knowledge()) {
    const std::string name = knowledge_name(topic);
    const auto asks = [&](const Template& part) {
      return std::binary_search(part.names().begin(), part.names().end(), name);
    };
    // Known topics are the template's choice; a user's own are shown wherever there is a place.
    constants_.texts[name] = {body, {}, 0};
    static const std::vector<std::string> kOwn = {"candidate-abi", "directive",       "emulator",
                                                  "fusion-guide",  "nccl-device-api", "hardware"};
    if (!asks(text.system) && !asks(text.user) &&
        std::find(kOwn.begin(), kOwn.end(), topic) == kOwn.end())
      more.push_back({topic, {body, {}, 0}});
  }
  constants_.lists["more_knowledge"] = std::move(more);
  const auto all = json_of(constants_);
  system_ = text.system.render(all);
  for (const auto& [name, value] : all.items()) known_.push_back(name);
  // What the system part alone asks for is not carried along.
  const auto& names = text.user.names();
  const auto unasked = [&](const auto& entry) {
    return !std::binary_search(names.begin(), names.end(), entry.first) &&
           !std::binary_search(names.begin(), names.end(), "has_" + entry.first);
  };
  std::erase_if(constants_.texts, unasked);
  std::erase_if(constants_.flags, unasked);
  std::erase_if(constants_.lists, unasked);
}

std::vector<std::string> Filler::unknown(const std::vector<std::string>& known) const {
  std::vector<std::string> out;
  const auto& text = library_->role(role_);
  for (const auto* part : {&text.system, &text.user}) {
    for (const auto& name : part->names()) {
      if (name == "title" || name == "body" ||
          std::find(known_.begin(), known_.end(), name) != known_.end() ||
          std::find(known.begin(), known.end(), name) != known.end())
        continue;
      out.push_back(name);
    }
  }
  return out;
}

Result<Prompt> Filler::fill(const Fill& given) const {
  Fill all = constants_;
  merge(all, given);
  Prompt out;
  const auto& text = library_->role(role_);
  const auto render = [&] {
    auto json = json_of(all);
    json["cut"] = join(out.cut, ", ");
    return text.user.render(json);
  };
  std::string user = render();
  for (int round = 0; round < 8 && max_bytes_ > 0 && system_.size() + user.size() > max_bytes_;
       ++round) {
    const std::size_t before = user.size();
    shorten_by(all, system_.size() + user.size() - max_bytes_ + 64, out.cut);
    user = render();
    if (user.size() == before) break;
  }
  if (max_bytes_ > 0 && system_.size() + user.size() > max_bytes_) {
    return fail(
        Error{ErrorCode::kBadInput,
              fmt::format("the prompt is {} long, {} fit the model's context",
                          bytes_text(system_.size() + user.size()), bytes_text(max_bytes_)),
              text.path,
              {},
              "use a model with a larger context, a shorter program, or shorten the prompt"});
  }
  out.messages = {{"system", system_}, {"user", std::move(user)}};
  return out;
}

Status Filler::check(const std::vector<std::string>& known) const {
  const auto names = unknown(known);
  if (names.empty()) return {};
  const auto like = nearest(names[0], known);
  return fail(
      Error{ErrorCode::kBadInput,
            fmt::format("asks for {{{{{}}}}}, which nobody gives", names[0]),
            library_->role(role_).path,
            {},
            like ? fmt::format("did you mean {}?", *like) : "prompts/README.md lists the names"});
}

std::vector<Filler> make_fillers(const std::shared_ptr<const Library>& library,
                                 const Fill& constants, std::size_t context_bytes) {
  std::vector<Filler> out;
  for (std::size_t i = 0; i < kRoles; ++i)
    out.emplace_back(library, static_cast<Role>(i), constants, context_bytes / 3 * 2);
  return out;
}

void object(llm::Request& request, const std::string& answer, const std::string& reason) {
  constexpr std::size_t kShortAnswer = 24'000;
  request.messages.push_back({"assistant", cut(answer, kShortAnswer)});
  request.messages.push_back(
      {"user", fmt::format("That answer cannot be used: {}\n\nAnswer again, in whole, in the form "
                           "that was asked for.\n",
                           reason)});
  ++request.step;
}

}  // namespace sculler::agent
