#include "emu/ptx/lexer.h"

#include <array>
#include <bit>
#include <charconv>
#include <system_error>

namespace sculler::emu::ptx {
namespace {

enum : uint8_t { kHead = 1, kTail = 2, kDigit = 4, kHex = 8, kSpace = 16 };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = kHead | kTail;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = kHead | kTail;
  for (int c = 'a'; c <= 'f'; ++c) classes[static_cast<size_t>(c)] |= kHex;
  for (int c = 'A'; c <= 'F'; ++c) classes[static_cast<size_t>(c)] |= kHex;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = kTail | kDigit | kHex;
  for (char c : {'_', '$'}) classes[static_cast<size_t>(c)] = kHead | kTail;
  classes['%'] = kHead;
  for (char c : {' ', '\t', '\r', '\n', '\f', '\v'}) classes[static_cast<size_t>(c)] = kSpace;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = make_classes();

bool is(char c, uint8_t what) { return (kClasses[static_cast<unsigned char>(c)] & what) != 0; }

uint64_t hex_value(char c) {
  if (c <= '9') return static_cast<uint64_t>(c - '0');
  return static_cast<uint64_t>((c | 0x20) - 'a') + 10;
}

}  // namespace

void Lexer::skip_space() {
  const auto size = static_cast<uint32_t>(source_.size());
  while (at_ < size) {
    const char c = source_[at_];
    if (is(c, kSpace)) {
      if (c == '\n') ++line_;
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      const size_t end = source_.find('\n', at_);
      at_ = end == std::string_view::npos ? size : static_cast<uint32_t>(end);
    } else if (c == '/' && peek(1) == '*') {
      const size_t found = source_.find("*/", at_ + 2);
      const uint32_t end =
          found == std::string_view::npos ? size : static_cast<uint32_t>(found) + 2;
      for (; at_ < end; ++at_) line_ += source_[at_] == '\n' ? 1 : 0;
    } else {
      return;
    }
  }
}

void Lexer::number(Token& token) {
  const auto size = static_cast<uint32_t>(source_.size());
  const char second = static_cast<char>(peek(1) | 0x20);
  const auto fixed_hex = [&](uint32_t digits, Token::Kind kind) {
    uint64_t value = 0;
    uint32_t n = 0;
    while (n < digits && is(peek(2 + n), kHex)) value = value << 4 | hex_value(peek(2 + n++));
    at_ += 2 + n;
    token.kind = n == digits ? kind : Token::Kind::kBad;
    token.value = value;
  };
  if (peek() == '0' && second == 'f') return fixed_hex(8, Token::Kind::kFloat32);
  if (peek() == '0' && second == 'd') return fixed_hex(16, Token::Kind::kFloat64);

  unsigned base = 10;
  if (peek() == '0') {
    base = second == 'x' ? 16 : second == 'b' ? 2 : is(peek(1), kDigit) ? 8 : 10;
    if (base == 16 || base == 2) at_ += 2;
  }
  const uint32_t begin = at_;
  uint64_t value = 0;
  bool overflow = false, bad = false;
  while (at_ < size && is(source_[at_], base == 16 ? kHex : kDigit)) {
    const uint64_t digit = hex_value(source_[at_]);
    if (digit >= base) bad = true;
    overflow = overflow || value > (~uint64_t{0} - digit) / base;
    value = value * base + digit;
    ++at_;
  }
  bad = bad || at_ == begin;
  const bool decimal = base == 10 || base == 8;
  if (decimal && ((peek() == '.' && is(peek(1), kDigit)) || (peek() | 0x20) == 'e')) {
    double number = 0;
    const auto result =
        std::from_chars(source_.data() + token.begin, source_.data() + size, number);
    at_ = static_cast<uint32_t>(result.ptr - source_.data());
    token.kind = result.ec == std::errc{} ? Token::Kind::kFloat64 : Token::Kind::kBad;
    token.value = std::bit_cast<uint64_t>(number);
    return;
  }
  if (peek() == 'U' || peek() == 'u') ++at_;
  token.kind = bad || overflow ? Token::Kind::kBad : Token::Kind::kInteger;
  token.value = value;
}

Token Lexer::next() {
  skip_space();
  Token token;
  token.begin = at_;
  token.line = line_;
  const auto size = static_cast<uint32_t>(source_.size());
  if (at_ >= size) {
    token.end = at_;
    return token;
  }
  const char c = source_[at_];
  if (is(c, kHead)) {
    do ++at_;
    while (at_ < size && is(source_[at_], kTail));
    token.kind = Token::Kind::kWord;
    token.text = source_.substr(token.begin, at_ - token.begin);
  } else if (c == '.' && is(peek(1), kTail)) {
    ++at_;
    while (at_ < size) {
      if (is(source_[at_], kTail)) {
        ++at_;
      } else if (source_[at_] == ':' && peek(1) == ':' && is(peek(2), kTail)) {
        at_ += 2;
      } else {
        break;
      }
    }
    token.kind = Token::Kind::kDot;
    token.text = source_.substr(token.begin + 1, at_ - token.begin - 1);
  } else if (is(c, kDigit)) {
    number(token);
  } else if (c == '"') {
    ++at_;
    while (at_ < size && source_[at_] != '"' && source_[at_] != '\n')
      at_ += source_[at_] == '\\' && peek(1) != '\n' ? 2 : 1;
    const bool closed = at_ < size && source_[at_] == '"';
    at_ = at_ < size ? at_ : size;
    token.kind = closed ? Token::Kind::kString : Token::Kind::kBad;
    token.text = source_.substr(token.begin + 1, at_ - token.begin - 1);
    if (closed) ++at_;
  } else {
    ++at_;
    constexpr std::string_view kPuncts = "{}[]()<>,;:=+-*/!|@~&";
    token.kind =
        kPuncts.find(c) != std::string_view::npos ? Token::Kind::kPunct : Token::Kind::kBad;
    token.punct = c;
  }
  token.end = at_;
  return token;
}

bool Lexer::skip_braces() {
  int depth = 1;
  for (Token token = next(); token.kind != Token::Kind::kEnd; token = next()) {
    if (token.is('{')) ++depth;
    if (token.is('}') && --depth == 0) return true;
  }
  return false;
}

}  // namespace sculler::emu::ptx
