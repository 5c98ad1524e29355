#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "base/toml.h"
#include "cli/settings_table.h"

namespace sculler::cli {
namespace {

std::vector<std::string> choices_of(const Setting& setting) {
  std::vector<std::string> out;
  for (const auto word : split(setting.choices, '|')) out.emplace_back(word);
  return out;
}

Error bad(std::string_view where, std::string_view key, std::string message, std::string cure) {
  return {where == "--set" ? ErrorCode::kUsage : ErrorCode::kBadInput, std::move(message),
          std::string(where), std::string(key), std::move(cure)};
}

const Setting* find_setting(std::string_view key) {
  for (const auto& setting : settings_table()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

Error unknown(std::string_view where, std::string_view key) {
  const auto keys = setting_keys();
  auto like = nearest(key, keys);
  if (!like) {
    // "candidates" is near "budget.candidates".
    for (const auto& known : keys) {
      const auto dot = known.rfind('.');
      if (dot != std::string::npos && nearest(key, {known.substr(dot + 1)})) like = known;
    }
  }
  return bad(where, printable(shorten(key, 80)), "is not a known setting",
             like ? fmt::format("did you mean {}?", *like) : "sculler list settings shows them");
}

std::string value_text(const Settings& settings, const Setting& setting) {
  Settings copy = settings;
  const Place place = place_of(copy, setting.field);
  if (place.text != nullptr) return toml_quote(*place.text);
  if (place.integer != nullptr) return std::to_string(*place.integer);
  return fmt::format("{}", *place.number);
}

}  // namespace

std::vector<std::string> setting_keys() {
  std::vector<std::string> out;
  for (const auto& setting : settings_table()) out.emplace_back(setting.key);
  return out;
}

Status set_setting(Settings& settings, std::string_view key, std::string_view value,
                   std::string_view where) {
  const Setting* setting = find_setting(key);
  if (setting == nullptr) return fail(unknown(where, key));
  const Place place = place_of(settings, setting->field);
  if (place.text != nullptr) {
    if (!setting->choices.empty()) {
      const auto choices = choices_of(*setting);
      if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
        const auto like = nearest(value, choices);
        return fail(bad(where, key, fmt::format("\"{}\" is unknown", printable(shorten(value, 60))),
                        like ? fmt::format("did you mean {}?", *like)
                             : fmt::format("use one of {}", join(choices, ", "))));
      }
    }
    *place.text = std::string(value);
    return {};
  }
  const auto number = parse_double(value);
  const bool whole = place.integer != nullptr;
  if (!number || !std::isfinite(*number) || (whole && !parse_int(value))) {
    return fail(bad(where, key,
                    fmt::format("\"{}\" is no {}", printable(shorten(value, 60)),
                                whole ? "whole number" : "number"),
                    {}));
  }
  if (*number < setting->low || *number > setting->high) {
    return fail(bad(where, key,
                    fmt::format("{} is outside {}..{}", value, setting->low, setting->high), {}));
  }
  if (whole) *place.integer = *parse_int(value);
  else *place.number = *number;
  return {};
}

Status apply_override(Settings& settings, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return fail(ErrorCode::kUsage,
                fmt::format("--set {}: there is no \"=\"", printable(shorten(assignment, 80))),
                "write --set key=value");
  }
  return set_setting(settings, trim(assignment.substr(0, equals)),
                     trim(assignment.substr(equals + 1)), "--set");
}

Status read_settings(Files& files, const std::string& path, Settings& settings) {
  auto text = files.read(path, 1 << 20);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, path);
  if (root.has("version")) {
    auto version = root.integer("version");
    if (!version) return fail(version.error());
    if (*version != kRunVersion) {
      Error error = root.error(
          "version",
          fmt::format("run file of format {}, this program reads format {}", *version, kRunVersion),
          *version > kRunVersion ? "use the newer sculler that made it" : "start a new run");
      error.code = ErrorCode::kVersion;
      return fail(std::move(error));
    }
  }
  const auto scalar = [&](const TomlNode& node, const std::string& key) -> Status {
    const std::string where = fmt::format("{}:{}", path, node.line);
    std::string value;
    switch (node.kind) {
      case TomlNode::Kind::kString: value = node.string; break;
      case TomlNode::Kind::kInteger: value = std::to_string(node.integer); break;
      case TomlNode::Kind::kFloat: value = fmt::format("{}", node.number); break;
      default: {
        if (find_setting(key) == nullptr) return fail(unknown(where, key));
        return fail(bad(where, key, "a string or a number is expected", {}));
      }
    }
    const Setting* setting = find_setting(key);
    if (setting != nullptr && is_text(setting->field) != (node.kind == TomlNode::Kind::kString)) {
      return fail(bad(
          where, key,
          node.kind == TomlNode::Kind::kString ? "a number is expected" : "a string is expected",
          node.kind == TomlNode::Kind::kString ? "remove the quotes" : "put it in quotes"));
    }
    return set_setting(settings, key, value, where);
  };
  for (const auto& [key, node] : tree->table) {
    if (key == "version") continue;
    if (key == "model" && node.kind == TomlNode::Kind::kArray) {
      auto models = llm::read_models(root);
      if (!models) return fail(models.error());
      settings.llm.models = std::move(*models);
      continue;
    }
    if (!node.is_table()) {
      if (auto ok = scalar(node, key); !ok) return ok;
      continue;
    }
    for (const auto& [inner, value] : node.table) {
      if (auto ok = scalar(value, key + "." + inner); !ok) return ok;
    }
  }
  return {};
}

std::string print_settings(const Settings& settings) {
  std::string out = fmt::format("version = {}\n", kRunVersion);
  std::string section;
  for (const auto& setting : settings_table()) {
    const auto dot = setting.key.find('.');
    const std::string group(dot == std::string_view::npos ? std::string_view()
                                                          : setting.key.substr(0, dot));
    if (group != section) {
      out += fmt::format("\n[{}]\n", group);
      section = group;
    }
    const auto key = dot == std::string_view::npos ? setting.key : setting.key.substr(dot + 1);
    out +=
        fmt::format("{} = {}  # {}{}\n", key, value_text(settings, setting),
                    setting.choices.empty() ? std::string() : std::string(setting.choices) + "; ",
                    setting.note);
  }
  return out + llm::print_models(settings.llm.models);
}

Result<llm::Settings> effective_llm(const Settings& settings) {
  llm::Settings out = settings.llm;
  if (settings.llm_model.empty()) return out;
  std::vector<std::string> names;
  for (const auto& model : settings.llm.models) {
    names.push_back(model.name);
    if (model.name == settings.llm_model) {
      out.models = {model};
      return out;
    }
  }
  auto model = llm::model_of_word(settings.llm_model);
  if (!model) {
    if (const auto like = nearest(settings.llm_model, names))
      return fail(Error{ErrorCode::kUsage,
                        "is the name of no [[model]]",
                        {},
                        "llm.model",
                        fmt::format("did you mean {}?", *like)});
    return fail(model.error());
  }
  model->where = "llm.model";
  out.models = {std::move(*model)};
  return out;
}

}  // namespace sculler::cli
