// TOML as a plain tree with line numbers, and a reader that names file, line and key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler {

struct TomlNode {
  enum class Kind { kTable, kArray, kString, kInteger, kFloat, kBoolean };
  Kind kind = Kind::kTable;
  int line = 0;
  std::string string{};
  int64_t integer = 0;
  double number = 0;  // also set for integers
  bool boolean = false;
  std::vector<TomlNode> array{};
  std::vector<std::pair<std::string, TomlNode>> table{};  // in order of the file

  [[nodiscard]] const TomlNode* find(std::string_view key) const;
  [[nodiscard]] bool is_table() const { return kind == Kind::kTable; }
};

// The error's file is "origin:line:column". Dates and times are read as strings.
[[nodiscard]] Result<TomlNode> parse_toml(std::string_view text, std::string_view origin);

// A table of a file with its dotted path; getters fail with file:line, key, expectation and cure.
class TomlReader {
 public:
  TomlReader(const TomlNode& node, std::string origin, std::string path = {})
      : node_(&node), origin_(std::move(origin)), path_(std::move(path)) {}

  [[nodiscard]] const TomlNode& node() const { return *node_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool has(std::string_view key) const { return node_->find(key) != nullptr; }

  [[nodiscard]] Result<std::string> string(std::string_view key) const;
  [[nodiscard]] Result<int64_t> integer(std::string_view key, int64_t low = INT64_MIN,
                                        int64_t high = INT64_MAX) const;
  [[nodiscard]] Result<double> number(std::string_view key) const;
  [[nodiscard]] Result<bool> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string>> strings(std::string_view key) const;
  [[nodiscard]] Result<std::vector<int64_t>> integers(std::string_view key) const;
  [[nodiscard]] Result<TomlReader> table(std::string_view key) const;
  // Each element must be a table; paths are "key[0]", "key[1]"…
  [[nodiscard]] Result<std::vector<TomlReader>> tables(std::string_view key) const;

  // As above with a value for a missing key; a key of the wrong type still fails.
  [[nodiscard]] Result<std::string> string_or(std::string_view key,
                                              std::string_view fallback) const;
  [[nodiscard]] Result<int64_t> integer_or(std::string_view key, int64_t fallback) const;
  [[nodiscard]] Result<double> number_or(std::string_view key, double fallback) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool fallback) const;

  // Fails at the first key that is not listed, with the nearest listed one.
  [[nodiscard]] Status only(const std::vector<std::string>& keys) const;
  // An error about a key of this table (or the table itself where `key` is empty).
  [[nodiscard]] Error error(std::string_view key, std::string message, std::string cure = {}) const;

 private:
  [[nodiscard]] Result<const TomlNode*> need(std::string_view key, const char* expected) const;
  const TomlNode* node_;
  std::string origin_, path_;
};

// A quoted TOML string.
[[nodiscard]] std::string toml_quote(std::string_view text);

}  // namespace sculler
