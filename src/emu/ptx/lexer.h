// Cuts PTX text into tokens. Never fails by itself: what it cannot read becomes a kBad token that
// the parser reports.
#pragma once

#include <cstdint>
#include <string_view>

namespace sculler::emu::ptx {

struct Token {
  enum class Kind : uint8_t {
    kEnd,
    kWord,     // identifier, opcode head, register: text
    kDot,      // .word with `::` inside: text without the dot, e.g. "shared::cluster"
    kInteger,  // value: two's complement of what was written
    kFloat32,  // value: bits
    kFloat64,  // value: bits
    kString,   // text: what stands between the quotes, escapes untouched
    kPunct,    // punct
    kBad,      // punct: the character, or 0 for a number or string that is malformed
  };
  Kind kind = Kind::kEnd;
  char punct = 0;
  uint32_t begin = 0, end = 0;  // bytes in the source
  uint32_t line = 1;            // 1-based
  std::string_view text{};
  uint64_t value = 0;

  [[nodiscard]] bool is(char c) const { return kind == Kind::kPunct && punct == c; }
  [[nodiscard]] bool is_dot(std::string_view word) const {
    return kind == Kind::kDot && text == word;
  }
  [[nodiscard]] bool is_word(std::string_view word) const {
    return kind == Kind::kWord && text == word;
  }
};

class Lexer {
 public:
  // `source` must outlive the tokens and be shorter than 4 GiB.
  explicit Lexer(std::string_view source) : source_(source) {}
  Token next();
  // Skips to just behind the `}` that closes a `{` already read; false where there is none. For
  // debug sections.
  bool skip_braces();
  void stop() { at_ = static_cast<uint32_t>(source_.size()); }

 private:
  void skip_space();
  void number(Token& token);
  [[nodiscard]] char peek(uint32_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  std::string_view source_;
  uint32_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace sculler::emu::ptx
