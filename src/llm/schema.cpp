#include "llm/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::llm {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

Status wrong(const std::string& path, std::string what) {
  return fail(Error{ErrorCode::kBadInput,
                    fmt::format("at {}: {}", path.empty() ? "/" : path, what),
                    {},
                    path.empty() ? "/" : path,
                    {}});
}

bool has_type(const json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  }
  return true;
}

std::string shown(const json& value) { return shorten(printable(dump_json(value)), 60); }

Status check(const json& schema, const json& value, const std::string& path, int depth);

Status check_number(const json& schema, const json& value, const std::string& path) {
  const double number = value.get<double>();
  const auto bound = [&](const char* key, auto holds) {
    const json* limit = find_member(schema, key);
    return limit == nullptr || !limit->is_number() || holds(number, limit->get<double>());
  };
  if (!bound("minimum", std::greater_equal<>()) || !bound("maximum", std::less_equal<>()) ||
      !bound("exclusiveMinimum", std::greater<>()) || !bound("exclusiveMaximum", std::less<>())) {
    return wrong(path, fmt::format("{} is outside the bounds", shown(value)));
  }
  return {};
}

Status check_length(const json& schema, std::size_t length, const char* least, const char* most,
                    const std::string& path, const char* what) {
  const auto size = static_cast<int64_t>(length);
  const int64_t low = int_or(schema, least, 0), high = int_or(schema, most, INT64_MAX);
  if (size < low) return wrong(path, fmt::format("{} {}, at least {} wanted", size, what, low));
  if (size > high) return wrong(path, fmt::format("{} {}, at most {} wanted", size, what, high));
  return {};
}

Status check_object(const json& schema, const json& value, const std::string& path, int depth) {
  if (const json* required = find_member(schema, "required");
      required != nullptr && required->is_array()) {
    for (const auto& name : *required) {
      if (name.is_string() && !value.contains(name.get<std::string>()))
        return wrong(path, fmt::format("\"{}\" is missing", name.get<std::string>()));
    }
  }
  const json* properties = find_member(schema, "properties");
  const json* others = find_member(schema, "additionalProperties");
  for (const auto& [key, member] : value.items()) {
    const std::string inner = fmt::format("{}/{}", path, shorten(printable(key), 60));
    const json* known = properties == nullptr ? nullptr : find_member(*properties, key);
    if (known != nullptr) {
      if (auto ok = check(*known, member, inner, depth + 1); !ok) return ok;
    } else if (others != nullptr && others->is_boolean() && !others->get<bool>()) {
      return wrong(inner, "is not one of the members that are allowed");
    } else if (others != nullptr && others->is_object()) {
      if (auto ok = check(*others, member, inner, depth + 1); !ok) return ok;
    }
  }
  return {};
}

Status check_choices(const json& schema, const json& value, const std::string& path, int depth) {
  if (const json* all = find_member(schema, "allOf"); all != nullptr && all->is_array()) {
    for (const auto& one : *all) {
      if (auto ok = check(one, value, path, depth + 1); !ok) return ok;
    }
  }
  for (const bool only : {false, true}) {
    const json* some = find_member(schema, only ? "oneOf" : "anyOf");
    if (some == nullptr || !some->is_array() || some->empty()) continue;
    int fits = 0;
    Status first;
    for (const auto& one : *some) {
      auto ok = check(one, value, path, depth + 1);
      if (ok) ++fits;
      else if (first) first = std::move(ok);
    }
    if (fits == 0) return first;
    if (only && fits > 1) return wrong(path, "fits more than one of the forms");
  }
  return {};
}

Status check(const json& schema, const json& value, const std::string& path, int depth) {
  if (depth > kDeepest) return wrong(path, "the schema is nested too deeply");
  if (schema.is_boolean()) return schema.get<bool>() ? Status() : wrong(path, "nothing is allowed");
  if (!schema.is_object()) return {};
  if (const json* type = find_member(schema, "type"); type != nullptr) {
    bool fits = !type->is_string() && !type->is_array();
    if (type->is_string()) fits = has_type(value, type->get<std::string>());
    if (type->is_array()) {
      for (const auto& one : *type)
        fits = fits || (one.is_string() && has_type(value, one.get<std::string>()));
    }
    if (!fits)
      return wrong(path,
                   fmt::format("{} wanted, {} found",
                               type->is_string() ? type->get<std::string>() : dump_json(*type),
                               shown(value)));
  }
  if (const json* list = find_member(schema, "enum"); list != nullptr && list->is_array()) {
    if (std::find(list->begin(), list->end(), value) == list->end())
      return wrong(path, fmt::format("{} is not one of {}", shown(value), shown(*list)));
  }
  if (schema.contains("const") && schema.at("const") != value)
    return wrong(path, fmt::format("{} wanted, {} found", shown(schema.at("const")), shown(value)));
  if (value.is_number()) {
    if (auto ok = check_number(schema, value, path); !ok) return ok;
  }
  if (value.is_string()) {
    if (auto ok = check_length(schema, display_width(value.get_ref<const std::string&>()),
                               "minLength", "maxLength", path, "characters");
        !ok) {
      return ok;
    }
  }
  if (value.is_array()) {
    if (auto ok = check_length(schema, value.size(), "minItems", "maxItems", path, "items"); !ok)
      return ok;
    if (const json* items = find_member(schema, "items"); items != nullptr) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (auto ok = check(*items, value[i], fmt::format("{}/{}", path, i), depth + 1); !ok)
          return ok;
      }
    }
  }
  if (value.is_object()) {
    if (auto ok = check_object(schema, value, path, depth); !ok) return ok;
  }
  return check_choices(schema, value, path, depth);
}

}  // namespace

Result<json> find_json(std::string_view answer) {
  const std::string_view whole = trim(answer);
  auto first = parse_json(whole, "answer");
  if (first) return first;
  if (const auto fence = whole.find("```"); fence != std::string_view::npos) {
    std::string_view rest = whole.substr(fence + 3);
    const auto line = rest.find('\n');
    if (line != std::string_view::npos) rest.remove_prefix(line + 1);
    if (auto inner = parse_json(trim(rest.substr(0, rest.find("```"))), "answer"); inner)
      return inner;
  }
  if (const auto start = whole.find_first_of("{["); start != std::string_view::npos) {
    const std::string_view rest = whole.substr(start);
    if (const auto end = json_end(rest); end != std::string_view::npos) {
      if (auto inner = parse_json(rest.substr(0, end), "answer"); inner) return inner;
    }
  }
  return first;
}

Status check_schema(const json& schema, const json& value) { return check(schema, value, "", 0); }

Result<json> parse_by_schema(std::string_view schema, std::string_view answer,
                             std::string_view what) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  auto value = parse_json(answer, what, kMost);
  if (!value) return value;
  auto form = parse_json(schema, "schema");
  if (!form) return form;
  if (auto ok = check_schema(*form, *value); !ok) return fail(ok.error());
  return value;
}

Result<std::string> answer_by_schema(std::string_view schema, std::string_view answer) {
  auto form = parse_json(schema, "schema", std::size_t{1} << 20);
  if (!form) return fail(form.error());
  auto value = find_json(answer);
  if (!value) return fail(value.error());
  if (auto ok = check_schema(*form, *value); !ok) return fail(ok.error());
  return dump_json(*value);
}

}  // namespace sculler::llm
