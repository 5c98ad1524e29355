#include "llm/text.h"

#include <cmath>

namespace sculler::llm {

bool valid_utf8(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = at(i);
    if (c < 0x80) {
      ++i;
      continue;
    }
    const std::size_t more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    if (c < 0xc2 || c > 0xf4 || text.size() - i <= more) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((at(i + k) & 0xc0) != 0x80) return false;
    }
    const unsigned char second = at(i + 1);
    if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
        (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

std::string without_nul(std::string text) {
  for (std::size_t at = text.find('\0'); at != std::string::npos; at = text.find('\0', at))
    text.replace(at, 1, "\xef\xbf\xbd");
  return text;
}

int64_t estimate_tokens(std::string_view text, double bytes_per_token) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(text.size()) / bytes_per_token));
}

uint64_t prompt_bytes(const Request& request) {
  uint64_t bytes = 16;
  for (const auto& message : request.messages) bytes += message.text.size() + 16;
  return bytes + request.schema.size();
}

LineDifference first_difference(std::string_view a, std::string_view b) {
  if (a == b) return {};
  LineDifference out;
  for (out.line = 1;; ++out.line) {
    const auto end_a = a.find('\n'), end_b = b.find('\n');
    const auto line_a = a.substr(0, end_a), line_b = b.substr(0, end_b);
    const bool last_a = end_a == std::string_view::npos, last_b = end_b == std::string_view::npos;
    if (line_a != line_b || last_a != last_b) {
      out.a = line_a;
      out.b = line_b;
      // Equal lines, but one text ends here: the difference is the next line.
      if (line_a == line_b) {
        ++out.line;
        const auto next = [](std::string_view text, std::size_t end) {
          if (end == std::string_view::npos) return std::string("(end)");
          text.remove_prefix(end + 1);
          return std::string(text.substr(0, text.find('\n')));
        };
        out.a = next(a, end_a);
        out.b = next(b, end_b);
      }
      return out;
    }
    if (last_a) return out;
    a.remove_prefix(end_a + 1);
    b.remove_prefix(end_b + 1);
  }
}

}  // namespace sculler::llm
