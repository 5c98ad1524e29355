// Small text helpers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sculler {

[[nodiscard]] std::string_view trim(std::string_view text);
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);
[[nodiscard]] std::string to_lower(std::string_view text);

// Levenshtein distance with transpositions of neighbours counted as one.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate most like `name`, where it is like it at all (a third of its letters may differ).
[[nodiscard]] std::optional<std::string> nearest(std::string_view name,
                                                 const std::vector<std::string>& candidates);

// Words as a shell would split them, without a shell: quotes and backslashes, no expansion.
// Empty optional where a quote is not closed.
[[nodiscard]] std::optional<std::vector<std::string>> split_words(std::string_view text);

[[nodiscard]] std::optional<int64_t> parse_int(std::string_view text);
[[nodiscard]] std::optional<double> parse_double(std::string_view text);

// "1.5 GiB", "512 B".
[[nodiscard]] std::string bytes_text(uint64_t bytes);
// "0:00:31".
[[nodiscard]] std::string duration_text(double seconds);
// Three significant figures or more: "5.52 µs", "552 µs", "1.35 ms".
[[nodiscard]] std::string microseconds_text(double us);
// Columns a terminal needs for UTF-8 text (every code point counts one).
[[nodiscard]] std::size_t display_width(std::string_view text);
// At most `width` columns, "…" at the end where it was cut; never inside a code point.
[[nodiscard]] std::string shorten(std::string_view text, std::size_t width);
// Control characters replaced by '?', so that text of others cannot drive a terminal. Newlines stay
// where asked.
[[nodiscard]] std::string printable(std::string_view text, bool keep_newlines = false);

}  // namespace sculler
