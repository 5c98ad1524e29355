// Is a text well-formed XML of elements, attributes and text? What a browser would refuse, this
// does: elements that do not nest, attributes twice or without quotes, entities that XML does not
// know, characters that it forbids.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sculler::analyze::test {

class Xml {
 public:
  explicit Xml(std::string_view text) : text_(text) {
    while (error.empty() && at_ < text_.size()) {
      if (text_[at_] == '<') tag();
      else character();
    }
    if (error.empty() && !open_.empty()) error = "<" + open_.back() + "> is not closed";
  }

  std::string error;                  // empty: well-formed
  std::map<std::string, int> counts;  // elements by name
  std::vector<std::string> texts;     // of each element that holds text, entities resolved

 private:
  void fail(const std::string& why) {
    if (error.empty()) error = why + " at byte " + std::to_string(at_);
  }
  static bool name_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == ':' || c == '_';
  }
  std::string name() {
    const auto from = at_;
    while (at_ < text_.size() && name_letter(text_[at_])) ++at_;
    if (at_ == from) fail("a name is missing");
    return std::string(text_.substr(from, at_ - from));
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string entity() {
    const auto end = text_.find(';', at_);
    const auto word = std::string(text_.substr(at_ + 1, end - at_ - 1));
    static const std::map<std::string, std::string> known{
        {"lt", "<"}, {"gt", ">"}, {"amp", "&"}, {"quot", "\""}, {"#39", "'"}};
    const auto found = known.find(word);
    if (end == std::string_view::npos || found == known.end()) {
      fail("an entity that is none");
      ++at_;
      return {};
    }
    at_ = end + 1;
    return found->second;
  }
  void character() {
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (open_.empty() && c != '\n') fail("text outside of the root");
    if (c == '&') {
      texts_so_far_ += entity();
      return;
    }
    if (c < 0x20 && c != '\n' && c != '\t') fail("a control character");
    if (c == '>') fail("a bare >");
    texts_so_far_ += static_cast<char>(c);
    ++at_;
  }
  void tag() {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '/') {
      ++at_;
      const auto closed = name();
      if (open_.empty() || open_.back() != closed) return fail("</" + closed + "> closes nothing");
      open_.pop_back();
      if (!texts_so_far_.empty() && texts_so_far_ != "\n") texts.push_back(texts_so_far_);
      texts_so_far_.clear();
      spaces();
      if (at_ >= text_.size() || text_[at_++] != '>') fail("> is missing");
      return;
    }
    const auto element = name();
    ++counts[element];
    if (open_.empty() && roots_++ > 0) fail("a second root");
    texts_so_far_.clear();
    std::set<std::string> seen;
    for (;;) {
      spaces();
      if (!error.empty() || at_ >= text_.size()) return fail("a tag does not end");
      if (text_[at_] == '>') {
        open_.push_back(element);
        ++at_;
        return;
      }
      if (text_.substr(at_).starts_with("/>")) {
        at_ += 2;
        return;
      }
      const auto attribute = name();
      if (!seen.insert(attribute).second) return fail(attribute + " twice");
      if (!text_.substr(at_).starts_with("=\"")) return fail("a value without quotes");
      at_ += 2;
      while (error.empty() && at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '<') return fail("< in a value");
        if (text_[at_] == '&') (void)entity();
        else ++at_;
      }
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int roots_ = 0;
  std::vector<std::string> open_;
  std::string texts_so_far_;
};

}  // namespace sculler::analyze::test
