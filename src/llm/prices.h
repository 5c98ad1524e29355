// prices.toml: USD a million tokens, by a model's name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace sculler::llm {

struct Price {
  std::string model{};     // as the server knows it
  double in = 0, out = 0;  // USD a million tokens
  int64_t context = 0;     // tokens; 0: unknown
};

class Prices {
 public:
  [[nodiscard]] static Result<Prices> load(Files& files, const std::string& path);
  [[nodiscard]] static Result<Prices> parse(std::string_view text, const std::string& origin);
  // The entry of that name, also where `model` adds "-latest" or a date, or stands behind
  // "vendor/".
  [[nodiscard]] std::optional<Price> find(std::string_view model) const;
  [[nodiscard]] std::size_t size() const { return prices_.size(); }

 private:
  std::vector<Price> prices_;
};

}  // namespace sculler::llm
