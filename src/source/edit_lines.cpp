#include "source/edit_lines.h"

#include <algorithm>

namespace sculler::source {
namespace {

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Without blanks at its end.
std::string_view tight(std::string_view line) {
  const auto last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

}  // namespace

std::vector<std::string_view> lines_in(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(without_end(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

Lines::Lines(std::string text) {
  std::size_t crlf = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = text.find('\n', at);
    const std::size_t end = newline == std::string::npos ? text.size() : newline + 1;
    lines_.push_back(text.substr(at, end - at));
    if (lines_.back().ends_with("\r\n")) ++crlf;
    at = end;
  }
  crlf_ = crlf * 2 > lines_.size();
  ended_ = text.empty() || text.back() == '\n';
}

std::string_view Lines::at(std::size_t i) const { return without_end(lines_[i]); }

bool Lines::find(const std::vector<std::string_view>& search, std::vector<std::size_t>& found,
                 uint64_t& work, uint64_t max_work) const {
  found.clear();
  if (search.empty() || search.size() > lines_.size()) return true;
  for (std::size_t at = 0; at + search.size() <= lines_.size(); ++at) {
    std::size_t i = 0;
    while (i < search.size() && tight(lines_[at + i]) == search[i]) ++i;
    work += i + 1;
    if (i == search.size()) found.push_back(at);
    if (work > max_work) return false;
  }
  return true;
}

void Lines::replace(std::size_t at, std::size_t n, const std::vector<std::string_view>& with) {
  const std::string end = crlf_ ? "\r\n" : "\n";
  const bool last = at + n == lines_.size() && !ended_;
  std::vector<std::string> fresh;
  fresh.reserve(with.size());
  for (const auto line : with) fresh.push_back(std::string(line) + end);
  const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(at);
  // Moved over where it can be, so that thousands of changes cost little.
  const std::size_t common = std::min(n, fresh.size());
  std::move(fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(common), begin);
  if (n > common) {
    lines_.erase(begin + static_cast<std::ptrdiff_t>(common),
                 begin + static_cast<std::ptrdiff_t>(n));
  } else if (fresh.size() > common) {
    lines_.insert(begin + static_cast<std::ptrdiff_t>(common),
                  std::make_move_iterator(fresh.begin() + static_cast<std::ptrdiff_t>(common)),
                  std::make_move_iterator(fresh.end()));
  }
  if (last && !lines_.empty()) lines_.back() = std::string(without_end(lines_.back()));
}

Nearest Lines::nearest(const std::vector<std::string_view>& search) const {
  constexpr std::size_t kPlaces = 32;  // of one line's text; a line that is everywhere says little
  const auto trimmed = [](std::string_view line) {
    line = tight(line);
    return line.substr(indent_of(line));
  };
  Nearest out;
  std::unordered_map<std::string_view, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < search.size(); ++i) {
    const auto line = trimmed(search[i]);
    if (line.empty()) continue;
    if (out.wanted.empty()) out.wanted = search[i];
    auto& list = places[line];
    if (list.size() < kPlaces) list.push_back(i);
  }
  std::unordered_map<std::size_t, std::size_t> votes;  // of the place of the first line
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const auto line = trimmed(lines_[i]);
    const auto at = places.find(line);
    if (at == places.end() || ++seen[line] > kPlaces) continue;
    for (const std::size_t offset : at->second)
      if (i >= offset) ++votes[i - offset];
  }
  for (const auto& [line, count] : votes) {
    if (count > out.same || (count == out.same && line < out.line)) {
      out.same = count;
      out.line = line;
    }
  }
  if (out.same == 0) return out;
  out.same = 0;
  bool differs = false;
  for (std::size_t i = 0; i < search.size(); ++i) {
    const auto has = out.line + i < lines_.size() ? at(out.line + i) : std::string_view();
    if (out.line + i < lines_.size() && trimmed(has) == trimmed(search[i])) ++out.same;
    if (differs || tight(has) == tight(search[i])) continue;
    differs = true;
    out.differs = out.line + i;
    out.has = has;
    out.wanted = search[i];
    out.has_indent = indent_of(has);
    out.wanted_indent = indent_of(search[i]);
    out.only_indentation = trimmed(has) == trimmed(search[i]);
  }
  return out;
}

std::string Lines::text() const {
  std::string out;
  std::size_t size = 0;
  for (const auto& line : lines_) size += line.size();
  out.reserve(size);
  for (const auto& line : lines_) out += line;
  return out;
}

void Lines::take_ends_of(const Lines& other) {
  const std::string end = other.crlf_ ? "\r\n" : "\n";
  for (auto& line : lines_) line = std::string(without_end(line)) + end;
  if (!other.ended_ && !lines_.empty()) lines_.back() = std::string(without_end(lines_.back()));
  crlf_ = other.crlf_;
  ended_ = other.ended_;
}

std::string Lines::with_plain_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  return out;
}

}  // namespace sculler::source
