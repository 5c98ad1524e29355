#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sculler {
namespace {

using nlohmann::json;

// Calls visit(at, +1) and visit(at, -1) for the brackets outside of strings until it says false.
template <class Visit>
void each_bracket(std::string_view text, std::string_view open, std::string_view close,
                  const Visit& visit) {
  const auto one_of = [](std::string_view set, char c) {  // without a call a character
    for (const char each : set) {
      if (each == c) return true;
    }
    return false;
  };
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (one_of(open, c)) {
      if (!visit(i, 1)) return;
    } else if (one_of(close, c)) {
      if (!visit(i, -1)) return;
    }
  }
}

// nlohmann parses without recursion but prints and copies with it, so depth is bounded before.
int depth_of(std::string_view text, int limit) {
  int depth = 0, deepest = 0;
  each_bracket(text, "{[", "}]", [&](std::size_t, int step) {
    deepest = std::max(deepest, depth += step);
    return deepest <= limit;
  });
  return deepest;
}

Error key_error(std::string_view key, std::string_view origin, std::string message) {
  return {ErrorCode::kProtocol, std::move(message), std::string(origin), std::string(key), {}};
}

Result<const json*> need(const json& object, std::string_view key, std::string_view origin,
                         const char* expected) {
  if (!object.is_object()) {
    return fail(key_error(key, origin,
                          fmt::format("is looked up in {}, not in an object", object.type_name())));
  }
  const auto at = object.find(key);
  if (at == object.end())
    return fail(key_error(key, origin, fmt::format("is missing ({} expected)", expected)));
  return &*at;
}

Error wrong_type(std::string_view key, std::string_view origin, const char* expected,
                 const json& found) {
  return key_error(key, origin, fmt::format("{} expected, {} found", expected, found.type_name()));
}

}  // namespace

std::size_t json_end(std::string_view text, std::string_view open, std::string_view close,
                     std::size_t most) {
  int depth = 0;
  std::size_t end = std::string_view::npos;
  each_bracket(text.substr(0, most), open, close, [&](std::size_t at, int step) {
    depth += step;
    if (step < 0 && depth == 0) end = at + 1;
    return end == std::string_view::npos;
  });
  return end;
}

Result<json> parse_json(std::string_view text, std::string_view origin, std::size_t max_bytes,
                        int max_depth) {
  Error error{ErrorCode::kBadInput, {}, std::string(origin), {}, {}};
  if (text.size() > max_bytes) {
    error.message = fmt::format("{} bytes of JSON, at most {} are read", text.size(), max_bytes);
    return fail(std::move(error));
  }
  if (depth_of(text, max_depth) > max_depth) {
    error.message = fmt::format("JSON nested deeper than {}", max_depth);
    return fail(std::move(error));
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    const std::size_t at = std::min(e.byte, text.size());
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    error.file = fmt::format("{}:{}", origin, line + 1);
    std::string what = e.what();
    const auto colon = what.find(": ");
    error.message = "not JSON: " + (colon == std::string::npos ? what : what.substr(colon + 2));
    return fail(std::move(error));
  } catch (const json::exception& e) {
    error.message = std::string("not JSON: ") + e.what();
    return fail(std::move(error));
  }
}

std::string dump_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}
std::string pretty_json(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

json error_json(const Error& error) {
  json object{{"error", error.message}, {"exit_code", static_cast<int>(error.code)}};
  if (!error.file.empty()) object["file"] = error.file;
  if (!error.key.empty()) object["key"] = error.key;
  if (!error.cure.empty()) object["cure"] = error.cure;
  return object;
}

Result<std::string> get_string(const json& object, std::string_view key, std::string_view origin) {
  auto found = need(object, key, origin, "a string");
  if (!found) return fail(found.error());
  if (!(*found)->is_string()) return fail(wrong_type(key, origin, "a string", **found));
  return (*found)->get<std::string>();
}

Result<int64_t> get_int(const json& object, std::string_view key, std::string_view origin,
                        int64_t low, int64_t high) {
  auto found = need(object, key, origin, "an integer");
  if (!found) return fail(found.error());
  const json& value = **found;
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    return fail(wrong_type(key, origin, "an integer", value));
  }
  const auto number = value.get<int64_t>();
  if (number < low || number > high) {
    return fail(key_error(key, origin, fmt::format("{} is outside {}..{}", number, low, high)));
  }
  return number;
}

Result<double> get_number(const json& object, std::string_view key, std::string_view origin) {
  auto found = need(object, key, origin, "a number");
  if (!found) return fail(found.error());
  if (!(*found)->is_number()) return fail(wrong_type(key, origin, "a number", **found));
  return (*found)->get<double>();
}

Result<bool> get_bool(const json& object, std::string_view key, std::string_view origin) {
  auto found = need(object, key, origin, "true or false");
  if (!found) return fail(found.error());
  if (!(*found)->is_boolean()) return fail(wrong_type(key, origin, "true or false", **found));
  return (*found)->get<bool>();
}

Result<const json*> get_object(const json& object, std::string_view key, std::string_view origin) {
  auto found = need(object, key, origin, "an object");
  if (found && !(*found)->is_object()) return fail(wrong_type(key, origin, "an object", **found));
  return found;
}

Result<const json*> get_array(const json& object, std::string_view key, std::string_view origin) {
  auto found = need(object, key, origin, "an array");
  if (found && !(*found)->is_array()) return fail(wrong_type(key, origin, "an array", **found));
  return found;
}

const json* find_member(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string string_or(const json& object, std::string_view key, std::string_view fallback) {
  const json* found = find_member(object, key);
  return found && found->is_string() ? found->get<std::string>() : std::string(fallback);
}
int64_t int_or(const json& object, std::string_view key, int64_t fallback) {
  const json* found = find_member(object, key);
  return found && found->is_number_integer() ? found->get<int64_t>() : fallback;
}
double number_or(const json& object, std::string_view key, double fallback) {
  const json* found = find_member(object, key);
  return found && found->is_number() ? found->get<double>() : fallback;
}
bool bool_or(const json& object, std::string_view key, bool fallback) {
  const json* found = find_member(object, key);
  return found && found->is_boolean() ? found->get<bool>() : fallback;
}

std::vector<std::string> strings_of(const json& object, std::string_view key) {
  std::vector<std::string> out;
  const json* found = find_member(object, key);
  if (found == nullptr || !found->is_array()) return out;
  for (const auto& item : *found)
    if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}
std::vector<int64_t> ints_of(const json& object, std::string_view key) {
  std::vector<int64_t> out;
  const json* found = find_member(object, key);
  if (found == nullptr || !found->is_array()) return out;
  for (const auto& item : *found)
    if (item.is_number_integer()) out.push_back(item.get<int64_t>());
  return out;
}

}  // namespace sculler
