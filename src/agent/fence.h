// Text of others within a prompt: fenced so that it cannot end its fence, bounded, and printable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sculler::agent {

// "```lang\n…\n```" with more backticks than any run within; a last newline is added where it is
// missing. Control characters other than newline and tab become '?'.
[[nodiscard]] std::string fence(std::string_view text, std::string_view language);

// At most `bytes` of a text, whole lines from its begin (never inside a code point), with a last
// line that says how much is left out. Nothing but that line where not even one fits.
[[nodiscard]] std::string cut(std::string_view text, std::size_t bytes);

// One line of others: no line ends, no backticks, at most `width` columns.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t width);

}  // namespace sculler::agent
