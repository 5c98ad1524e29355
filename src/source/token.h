// A tokenizer for C++ and CUDA: enough to know code from comments and strings, whatever a model
// sends. It never fails; text that no compiler would take gives tokens of kind kOther.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::source {

enum class TokenKind : uint8_t {
  kIdentifier,
  kNumber,
  kString,
  kCharacter,
  kPunctuator,
  kComment,
  kOther
};

struct Token {
  TokenKind kind = TokenKind::kOther;
  std::size_t begin = 0, end = 0;  // offsets into the text
  int line = 1;                    // of the first character
  bool line_start = false;         // nothing but blanks (and comments) before it on its line
  bool in_directive = false;       // part of a preprocessor line
  // Line continuations removed. Strings: the characters between the quotes, escapes as written.
  // Comments: without their markers. Punctuators: single characters, but "::", "->", "##" and
  // "<<<", ">>>" whole.
  std::string text;
};

// Linear in the size of the text. Comments are left out unless asked for.
[[nodiscard]] std::vector<Token> tokenize(std::string_view text, bool with_comments = false);

// The largest source that is looked at, and the most lines.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;

}  // namespace sculler::source
