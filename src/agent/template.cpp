#include "agent/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <kainjow/mustache.hpp>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace sculler::agent {
namespace {

namespace mustache = kainjow::mustache;

mustache::data data_of(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::object: {
      mustache::data out{mustache::data::type::object};
      for (const auto& [name, member] : value.items()) out.set(name, data_of(member));
      return out;
    }
    case nlohmann::json::value_t::array: {
      mustache::data out{mustache::data::type::list};
      for (const auto& element : value) out.push_back(data_of(element));
      return out;
    }
    case nlohmann::json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      // {{#text}} asks whether there is any.
      if (text.empty()) return mustache::data{false};
      return mustache::data{text};
    }
    case nlohmann::json::value_t::boolean: return mustache::data{value.get<bool>()};
    case nlohmann::json::value_t::null: return mustache::data{false};
    default: return mustache::data{value.dump()};
  }
}

}  // namespace

// The library's render is not const; a lock makes it so.
struct Template::Parsed {
  explicit Parsed(const std::string& text) : mustache(text) {}
  mustache::mustache mustache;
  std::mutex mutex;
};

Result<Template> Template::parse(const std::string& text, std::string_view origin) {
  Template out;
  out.parsed_ = std::make_shared<Parsed>(text);
  if (!out.parsed_->mustache.is_valid()) {
    return fail(Error{ErrorCode::kBadInput,
                      out.parsed_->mustache.error_message(),
                      std::string(origin),
                      {},
                      "close every {{#section}} with {{/section}} and every tag with }}"});
  }
  out.parsed_->mustache.set_custom_escape([](const std::string& plain) { return plain; });
  for (std::size_t at = text.find("{{"); at != std::string::npos; at = text.find("{{", at + 2)) {
    const auto end = text.find("}}", at);
    if (end == std::string::npos) break;
    std::string_view tag = std::string_view(text).substr(at + 2, end - at - 2);
    if (!tag.empty() && tag[0] == '!') continue;
    while (!tag.empty() && std::string_view("#^/{& ").find(tag[0]) != std::string_view::npos)
      tag.remove_prefix(1);
    out.names_.emplace_back(trim(tag));
  }
  std::sort(out.names_.begin(), out.names_.end());
  out.names_.erase(std::unique(out.names_.begin(), out.names_.end()), out.names_.end());
  return out;
}

std::string Template::render(const nlohmann::json& data) const {
  const auto values = data_of(data);
  std::string out;
  const std::lock_guard lock(parsed_->mutex);
  parsed_->mustache.render(values, [&out](const std::string& piece) { out += piece; });
  return out;
}

}  // namespace sculler::agent
