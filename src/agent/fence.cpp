#include "agent/fence.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace sculler::agent {

std::string fence(std::string_view text, std::string_view language) {
  std::size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string marks(longest + 1, '`');
  std::string out = marks;
  out.reserve(text.size() + 2 * marks.size() + language.size() + 3);
  (out += language) += '\n';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 32 && c != '\n' && c != '\t') || byte == 127 ? (c == '\r' ? ' ' : '?') : c;
  }
  if (!text.empty() && text.back() != '\n') out += '\n';
  return out + marks;
}

std::string cut(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  constexpr std::size_t kNote = 48;
  const std::size_t room = bytes > kNote ? bytes - kNote : 0;
  const auto newline = room == 0 ? std::string_view::npos : text.rfind('\n', room - 1);
  const std::size_t kept = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("{}[… {} bytes left out]", text.substr(0, kept), text.size() - kept);
}

std::string one_line(std::string_view text, std::size_t width) {
  std::string out = printable(text.substr(0, 8 * width));
  std::replace(out.begin(), out.end(), '`', '\'');
  return shorten(out, width);
}

}  // namespace sculler::agent
