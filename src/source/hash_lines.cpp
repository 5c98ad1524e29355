#include "source/hash_lines.h"

#include <algorithm>

#include "base/strings.h"

namespace sculler::source {

std::vector<HashLine> hash_lines(std::string_view text, std::string_view word) {
  std::vector<HashLine> out;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    ++number;
    const auto hash = line.find_first_not_of(" \t");
    if (hash != std::string_view::npos && line[hash] == '#') {
      const auto body = trim(line.substr(hash + 1));
      if (body.starts_with(word)) out.push_back({body, number, at + hash, end});
    }
    at = end + 1;
  }
  return out;
}

}  // namespace sculler::source
