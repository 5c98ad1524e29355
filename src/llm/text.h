// What is asked of a model's text before anybody reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "llm/provider.h"

namespace sculler::llm {

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool valid_utf8(std::string_view text);
// NUL bytes become U+FFFD: they end strings in places where nobody expects it.
[[nodiscard]] std::string without_nul(std::string text);
// Tokens of a text when no tokenizer is at hand: bytes by `bytes_per_token`, rounded up.
[[nodiscard]] int64_t estimate_tokens(std::string_view text, double bytes_per_token);
// Bytes of all messages, and a few for what a chat template puts around each.
[[nodiscard]] uint64_t prompt_bytes(const Request& request);
// The first line in which two texts differ, from 1, and the line of each; 0 where they are equal.
struct LineDifference {
  int64_t line = 0;
  std::string a{}, b{};
};
[[nodiscard]] LineDifference first_difference(std::string_view a, std::string_view b);

}  // namespace sculler::llm
