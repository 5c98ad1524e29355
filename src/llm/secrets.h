// Keys: where they come from, and that they go nowhere else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::llm {

// Filled before threads start, then only read.
class Secrets {
 public:
  // Texts of fewer than 8 bytes are no secrets ("none", "x"): they would mangle ordinary words.
  void add(std::string secret);
  // Every occurrence replaced by "[key]".
  [[nodiscard]] std::string redact(std::string text) const;
  [[nodiscard]] bool empty() const { return secrets_.empty(); }

 private:
  std::vector<std::string> secrets_;  // the longest first
};

// A key of one line. Of the environment: kModel where the variable is not set. Of a file: it must
// be the user's own and closed to group and others (chmod 600). The error never holds its text.
[[nodiscard]] Result<std::string> key_from_environment(const std::string& variable);
[[nodiscard]] Result<std::string> key_from_file(const std::string& path);

}  // namespace sculler::llm
