#include "agent/quote.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace sculler::agent {
namespace {

constexpr std::size_t kShortest = 8;  // bytes: a letter or a number alone stands in any text

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// From the begin of a word to the end of one.
bool stands_in(std::string_view quote, std::string_view text) {
  if (quote.size() < kShortest) return false;
  for (auto at = text.find(quote); at != std::string_view::npos; at = text.find(quote, at + 1)) {
    const auto end = at + quote.size();
    const bool cut_before = at > 0 && is_word(text[at - 1]) && is_word(quote.front());
    const bool cut_behind = end < text.size() && is_word(text[end]) && is_word(quote.back());
    if (!cut_before && !cut_behind) return true;
  }
  return false;
}

}  // namespace

std::string plain_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::vector<std::string> quotes_of(const nlohmann::json& list, std::string_view text, int& cut) {
  std::vector<std::string> out;
  const std::string plain = plain_blanks(text);
  for (const auto& item : list) {
    std::string quote = plain_blanks(item.get_ref<const std::string&>());
    if (!stands_in(quote, plain)) ++cut;
    else out.push_back(std::move(quote));
  }
  return out;
}

}  // namespace sculler::agent
