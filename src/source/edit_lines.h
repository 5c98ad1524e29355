// A text as lines, for the files of the edits: exact places, replaced pieces, kept line ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sculler::source {

// Where a text that is not there would fit best.
struct Nearest {
  std::size_t line = 0, same = 0;  // first line there; lines that agree, indentation aside
  std::size_t differs = 0;         // the first line there that does not
  std::string_view has, wanted;
  bool only_indentation = false;
  std::size_t has_indent = 0, wanted_indent = 0;
};

// Lines of a text without their ends; a last newline makes no line of its own.
[[nodiscard]] std::vector<std::string_view> lines_in(std::string_view text);

class Lines {
 public:
  explicit Lines(std::string text);
  Lines(Lines&&) noexcept = default;
  Lines& operator=(Lines&&) noexcept = default;

  [[nodiscard]] std::size_t count() const { return lines_.size(); }
  [[nodiscard]] std::string_view at(std::size_t i) const;  // without its end
  // Every place where these lines stand, blanks at line ends aside. False where more than
  // `max_work` steps were spent in all.
  [[nodiscard]] bool find(const std::vector<std::string_view>& search,
                          std::vector<std::size_t>& found, uint64_t& work, uint64_t max_work) const;
  // `with` gets this text's line ends.
  void replace(std::size_t at, std::size_t n, const std::vector<std::string_view>& with);
  [[nodiscard]] Nearest nearest(const std::vector<std::string_view>& search) const;
  [[nodiscard]] std::string text() const;

  // Line ends, and whether the last line has one, as `other` has them.
  void take_ends_of(const Lines& other);
  // "\r\n" → "\n".
  [[nodiscard]] static std::string with_plain_ends(std::string_view text);

 private:
  std::vector<std::string> lines_;  // with their ends
  bool crlf_ = false;               // most ends are "\r\n"
  bool ended_ = true;               // the last line has an end
};

}  // namespace sculler::source
