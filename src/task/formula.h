// Arithmetic over named numbers, as task files write it: "2 * (S / R) * K * N".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::task {

using Variables = std::map<std::string, int64_t, std::less<>>;

// A 64-bit integer or a double. Integer arithmetic stays exact: overflow and division by zero are
// errors, `/` of two integers truncates, `%` takes integers only.
struct Number {
  bool is_integer = true;
  int64_t integer = 0;
  double real = 0;
  [[nodiscard]] double as_double() const {
    return is_integer ? static_cast<double>(integer) : real;
  }
};

// + - * / % with the usual precedence, parentheses, unary minus, comparisons (== != < <= > >=,
// giving 0 or 1), min(a,b), max(a,b), sqrt(x), ceil_div(a,b). Parsing is bounded (4096 characters,
// 64 levels).
class Formula {
 public:
  Formula() = default;
  // Errors are kBadInput without file and key: the caller knows them.
  [[nodiscard]] static Result<Formula> parse(std::string_view text);
  [[nodiscard]] static Formula constant(int64_t value);

  [[nodiscard]] Result<Number> evaluate(const Variables& variables) const;
  [[nodiscard]] Result<int64_t> integer(
      const Variables& variables) const;  // a double must be whole
  [[nodiscard]] Result<double> real(const Variables& variables) const;
  [[nodiscard]] const std::string& text() const { return text_; }
  // Names it uses, sorted, each once.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  struct Node {
    char op = 0;  // 'i' integer, 'd' double, 'v' variable, 'f' function, else an operator
    int64_t integer = 0;
    double real = 0;
    std::string name{};
    int left = -1, right = -1;
  };
  friend class FormulaParser;
  [[nodiscard]] Result<Number> at(int node, const Variables& variables) const;
  std::string text_;
  std::vector<Node> nodes_;
  int root_ = -1;
};

}  // namespace sculler::task
