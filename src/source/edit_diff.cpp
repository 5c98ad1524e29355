// Changes between two candidates: what a model would have had to write.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "source/edit.h"
#include "source/edit_lines.h"

namespace sculler::source {
namespace {

using Views = std::vector<std::string_view>;

struct Hunk {
  std::size_t a = 0, a_end = 0, b = 0, b_end = 0;  // lines
};

// The hunks between two texts by their longest common subsequence; false where that costs too much.
bool hunks_of(const Views& a, const Views& b, std::vector<Hunk>& out) {
  constexpr std::size_t kMaxCells = 4'000'000;
  std::size_t begin = 0, a_end = a.size(), b_end = b.size();
  while (begin < a_end && begin < b_end && a[begin] == b[begin]) ++begin;
  while (a_end > begin && b_end > begin && a[a_end - 1] == b[b_end - 1]) --a_end, --b_end;
  const std::size_t n = a_end - begin, m = b_end - begin;
  if (n == 0 && m == 0) return true;
  if ((n + 1) * (m + 1) > kMaxCells) return false;
  std::vector<uint32_t> length((n + 1) * (m + 1), 0);
  const auto cell = [&](std::size_t i, std::size_t j) -> uint32_t& {
    return length[i * (m + 1) + j];
  };
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      cell(i, j) = a[begin + i] == b[begin + j] ? cell(i + 1, j + 1) + 1
                                                : std::max(cell(i + 1, j), cell(i, j + 1));
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[begin + i] == b[begin + j]) {
      ++i;
      ++j;
      continue;
    }
    Hunk hunk{begin + i, begin + i, begin + j, begin + j};
    while ((i < n || j < m) && !(i < n && j < m && a[begin + i] == b[begin + j])) {
      if (i < n && (j == m || cell(i + 1, j) >= cell(i, j + 1))) ++i;
      else ++j;
    }
    hunk.a_end = begin + i;
    hunk.b_end = begin + j;
    out.push_back(hunk);
  }
  return true;
}

bool blank(const Views& lines, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (!trim(lines[i]).empty()) return false;
  return true;
}

// Grows a hunk until its search is found once in what `current` is by then; hunks that run into
// each other become one.
bool edits_of(const std::string& name, const Views& a, const Views& b, std::vector<Hunk> hunks,
              std::vector<Edit>& out) {
  constexpr std::size_t kContext = 40;
  Lines current{std::string()};
  {
    std::string text;
    for (const auto line : a) (text += line) += '\n';
    current = Lines(std::move(text));
  }
  int64_t shift = 0;  // of the current text against a, before the hunk
  for (std::size_t h = 0; h < hunks.size(); ++h) {
    Hunk hunk = hunks[h];
    const std::size_t floor = h == 0 ? 0 : hunks[h - 1].a_end;
    for (std::size_t grown = 0;; ++grown) {
      const std::size_t ceiling = h + 1 < hunks.size() ? hunks[h + 1].a : a.size();
      Views search;
      for (std::size_t i = hunk.a; i < hunk.a_end; ++i) {
        const auto last = a[i].find_last_not_of(" \t\r\n");
        search.push_back(a[i].substr(0, last == std::string_view::npos ? 0 : last + 1));
      }
      std::vector<std::size_t> found;
      uint64_t work = 0;
      if (!blank(a, hunk.a, hunk.a_end) && current.find(search, found, work, 50'000'000) &&
          found.size() == 1 &&
          static_cast<int64_t>(found[0]) == static_cast<int64_t>(hunk.a) + shift)
        break;
      const bool up = hunk.a > floor, down = hunk.a_end < ceiling;
      if (grown > kContext || (!up && !down)) return false;
      if (up) --hunk.a, --hunk.b;
      if (down) ++hunk.a_end, ++hunk.b_end;
    }
    Edit edit;
    edit.file = name;
    for (std::size_t i = hunk.a; i < hunk.a_end; ++i) (edit.search += a[i]) += '\n';
    Views with;
    for (std::size_t i = hunk.b; i < hunk.b_end; ++i) {
      (edit.text += b[i]) += '\n';
      with.push_back(b[i]);
    }
    current.replace(static_cast<std::size_t>(static_cast<int64_t>(hunk.a) + shift),
                    hunk.a_end - hunk.a, with);
    shift += static_cast<int64_t>(hunk.b_end - hunk.b) - static_cast<int64_t>(hunk.a_end - hunk.a);
    hunks[h] = hunk;
    out.push_back(std::move(edit));
  }
  return true;
}

}  // namespace

std::vector<Edit> diff(const std::vector<File>& before, const std::vector<File>& after) {
  std::vector<Edit> out;
  for (const auto& file : after) {
    const auto old = std::find_if(before.begin(), before.end(),
                                  [&](const File& other) { return other.name == file.name; });
    if (old != before.end() && old->text == file.text) continue;
    const std::string plain = Lines::with_plain_ends(file.text);
    std::vector<Edit> edits;
    std::vector<Hunk> hunks;
    if (old != before.end()) {
      const std::string old_plain = Lines::with_plain_ends(old->text);
      const auto a = lines_in(old_plain), b = lines_in(plain);
      // Text that holds markers of its own cannot be written as blocks.
      const bool marked = plain.find("<<<<<") != std::string::npos ||
                          plain.find("=====") != std::string::npos ||
                          plain.find(">>>>>") != std::string::npos ||
                          old_plain.find("=====") != std::string::npos ||
                          old_plain.find(">>>>>") != std::string::npos ||
                          old_plain.find("<<<<<") != std::string::npos;
      if (!marked && hunks_of(a, b, hunks) && edits_of(file.name, a, b, hunks, edits)) {
        out.insert(out.end(), edits.begin(), edits.end());
        continue;
      }
    }
    Edit edit;
    edit.kind = Edit::Kind::kRewrite;
    edit.file = file.name;
    edit.text = plain;
    out.push_back(std::move(edit));
  }
  return out;
}

std::string print(const std::vector<Edit>& edits) {
  std::string out;
  for (const auto& edit : edits) {
    if (edit.kind == Edit::Kind::kReplace) {
      if (!edit.file.empty()) out += edit.file + "\n";
      out += fmt::format("<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n", edit.search, edit.text);
      continue;
    }
    // A fence longer than any within.
    std::size_t longest = 2, run = 0;
    for (const char c : edit.text) {
      run = c == '`' ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    const std::string fence(longest + 1, '`');
    out += fmt::format("{}cpp {}\n{}{}{}\n", fence, edit.file, edit.text,
                       edit.text.ends_with('\n') ? "" : "\n", fence);
  }
  return out;
}

}  // namespace sculler::source
