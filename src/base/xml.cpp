#include "base/xml.h"

#include <algorithm>
#include <cstdint>

namespace sculler {

namespace {

// Bytes of the UTF-8 character at the front that XML allows; 0: none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t n = lead >= 0xf0 && lead < 0xf5   ? 4
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                                                      : 0;
  if (n == 0 || text.size() < n) return 0;
  uint32_t code = lead & (0xffu >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool too_long = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
  const bool forbidden = (code >= 0xd800 && code < 0xe000) || (code & 0xfffe) == 0xfffe ||
                         code > 0x10ffff || code < 0xa0;
  return too_long || forbidden ? 0 : n;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t n = character(text);
    switch (text.front()) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += n > 0 ? text.substr(0, n) : std::string_view("?");
    }
    text.remove_prefix(std::max<std::size_t>(1, n));
  }
  return out;
}

}  // namespace sculler
