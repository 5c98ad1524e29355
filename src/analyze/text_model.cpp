#include "analyze/text_model.h"

#include <algorithm>

namespace sculler::analyze {
namespace {

constexpr int kDeepest = 200;  // nested statements; what lies deeper is not looked at

bool keyword(std::string_view word) {
  return word == "if" || word == "for" || word == "while" || word == "switch" || word == "catch" ||
         word == "return" || word == "sizeof" || word == "else" || word == "do" ||
         word == "alignof" || word == "decltype";
}

}  // namespace

TextModel::TextModel(std::string_view text) : text_(text) {
  for (auto& token : source::tokenize(text)) {
    (token.in_directive ? directives_ : code_).push_back(std::move(token));
  }
  match_brackets();
  find_functions();
  for (const Function& function : functions_) read_block(function.open, function.close, 0);
}

void TextModel::match_brackets() {
  partner_.assign(code_.size(), code_.size());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (is(i, "(") || is(i, "[") || is(i, "{")) {
      open.push_back(i);
    } else if (is(i, ")") || is(i, "]") || is(i, "}")) {
      const std::string_view wanted = is(i, ")") ? "(" : is(i, "]") ? "[" : "{";
      // A bracket without its partner ends nothing but what was opened after the last such one.
      const auto found = std::find_if(open.rbegin(), open.rend(),
                                      [&](std::size_t o) { return code_[o].text == wanted; });
      if (found == open.rend()) continue;
      partner_[*found] = i;
      partner_[i] = *found;
      open.erase(std::next(found).base(), open.end());
    }
  }
}

void TextModel::find_functions() {
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (!is(i, "{") || i == 0) continue;
    std::size_t before = i - 1;
    while (before > 0 && (is(before, "const") || is(before, "noexcept") || is(before, "override")))
      --before;
    if (!is(before, ")")) continue;
    const std::size_t open = partner(before), close = partner(i);
    if (open >= code_.size() || close >= code_.size() || open == 0) continue;
    if (!identifier(open - 1) || keyword(code_[open - 1].text)) continue;
    Function function;
    function.name = code_[open - 1].text;
    function.parameters = split_commas({open + 1, before});
    function.open = i;
    function.close = close;
    function.head = open - 1;
    while (function.head > 0 && !is(function.head - 1, ";") && !is(function.head - 1, "}") &&
           !is(function.head - 1, "{"))
      --function.head;
    functions_.push_back(std::move(function));
    i = close;
  }
}

std::size_t TextModel::read_condition(std::size_t i, std::size_t end, Range* condition) const {
  while (i < end && !is(i, "(")) ++i;  // if constexpr
  if (i >= end || partner(i) >= end) return end;
  *condition = {i + 1, partner(i)};
  return partner(i) + 1;
}

void TextModel::read_block(std::size_t open, std::size_t close, int depth) {
  if (depth > kDeepest || close > code_.size()) return;
  std::size_t i = open + 1;
  while (i < close) {
    const std::size_t next = read_statement(i, close, depth);
    i = std::max(next, i + 1);
  }
}

// Gives the token after the statement.
std::size_t TextModel::read_statement(std::size_t i, std::size_t end, int depth) {
  if (depth > kDeepest) return end;
  if (is(i, "{")) {
    const std::size_t close = std::min(partner(i), end);
    read_block(i, close, depth + 1);
    return close + 1;
  }
  const auto body = [&](Control control, std::size_t first) {
    const std::size_t last = read_statement(first, end, depth + 1);
    control.body = {first, std::min(last, end)};
    controls_.push_back(control);
    return last;
  };
  if (is(i, "if")) {
    Control control;
    control.keyword = i;
    const std::size_t first = read_condition(i, end, &control.condition);
    std::size_t last = body(control, first);
    if (last < end && is(last, "else")) {
      control.kind = Control::Kind::kElse;
      last = body(control, last + 1);
    }
    return last;
  }
  if (is(i, "for") || is(i, "while") || is(i, "switch")) {
    Control control;
    control.keyword = i;
    control.kind = is(i, "switch") ? Control::Kind::kSwitch : Control::Kind::kLoop;
    const std::size_t first = read_condition(i, end, &control.condition);
    return body(control, first);
  }
  if (is(i, "do")) {
    const std::size_t last = read_statement(i + 1, end, depth + 1);
    Control control;
    control.keyword = i;
    control.kind = Control::Kind::kLoop;
    control.body = {i + 1, std::min(last, end)};
    std::size_t after = last;
    if (last < end && is(last, "while")) after = read_condition(last, end, &control.condition);
    controls_.push_back(control);
    return after + 1;  // its semicolon
  }
  // An expression or a declaration; the bodies of lambdas hold statements of their own.
  while (i < end && !is(i, ";")) {
    if (is(i, "{")) {
      const std::size_t close = std::min(partner(i), end);
      read_block(i, close, depth + 1);
      i = close + 1;
    } else if ((is(i, "(") || is(i, "[")) && partner(i) < end) {
      for (std::size_t j = i + 1; j < partner(i); ++j) {
        if (!is(j, "{")) continue;
        const std::size_t close = std::min(partner(j), partner(i));
        read_block(j, close, depth + 1);
        j = close;
      }
      i = partner(i) + 1;
    } else if (is(i, ":") && i > 0 && !is(i - 1, ")") && identifier(i - 1)) {
      return i + 1;  // a label
    } else {
      ++i;
    }
  }
  return i + 1;
}

int TextModel::function_at(std::size_t i) const {
  for (std::size_t f = 0; f < functions_.size(); ++f) {
    if (functions_[f].holds(i)) return static_cast<int>(f);
  }
  return -1;
}

const Function* TextModel::find_function(std::string_view name) const {
  for (const Function& function : functions_) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

bool TextModel::free_call(std::size_t i) const {
  if (!identifier(i) || !is(i + 1, "(")) return false;
  if (i == 0) return true;
  if (is(i - 1, ".") || is(i - 1, "->")) return false;
  if (is(i - 1, "::") && i > 1 && identifier(i - 2)) return false;
  // A type before the name declares it.
  return !identifier(i - 1) || keyword(code_[i - 1].text);
}

std::vector<Call> TextModel::calls(std::string_view name) const {
  std::vector<Call> out;
  for (std::size_t i = 0; i < code_.size(); ++i) {
    if (code_[i].text != name || !free_call(i)) continue;
    const std::size_t close = partner(i + 1);
    if (close >= code_.size()) continue;
    Call call;
    call.name = i;
    call.open = i + 1;
    call.close = close;
    call.arguments = split_commas({i + 2, close});
    call.function = function_at(i);
    out.push_back(std::move(call));
  }
  return out;
}

std::vector<const Control*> TextModel::around(std::size_t i) const {
  std::vector<const Control*> out;
  for (const Control& control : controls_) {
    if (control.body.holds(i)) out.push_back(&control);
  }
  std::sort(out.begin(), out.end(),
            [](const Control* a, const Control* b) { return a->body.first < b->body.first; });
  return out;
}

std::size_t TextModel::statement_begin(std::size_t i) const {
  while (i > 0) {
    const std::size_t before = i - 1;
    if (is(before, ";") || is(before, "{") || is(before, "}")) return i;
    if (is(before, ")") && partner(before) < before) {
      const std::size_t open = partner(before);
      if (open > 0 && identifier(open - 1) && keyword(code_[open - 1].text)) return i;
      i = open;
    } else {
      i = before;
    }
  }
  return 0;
}

std::string_view TextModel::written(Range range) const {
  if (range.empty() || range.last > code_.size()) return {};
  const std::size_t begin = code_[range.first].begin;
  return text_.substr(begin, code_[range.last - 1].end - begin);
}

std::string TextModel::joined(Range range) const {
  std::string out;
  for (std::size_t i = range.first; i < range.last && i < code_.size(); ++i) {
    // Two words in a row stay two words.
    if (!out.empty() && identifier(i) && identifier(i - 1)) out += ' ';
    out += code_[i].text;
  }
  return out;
}

std::vector<Range> TextModel::split_commas(Range range) const {
  std::vector<Range> out;
  if (range.empty()) return out;
  std::size_t first = range.first;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if ((is(i, "(") || is(i, "[") || is(i, "{")) && partner(i) < range.last) {
      i = partner(i);
    } else if (is(i, ",")) {
      out.push_back({first, i});
      first = i + 1;
    }
  }
  out.push_back({first, range.last});
  return out;
}

}  // namespace sculler::analyze
