#include "base/toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/strings.h"

namespace sculler {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 32;

Status convert(const toml::node& from, TomlNode& to, int depth, std::string_view origin) {
  to.line = static_cast<int>(from.source().begin.line);
  if (depth > kMaxDepth) {
    return fail(Error{ErrorCode::kBadInput,
                      fmt::format("tables nested deeper than {}", kMaxDepth),
                      fmt::format("{}:{}", origin, to.line),
                      {},
                      {}});
  }
  if (const auto* table = from.as_table()) {
    to.kind = TomlNode::Kind::kTable;
    for (const auto& [key, value] : *table) {
      to.table.emplace_back(std::string(key.str()), TomlNode{});
      if (auto done = convert(value, to.table.back().second, depth + 1, origin); !done) return done;
    }
    // toml++ keeps keys sorted; the order of the file is what people expect back.
    std::stable_sort(to.table.begin(), to.table.end(),
                     [](const auto& a, const auto& b) { return a.second.line < b.second.line; });
  } else if (const auto* array = from.as_array()) {
    to.kind = TomlNode::Kind::kArray;
    for (const auto& value : *array) {
      to.array.emplace_back();
      if (auto done = convert(value, to.array.back(), depth + 1, origin); !done) return done;
    }
  } else if (const auto* integer = from.as_integer()) {
    to.kind = TomlNode::Kind::kInteger;
    to.integer = integer->get();
    to.number = static_cast<double>(to.integer);
  } else if (const auto* number = from.as_floating_point()) {
    to.kind = TomlNode::Kind::kFloat;
    to.number = number->get();
  } else if (const auto* boolean = from.as_boolean()) {
    to.kind = TomlNode::Kind::kBoolean;
    to.boolean = boolean->get();
  } else if (const auto* text = from.as_string()) {
    to.kind = TomlNode::Kind::kString;
    to.string = text->get();
  } else {
    std::ostringstream out;
    out << toml::node_view<const toml::node>(from);
    to.kind = TomlNode::Kind::kString;
    to.string = out.str();
  }
  return {};
}

// Bytes of bare keys and of numbers.
bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '+';
}

// True where a table header's first bracket at `i` is followed by what can begin no key.
bool bad_header(std::string_view text, std::size_t i) {
  const auto skip = [&] {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
  };
  ++i;
  skip();
  if (i < text.size() && text[i] == '[') ++i;
  skip();
  if (i >= text.size()) return false;
  const char c = text[i];
  return (!bare(c) || c == '+') && c != '"' && c != '\'' && c != ']';
}

// True where a backslash is followed by a non-ASCII byte, or \u or \U by one among its digits.
bool bad_escape(std::string_view text, std::size_t i) {
  if (i >= text.size()) return false;
  if (static_cast<unsigned char>(text[i]) >= 0x80) return true;
  if (text[i] != 'u' && text[i] != 'U') return false;
  const auto digits = text.substr(i + 1, text[i] == 'u' ? 4 : 8);
  return std::any_of(digits.begin(), digits.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

// The line of the first byte that makes toml++ 3.3 run into undefined behaviour, 0 where there is
// none: a non-ASCII byte outside of strings and comments (TOML 1.0 allows none), a table header
// that begins with no key, an escape with such a byte. `why` is then set.
int stray_line(std::string_view text, const char*& why) {
  int line = 1;
  std::string open;    // what closes the brackets that are open
  bool begins = true;  // nothing but blanks on this line so far
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (static_cast<unsigned char>(c) >= 0x80) {
      why = "a character outside of ASCII outside of quotes";
      return line;
    }
    if (c == '[' && begins && open.empty() && bad_header(text, i)) {
      why = "a table without a name";
      return line;
    }
    begins = c == '\n' || (begins && (c == ' ' || c == '\t' || c == '\r'));
    if (c == '[' || c == '{') open += c == '[' ? ']' : '}';
    if (c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        why = "brackets that do not match";
        return line;
      }
      open.pop_back();
    }
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      if (i > 0 && std::string_view(" \t\r\n=,[{.").find(text[i - 1]) == std::string_view::npos) {
        why = "a quote within a word";
        return line;
      }
      const std::string three(3, c);
      const bool block = text.substr(i).starts_with(three);
      for (i += block ? 3 : 1; i < text.size(); ++i) {
        if (text[i] == '\\' && c == '"') {
          if (bad_escape(text, i + 1)) {
            why = "an escape that is none";
            return line;
          }
          if (i + 1 < text.size() && text[i + 1] == '\n') ++line;
          ++i;
        } else if (text[i] == '\n') {
          ++line;
          if (!block) break;
        } else if (block ? text.substr(i).starts_with(three) : text[i] == c) {
          if (block) i += 2;
          break;
        }
      }
    }
  }
  return 0;
}

const char* kind_text(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::kTable: return "a table";
    case TomlNode::Kind::kArray: return "an array";
    case TomlNode::Kind::kString: return "a string";
    case TomlNode::Kind::kInteger: return "an integer";
    case TomlNode::Kind::kFloat: return "a number";
    case TomlNode::Kind::kBoolean: return "true or false";
  }
  return "something else";
}

}  // namespace

const TomlNode* TomlNode::find(std::string_view key) const {
  for (const auto& [name, value] : table) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<TomlNode> parse_toml(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxBytes) {
    return fail(Error{ErrorCode::kBadInput,
                      fmt::format("{} bytes of TOML, at most {} are read", text.size(), kMaxBytes),
                      std::string(origin),
                      {},
                      {}});
  }
  const std::size_t bom = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  const char* why = "";
  if (const int line = stray_line(text.substr(bom), why); line > 0) {
    return fail(Error{ErrorCode::kBadInput,
                      fmt::format("not TOML: {}", why),
                      fmt::format("{}:{}", origin, line),
                      {},
                      "put it in quotes or in a comment"});
  }
  try {
    const toml::table table = toml::parse(text, origin);
    TomlNode root;
    if (auto done = convert(table, root, 0, origin); !done) return fail(done.error());
    return root;
  } catch (const toml::parse_error& e) {
    // toml++ names what it was parsing ("Error while parsing key-value pair: ..."), not the key:
    // find it in the line.
    const auto line = static_cast<std::size_t>(e.source().begin.line);
    const auto lines = split(text, '\n');
    std::string key;
    if (line >= 1 && line <= lines.size()) {
      const auto row = trim(lines[line - 1]);
      const auto equals = row.find('=');
      if (equals != std::string_view::npos && row.front() != '#') {
        key = std::string(trim(row.substr(0, equals)));
        for (std::size_t i = line - 1; i-- > 0;) {
          const auto header = trim(lines[i]);
          if (header.size() > 2 && header.front() == '[') {
            const auto first = header.find_first_not_of('['), last = header.find(']');
            if (last != std::string_view::npos && last > first) {
              key = fmt::format("{}.{}", trim(header.substr(first, last - first)), key);
            }
            break;
          }
        }
      }
    }
    return fail(Error{ErrorCode::kBadInput, "not TOML: " + std::string(e.description()),
                      fmt::format("{}:{}:{}", origin, line, e.source().begin.column), key,
                      "correct that line"});
  }
}

Error TomlReader::error(std::string_view key, std::string message, std::string cure) const {
  const TomlNode* at = key.empty() ? node_ : node_->find(key);
  if (at == nullptr) at = node_;
  std::string dotted = path_;
  if (!key.empty()) dotted += (dotted.empty() ? "" : ".") + std::string(key);
  const std::string file = at->line > 0 ? fmt::format("{}:{}", origin_, at->line) : origin_;
  return {ErrorCode::kBadInput, std::move(message), file, std::move(dotted), std::move(cure)};
}

Result<const TomlNode*> TomlReader::need(std::string_view key, const char* expected) const {
  const TomlNode* found = node_->find(key);
  if (found == nullptr) {
    return fail(error(key, "is missing", fmt::format("add {} with {}", key, expected)));
  }
  return found;
}

Result<std::string> TomlReader::string(std::string_view key) const {
  auto found = need(key, "a string");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kString) {
    return fail(error(key, fmt::format("a string expected, {} found", kind_text((*found)->kind))));
  }
  return (*found)->string;
}

Result<int64_t> TomlReader::integer(std::string_view key, int64_t low, int64_t high) const {
  auto found = need(key, "an integer");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kInteger) {
    return fail(
        error(key, fmt::format("an integer expected, {} found", kind_text((*found)->kind))));
  }
  const int64_t value = (*found)->integer;
  if (value < low || value > high) {
    if (high == INT64_MAX) return fail(error(key, fmt::format("{} is below {}", value, low)));
    return fail(error(key, fmt::format("{} is outside {}..{}", value, low, high)));
  }
  return value;
}

Result<double> TomlReader::number(std::string_view key) const {
  auto found = need(key, "a number");
  if (!found) return fail(found.error());
  const auto kind = (*found)->kind;
  if (kind != TomlNode::Kind::kInteger && kind != TomlNode::Kind::kFloat) {
    return fail(error(key, fmt::format("a number expected, {} found", kind_text(kind))));
  }
  return (*found)->number;
}

Result<bool> TomlReader::boolean(std::string_view key) const {
  auto found = need(key, "true or false");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kBoolean) {
    return fail(
        error(key, fmt::format("true or false expected, {} found", kind_text((*found)->kind))));
  }
  return (*found)->boolean;
}

Result<std::vector<std::string>> TomlReader::strings(std::string_view key) const {
  auto found = need(key, "an array of strings");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kArray) {
    return fail(error(
        key, fmt::format("an array of strings expected, {} found", kind_text((*found)->kind))));
  }
  std::vector<std::string> out;
  for (const auto& item : (*found)->array) {
    if (item.kind != TomlNode::Kind::kString) {
      return fail(error(
          key, fmt::format("an array of strings expected, {} found in it", kind_text(item.kind))));
    }
    out.push_back(item.string);
  }
  return out;
}

Result<std::vector<int64_t>> TomlReader::integers(std::string_view key) const {
  auto found = need(key, "an array of integers");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kArray) {
    return fail(error(
        key, fmt::format("an array of integers expected, {} found", kind_text((*found)->kind))));
  }
  std::vector<int64_t> out;
  for (const auto& item : (*found)->array) {
    if (item.kind != TomlNode::Kind::kInteger) {
      return fail(error(
          key, fmt::format("an array of integers expected, {} found in it", kind_text(item.kind))));
    }
    out.push_back(item.integer);
  }
  return out;
}

Result<TomlReader> TomlReader::table(std::string_view key) const {
  auto found = need(key, "a table");
  if (!found) return fail(found.error());
  if (!(*found)->is_table()) {
    return fail(error(key, fmt::format("a table expected, {} found", kind_text((*found)->kind))));
  }
  return TomlReader(**found, origin_,
                    path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

Result<std::vector<TomlReader>> TomlReader::tables(std::string_view key) const {
  auto found = need(key, "an array of tables");
  if (!found) return fail(found.error());
  if ((*found)->kind != TomlNode::Kind::kArray) {
    return fail(
        error(key, fmt::format("an array of tables expected, {} found", kind_text((*found)->kind)),
              fmt::format("write [[{}]]", key)));
  }
  std::vector<TomlReader> out;
  for (std::size_t i = 0; i < (*found)->array.size(); ++i) {
    const TomlNode& item = (*found)->array[i];
    if (!item.is_table()) {
      return fail(
          error(key, fmt::format("a table expected, {} found in it", kind_text(item.kind))));
    }
    out.emplace_back(item, origin_,
                     fmt::format("{}{}{}[{}]", path_, path_.empty() ? "" : ".", key, i));
  }
  return out;
}

Result<std::string> TomlReader::string_or(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  return string(key);
}
Result<int64_t> TomlReader::integer_or(std::string_view key, int64_t fallback) const {
  if (!has(key)) return fallback;
  return integer(key);
}
Result<double> TomlReader::number_or(std::string_view key, double fallback) const {
  if (!has(key)) return fallback;
  return number(key);
}
Result<bool> TomlReader::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  return boolean(key);
}

Status TomlReader::only(const std::vector<std::string>& keys) const {
  for (const auto& [name, value] : node_->table) {
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    const auto like = nearest(name, keys);
    return fail(error(name, "is not a known key",
                      like ? fmt::format("did you mean {}?", *like)
                           : fmt::format("known here: {}", join(keys, ", "))));
  }
  return {};
}

std::string toml_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (byte < 0x20 || byte == 0x7f) out += fmt::format("\\u{:04X}", byte);
    else out += c;
  }
  return out + '"';
}

}  // namespace sculler
