#include "source/marks.h"

#include <algorithm>

#include "base/strings.h"
#include "source/bad_source.h"
#include "source/blocks.h"
#include "source/token.h"

namespace sculler::source {
namespace {

constexpr std::string_view kStart = "// EVOLVE-BLOCK-START", kEnd = "// EVOLVE-BLOCK-END";

// Begin of each line; the end of the text closes the list.
std::vector<std::size_t> line_begins(std::string_view text) {
  std::vector<std::size_t> out{0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && i + 1 < text.size()) out.push_back(i + 1);
  }
  out.push_back(text.size());
  return out;
}

// [begin, end) of the marker lines, their newline included.
std::vector<std::pair<std::size_t, std::size_t>> marker_lines(std::string_view text) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (const Token& token : tokenize(text, true)) {
    if (token.kind != TokenKind::kComment || !token.line_start || token.in_directive) continue;
    const auto written = text.substr(token.begin, token.end - token.begin);
    const auto body = trim(written);
    if (body != kStart && body != kEnd) continue;
    std::size_t begin = token.begin;
    while (begin > 0 && (text[begin - 1] == ' ' || text[begin - 1] == '\t')) --begin;
    if (begin > 0 && text[begin - 1] != '\n') continue;
    // The line before must not go on in this one.
    if (begin > 1) {
      const auto before = text.substr(0, begin - 1);
      const auto newline = before.rfind('\n');  // npos + 1 is 0: the first line
      if (trim(before.substr(newline + 1)).ends_with("\\")) continue;
    }
    std::size_t end = token.end;
    while (end < text.size() && text[end] != '\n') ++end;
    if (end < text.size()) {
      ++end;
    } else if (begin > 0) {
      --begin;  // the last line has no newline of its own: it brought the one before
    }
    out.emplace_back(begin, end);
  }
  return out;
}

}  // namespace

std::string without_marks(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  for (const auto& [begin, end] : marker_lines(text)) {
    out += text.substr(at, begin - std::min(at, begin));
    at = std::max(at, end);
  }
  return out + std::string(text.substr(at));
}

Status check_marks(std::string_view original, std::string_view marked, std::string_view origin) {
  auto blocks = need_blocks(marked, origin);
  if (!blocks) return fail(blocks.error());
  if (auto before = find_blocks(original, origin); !before || !before->blocks.empty())
    return fail(bad_source(origin, 0, "the text has marks already", "take them out first"));
  const std::string restored = without_marks(marked);
  if (restored == original) return {};
  // The first line of the restored text that differs, counted in the marked one.
  std::size_t same = 0;
  while (same < restored.size() && same < original.size() && restored[same] == original[same])
    ++same;
  std::size_t at = 0, taken = 0;
  for (const auto& [begin, end] : marker_lines(marked)) {
    if (taken + (begin - at) > same) break;
    taken += begin - at;
    at = end;
  }
  at = std::min(at + (same - taken), marked.size());
  const auto line = 1 + std::count(marked.begin(), marked.begin() + static_cast<long>(at), '\n');
  return fail(bad_source(origin, static_cast<int>(line),
                         "taking the marks out does not restore the text byte for byte",
                         "add marker lines of their own and change nothing else"));
}

Result<std::string> mark_blocks(std::string_view text, const std::vector<Lines>& ranges,
                                std::string_view origin) {
  const auto begins = line_begins(text);
  const int n_lines = static_cast<int>(begins.size()) - 1;
  std::string out;
  std::size_t at = 0;
  int past = 0;
  for (const Lines& range : ranges) {
    if (range.first <= past || range.last < range.first || range.last > n_lines)
      return fail(bad_source(origin, range.first, "ranges of lines must ascend within the text",
                             "give each block lines of its own"));
    const std::size_t begin = begins[static_cast<std::size_t>(range.first) - 1];
    const std::size_t end = begins[static_cast<std::size_t>(range.last)];
    out += text.substr(at, begin - at);
    out += kStart;
    out += '\n';
    out += text.substr(begin, end - begin);
    if (out.back() == '\n') {
      out += kEnd;
      out += '\n';
    } else {  // the text ends without a newline, and so does the marked one
      out += '\n';
      out += kEnd;
    }
    at = end;
    past = range.last;
  }
  out += text.substr(at);
  // Markers that the tokenizer does not see as such stood within a comment or a string.
  if (auto ok = check_marks(text, out, origin); !ok) return fail(ok.error());
  const auto found = find_blocks(out, origin);
  if (!found || found->blocks.size() != ranges.size())
    return fail(bad_source(origin, 0, "a marker would not stand in code",
                           "choose lines that begin and end outside of comments and strings"));
  return out;
}

}  // namespace sculler::source
