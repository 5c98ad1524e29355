#include "source/token.h"

#include <algorithm>

namespace sculler::source {
namespace {

bool name_start(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || byte >= 0x80;
}
bool digit(char c) { return c >= '0' && c <= '9'; }

// A cursor that skips line continuations (backslash, blanks, newline), as translation phase 2 does.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) { splice(); }
  [[nodiscard]] bool end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return end() ? '\0' : text_[at_]; }
  [[nodiscard]] char peek(std::size_t ahead) const {
    Cursor copy = *this;
    for (std::size_t i = 0; i < ahead && !copy.end(); ++i) copy.next();
    return copy.peek();
  }
  [[nodiscard]] bool looking_at(std::string_view word) const {
    Cursor copy = *this;
    for (const char c : word) {
      if (copy.end() || copy.peek() != c) return false;
      copy.next();
    }
    return true;
  }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    last_ = at_;
    splice();
    return c;
  }
  // Without splicing: raw strings keep their backslashes.
  char next_raw() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    last_ = at_;
    return c;
  }
  void resume_splicing() { splice(); }
  [[nodiscard]] std::size_t at() const { return at_; }
  // End of the last character taken, continuations after it not counted.
  [[nodiscard]] std::size_t last() const { return last_; }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  void splice() {
    while (at_ < text_.size() && text_[at_] == '\\') {
      std::size_t to = at_ + 1;
      while (to < text_.size() && (text_[to] == ' ' || text_[to] == '\t' || text_[to] == '\r'))
        ++to;
      if (to >= text_.size() || text_[to] != '\n') return;
      at_ = to + 1;
      ++line_;
    }
  }
  std::string_view text_;
  std::size_t at_ = 0, last_ = 0;
  int line_ = 1;
};

class Tokenizer {
 public:
  Tokenizer(std::string_view text, bool with_comments)
      : in_(text.substr(0, kMaxSourceBytes)), with_comments_(with_comments) {}

  std::vector<Token> run() {
    while (!in_.end()) step();
    return std::move(tokens_);
  }

 private:
  Token start(TokenKind kind) const {
    Token token;
    token.kind = kind;
    token.begin = in_.at();
    token.line = in_.line();
    token.line_start = line_start_;
    token.in_directive = in_directive_;
    return token;
  }
  void finish(Token token) {
    token.end = in_.last();
    if (token.kind == TokenKind::kComment && !with_comments_) return;
    if (token.kind != TokenKind::kComment) line_start_ = false;
    tokens_.push_back(std::move(token));
  }

  void step() {
    const char c = in_.peek();
    if (c == '\n') {
      in_.next();
      line_start_ = true;
      in_directive_ = false;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == '\0') {
      in_.next();
    } else if (in_.looking_at("//")) {
      line_comment();
    } else if (in_.looking_at("/*")) {
      block_comment();
    } else if (name_start(c)) {
      word();
    } else if (digit(c) || (c == '.' && digit(in_.peek(1)))) {
      number();
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else {
      punctuator();
    }
  }

  void line_comment() {
    Token token = start(TokenKind::kComment);
    in_.next();
    in_.next();
    while (!in_.end() && in_.peek() != '\n') token.text += in_.next();
    finish(std::move(token));
  }

  void block_comment() {
    Token token = start(TokenKind::kComment);
    in_.next();
    in_.next();
    while (!in_.end() && !in_.looking_at("*/")) token.text += in_.next();
    if (!in_.end()) {
      in_.next();
      in_.next();
    } else {
      token.kind = TokenKind::kOther;  // not closed
    }
    finish(std::move(token));
  }

  void word() {
    Token token = start(TokenKind::kIdentifier);
    while (!in_.end() && (name_start(in_.peek()) || digit(in_.peek()))) token.text += in_.next();
    const bool prefix = token.text == "R" || token.text == "LR" || token.text == "uR" ||
                        token.text == "UR" || token.text == "u8R";
    if (prefix && in_.peek() == '"') return raw_string(std::move(token));
    const bool narrow =
        token.text == "L" || token.text == "u" || token.text == "U" || token.text == "u8";
    if (narrow && (in_.peek() == '"' || in_.peek() == '\'')) return quoted(in_.peek());
    finish(std::move(token));
  }

  void raw_string(Token token) {
    token.kind = TokenKind::kString;
    token.text.clear();
    in_.next_raw();  // the quote; from here on backslashes are characters
    std::string delimiter = ")";
    while (!in_.end() && in_.peek() != '(' && in_.peek() != '\n' && delimiter.size() <= 17)
      delimiter += in_.next_raw();
    if (in_.end() || in_.peek() != '(') {
      token.kind = TokenKind::kOther;
      in_.resume_splicing();
      return finish(std::move(token));
    }
    in_.next_raw();
    delimiter += '"';
    const std::size_t from = in_.at(), to = in_.text().find(delimiter, from);
    const bool closed = to != std::string_view::npos;
    const std::size_t stop = closed ? to : in_.text().size();
    token.text = std::string(in_.text().substr(from, stop - from));
    const std::size_t past = closed ? stop + delimiter.size() : stop;
    while (in_.at() < past) in_.next_raw();
    in_.resume_splicing();
    if (!closed) token.kind = TokenKind::kOther;
    finish(std::move(token));
  }

  void quoted(char quote) {
    Token token = start(quote == '"' ? TokenKind::kString : TokenKind::kCharacter);
    in_.next();
    for (;;) {
      if (in_.end() || in_.peek() == '\n') {
        token.kind = TokenKind::kOther;  // not closed on its line
        break;
      }
      const char c = in_.next();
      if (c == quote) break;
      token.text += c;
      if (c == '\\' && !in_.end() && in_.peek() != '\n') token.text += in_.next();
    }
    finish(std::move(token));
  }

  void number() {
    Token token = start(TokenKind::kNumber);
    char before = 0;
    while (!in_.end()) {
      const char c = in_.peek();
      const bool sign = (c == '+' || c == '-') &&
                        (before == 'e' || before == 'E' || before == 'p' || before == 'P') &&
                        !(token.text.size() > 1 && (token.text[1] == 'x' || token.text[1] == 'X') &&
                          (before == 'e' || before == 'E'));
      const bool separator = c == '\'' && (name_start(in_.peek(1)) || digit(in_.peek(1)));
      if (!digit(c) && !name_start(c) && c != '.' && !sign && !separator) break;
      before = in_.next();
      if (before != '\'') token.text += before;
    }
    finish(std::move(token));
  }

  void punctuator() {
    Token token = start(TokenKind::kPunctuator);
    for (const std::string_view whole : {"<<<", ">>>", "::", "->", "##"}) {
      if (!in_.looking_at(whole)) continue;
      for (std::size_t i = 0; i < whole.size(); ++i) token.text += in_.next();
      return finish(std::move(token));
    }
    const bool hash = in_.peek() == '#' && line_start_;
    token.text += in_.next();
    if (hash) in_directive_ = token.in_directive = true;
    finish(std::move(token));
  }

  Cursor in_;
  bool with_comments_;
  bool line_start_ = true, in_directive_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, bool with_comments) {
  return Tokenizer(text, with_comments).run();
}

}  // namespace sculler::source
