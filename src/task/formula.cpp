#include "task/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace sculler::task {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr int kMaxDepth = 64;

bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

Error bad(std::string message) { return {ErrorCode::kBadInput, std::move(message), {}, {}, {}}; }

Number of(int64_t value) { return {true, value, 0}; }
Number of(double value) { return {false, 0, value}; }

}  // namespace

class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : text_(text) {}

  Result<Formula> run() {
    if (text_.size() > kMaxText) return fail(bad("the formula is longer than 4096 characters"));
    auto root = comparison(0);
    if (!root) return fail(root.error());
    blank();
    if (at_ < text_.size()) return fail(unexpected());
    formula_.root_ = *root;
    formula_.text_ = std::string(text_);
    return std::move(formula_);
  }

 private:
  using Index = Result<int>;

  void blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view word) {
    blank();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  [[nodiscard]] Error unexpected() const {
    if (at_ >= text_.size()) return bad(fmt::format("\"{}\" ends too early", text_));
    return bad(fmt::format("\"{}\": unexpected '{}' at character {}", text_,
                           printable(text_.substr(at_, 1)), at_ + 1));
  }
  int add(Formula::Node node) {
    formula_.nodes_.push_back(std::move(node));
    return static_cast<int>(formula_.nodes_.size()) - 1;
  }
  int binary(char op, int left, int right) {
    Formula::Node node;
    node.op = op;
    node.left = left;
    node.right = right;
    return add(std::move(node));
  }

  Index comparison(int depth) {
    auto left = sum(depth);
    if (!left) return left;
    static constexpr std::pair<std::string_view, char> kOps[] = {
        {"==", '='}, {"!=", '!'}, {"<=", 'l'}, {">=", 'g'}, {"<", '<'}, {">", '>'}};
    for (const auto& [word, op] : kOps) {
      if (!take(word)) continue;
      auto right = sum(depth);
      if (!right) return right;
      return binary(op, *left, *right);
    }
    return left;
  }
  Index sum(int depth) {
    auto left = product(depth);
    while (left) {
      const char op = take("+") ? '+' : take("-") ? '-' : '\0';
      if (op == 0) break;
      auto right = product(depth);
      if (!right) return right;
      left = binary(op, *left, *right);
    }
    return left;
  }
  Index product(int depth) {
    auto left = unary(depth);
    while (left) {
      const char op = take("*") ? '*' : take("/") ? '/' : take("%") ? '%' : '\0';
      if (op == 0) break;
      auto right = unary(depth);
      if (!right) return right;
      left = binary(op, *left, *right);
    }
    return left;
  }
  Index unary(int depth) {
    if (depth > kMaxDepth) return fail(bad("the formula is nested deeper than 64 levels"));
    if (take("-")) {
      auto operand = unary(depth + 1);
      if (!operand) return operand;
      return binary('n', *operand, -1);
    }
    return primary(depth);
  }
  Index primary(int depth) {
    if (take("(")) {
      auto inner = comparison(depth + 1);
      if (!inner) return inner;
      if (!take(")")) return fail(unexpected());
      return inner;
    }
    blank();
    if (at_ >= text_.size()) return fail(unexpected());
    const std::size_t start = at_;
    if (name_start(text_[at_])) {
      while (at_ < text_.size() && (name_start(text_[at_]) || digit(text_[at_]))) ++at_;
      const std::string name(text_.substr(start, at_ - start));
      if (take("(")) return call(name, start, depth);
      Formula::Node node;
      node.op = 'v';
      node.name = name;
      return add(std::move(node));
    }
    if (digit(text_[at_]) || text_[at_] == '.') return number(start);
    return fail(unexpected());
  }
  Index number(std::size_t start) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponent_sign =
          (c == '+' || c == '-') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign) break;
      ++at_;
    }
    const auto word = text_.substr(start, at_ - start);
    Formula::Node node;
    if (const auto integer = parse_int(word)) {
      node.op = 'i';
      node.integer = *integer;
    } else if (const auto real = parse_double(word)) {
      node.op = 'd';
      node.real = *real;
    } else {
      return fail(bad(fmt::format("\"{}\": {} is not a number", text_, word)));
    }
    return add(std::move(node));
  }
  Index call(const std::string& name, std::size_t start, int depth) {
    const bool two = name == "min" || name == "max" || name == "ceil_div";
    if (!two && name != "sqrt") {
      const auto like = nearest(name, {"min", "max", "sqrt", "ceil_div"});
      return fail(
          bad(fmt::format("\"{}\": unknown function {} at character {}{}", text_, name, start + 1,
                          like ? fmt::format(", did you mean {}?", *like) : std::string())));
    }
    auto first = comparison(depth + 1);
    if (!first) return first;
    int second = -1;
    if (two) {
      if (!take(",")) return fail(unexpected());
      auto parsed = comparison(depth + 1);
      if (!parsed) return parsed;
      second = *parsed;
    }
    if (!take(")")) return fail(unexpected());
    Formula::Node node;
    node.op = 'f';
    node.name = name;
    node.left = *first;
    node.right = second;
    return add(std::move(node));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Formula formula_;
};

Result<Formula> Formula::parse(std::string_view text) { return FormulaParser(text).run(); }

Formula Formula::constant(int64_t value) {
  Formula formula;
  Node node;
  node.op = 'i';
  node.integer = value;
  formula.nodes_.push_back(node);
  formula.root_ = 0;
  formula.text_ = std::to_string(value);
  return formula;
}

std::vector<std::string> Formula::names() const {
  std::vector<std::string> names;
  for (const auto& node : nodes_) {
    if (node.op == 'v') names.push_back(node.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<Number> Formula::at(int index, const Variables& variables) const {
  const Node& node = nodes_.at(static_cast<std::size_t>(index));
  switch (node.op) {
    case 'i': return of(node.integer);
    case 'd': return of(node.real);
    case 'v': {
      const auto found = variables.find(node.name);
      if (found != variables.end()) return of(found->second);
      std::vector<std::string> known;
      for (const auto& [name, value] : variables) known.push_back(name);
      return fail(bad(fmt::format("\"{}\" uses {}, which is not defined here; known: {}", text_,
                                  node.name, join(known, ", "))));
    }
    default: break;
  }
  auto left = at(node.left, variables);
  if (!left) return left;
  const auto overflow = [&] { return fail(bad(fmt::format("\"{}\" exceeds 64 bits", text_))); };
  if (node.op == 'n') {
    if (!left->is_integer) return of(-left->real);
    int64_t value = 0;
    if (__builtin_sub_overflow(int64_t{0}, left->integer, &value)) return overflow();
    return of(value);
  }
  if (node.op == 'f' && node.name == "sqrt") {
    if (left->as_double() < 0)
      return fail(bad(fmt::format("\"{}\" takes the root of a negative number", text_)));
    return of(std::sqrt(left->as_double()));
  }
  auto right = at(node.right, variables);
  if (!right) return right;
  const bool whole = left->is_integer && right->is_integer;
  const double a = left->as_double(), b = right->as_double();
  const int64_t i = left->integer, j = right->integer;
  int64_t value = 0;
  switch (node.op) {
    case '+':
      if (!whole) return of(a + b);
      return __builtin_add_overflow(i, j, &value) ? overflow() : Result<Number>(of(value));
    case '-':
      if (!whole) return of(a - b);
      return __builtin_sub_overflow(i, j, &value) ? overflow() : Result<Number>(of(value));
    case '*':
      if (!whole) return of(a * b);
      return __builtin_mul_overflow(i, j, &value) ? overflow() : Result<Number>(of(value));
    case '/':
    case '%':
      if (node.op == '%' && !whole)
        return fail(bad(fmt::format("\"{}\": % takes integers", text_)));
      if (b == 0) return fail(bad(fmt::format("\"{}\" divides by zero", text_)));
      if (!whole) return of(a / b);
      if (i == INT64_MIN && j == -1) return overflow();
      return of(node.op == '/' ? i / j : i % j);
    case '=': return of(int64_t{whole ? i == j : a == b});
    case '!': return of(int64_t{whole ? i != j : a != b});
    case 'l': return of(int64_t{whole ? i <= j : a <= b});
    case 'g': return of(int64_t{whole ? i >= j : a >= b});
    case '<': return of(int64_t{whole ? i < j : a < b});
    case '>': return of(int64_t{whole ? i > j : a > b});
    default: break;
  }
  if (node.name == "ceil_div") {
    if (!whole || j <= 0 || i < 0) {
      return fail(bad(fmt::format("\"{}\": ceil_div takes an integer >= 0 and one > 0", text_)));
    }
    return of(i / j + (i % j != 0 ? 1 : 0));
  }
  const bool first = node.name == "min" ? a <= b : a >= b;
  return first ? left : right;
}

Result<Number> Formula::evaluate(const Variables& variables) const {
  if (root_ < 0) return fail(bad("there is no formula"));
  return at(root_, variables);
}

Result<int64_t> Formula::integer(const Variables& variables) const {
  auto value = evaluate(variables);
  if (!value) return fail(value.error());
  if (value->is_integer) return value->integer;
  if (std::floor(value->real) == value->real && std::abs(value->real) < 0x1.0p62) {
    return static_cast<int64_t>(value->real);
  }
  return fail(bad(fmt::format("\"{}\" is {}, a whole number is needed", text_, value->real)));
}

Result<double> Formula::real(const Variables& variables) const {
  auto value = evaluate(variables);
  if (!value) return fail(value.error());
  const double number = value->as_double();
  if (!std::isfinite(number)) return fail(bad(fmt::format("\"{}\" is not finite", text_)));
  return number;
}

}  // namespace sculler::task
