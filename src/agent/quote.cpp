#include "agent/quote.h"

#include <nlohmann/json.hpp>

namespace sculler::agent {

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
    if (quote.empty() || plain.find(quote) == std::string::npos) ++cut;
    else out.push_back(std::move(quote));
  }
  return out;
}

}  // namespace sculler::agent
