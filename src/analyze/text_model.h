// A CUDA host program as text: functions, control structures, calls and their arguments, found by
// tokens alone. It knows no types and expands no macros; what it cannot tell it leaves to its
// callers to refuse.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "source/token.h"

namespace sculler::analyze {

// Tokens [first, last) of TextModel::code.
struct Range {
  std::size_t first = 0, last = 0;
  [[nodiscard]] bool empty() const { return first >= last; }
  [[nodiscard]] bool holds(std::size_t i) const { return i >= first && i < last; }
};

struct Function {
  std::string name;
  std::vector<Range> parameters;    // each: all tokens between two commas
  std::size_t head = 0;             // first token of the declaration
  std::size_t open = 0, close = 0;  // its braces
  [[nodiscard]] bool holds(std::size_t i) const { return i > open && i < close; }
};

// A statement that runs under a condition, or again and again.
struct Control {
  enum class Kind { kIf, kElse, kLoop, kSwitch };
  Kind kind = Kind::kIf;
  std::size_t keyword = 0;
  Range condition;  // what stands in the parentheses
  Range body;
};

struct Call {
  std::size_t name = 0, open = 0, close = 0;  // tokens: the name and its parentheses
  std::vector<Range> arguments;
  int function = -1;  // index into TextModel::functions
};

class TextModel {
 public:
  explicit TextModel(std::string_view text);

  [[nodiscard]] std::string_view text() const { return text_; }
  // Tokens outside of preprocessor lines, and those within.
  [[nodiscard]] const std::vector<source::Token>& code() const { return code_; }
  [[nodiscard]] const std::vector<source::Token>& directives() const { return directives_; }
  [[nodiscard]] const std::vector<Function>& functions() const { return functions_; }
  [[nodiscard]] const std::vector<Control>& controls() const { return controls_; }

  [[nodiscard]] bool is(std::size_t i, std::string_view word) const {
    return i < code_.size() && code_[i].text == word && !literal(i);
  }
  [[nodiscard]] bool identifier(std::size_t i) const {
    return i < code_.size() && code_[i].kind == source::TokenKind::kIdentifier;
  }
  [[nodiscard]] int line(std::size_t i) const { return i < code_.size() ? code_[i].line : 0; }
  // The bracket that belongs to the one at i; code().size() where there is none.
  [[nodiscard]] std::size_t partner(std::size_t i) const {
    return i < partner_.size() ? partner_[i] : code_.size();
  }
  // The function that holds token i; -1 outside.
  [[nodiscard]] int function_at(std::size_t i) const;
  [[nodiscard]] const Function* find_function(std::string_view name) const;
  // Calls of free functions of that name, in order: not members, not declarations.
  [[nodiscard]] std::vector<Call> calls(std::string_view name) const;
  [[nodiscard]] bool free_call(std::size_t i) const;
  // Control structures around token i within its function, outermost first.
  [[nodiscard]] std::vector<const Control*> around(std::size_t i) const;
  // First token of the statement that holds token i.
  [[nodiscard]] std::size_t statement_begin(std::size_t i) const;

  // The text of a range as written, and its tokens joined without blanks.
  [[nodiscard]] std::string_view written(Range range) const;
  [[nodiscard]] std::string joined(Range range) const;
  // Splits at commas outside of all brackets.
  [[nodiscard]] std::vector<Range> split_commas(Range range) const;

 private:
  [[nodiscard]] bool literal(std::size_t i) const {
    return code_[i].kind == source::TokenKind::kString ||
           code_[i].kind == source::TokenKind::kCharacter;
  }
  void match_brackets();
  void find_functions();
  void read_block(std::size_t open, std::size_t close, int depth);
  std::size_t read_statement(std::size_t i, std::size_t end, int depth);
  std::size_t read_condition(std::size_t i, std::size_t end, Range* condition) const;

  std::string_view text_;
  std::vector<source::Token> code_, directives_;
  std::vector<std::size_t> partner_;
  std::vector<Function> functions_;
  std::vector<Control> controls_;
};

}  // namespace sculler::analyze
