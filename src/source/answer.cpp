#include "source/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"
#include "source/bad_source.h"
#include "source/bundle.h"

namespace sculler::source {
namespace {

constexpr std::size_t kMaxProse = 4000, kMaxDirective = std::size_t{1} << 16;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    at = end + 1;
  }
  return out;
}

enum class Mark { kNone, kSearch, kMiddle, kReplace };

// Five to nine characters, as the field's tools take them; nothing but the word behind them.
Mark mark_of(std::string_view line) {
  if (line.size() < 5) return Mark::kNone;
  const char c = line[0];
  if (c != '<' && c != '=' && c != '>') return Mark::kNone;
  const std::size_t n = std::min(line.find_first_not_of(c), line.size());
  if (n < 5 || n > 9) return Mark::kNone;
  const auto word = trim(line.substr(n));
  if (c == '=') return word.empty() ? Mark::kMiddle : Mark::kNone;
  if (c == '<') return word == "SEARCH" || word == "ORIGINAL" ? Mark::kSearch : Mark::kNone;
  return word == "REPLACE" || word == "UPDATED" ? Mark::kReplace : Mark::kNone;
}

struct Fence {
  char c = 0;
  std::size_t length = 0;
  std::string_view info;
};

// An opening fence, up to three blanks before it.
bool opens(std::string_view line, Fence& fence) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (indent > 3 || indent == line.size()) return false;
  line.remove_prefix(indent);
  const char c = line[0];
  if (c != '`' && c != '~') return false;
  const std::size_t n = std::min(line.find_first_not_of(c), line.size());
  if (n < 3) return false;
  const auto info = trim(line.substr(n));
  if (c == '`' && info.find('`') != std::string_view::npos) return false;
  fence = {c, n, info};
  return true;
}
bool closes(std::string_view line, const Fence& fence) {
  Fence other;
  return opens(line, other) && other.c == fence.c && other.length >= fence.length &&
         other.info.empty();
}

// A file name in a fence's info string.
std::string name_in_info(std::string_view info) {
  std::string out;
  std::size_t at = 0;
  while (at < info.size() && out.empty()) {
    const std::size_t end = std::min(info.find_first_of(" \t:={}\"", at), info.size());
    const auto word = info.substr(at, end - at);
    if (is_file_name(word)) out = word;
    at = end + 1;
  }
  return out;
}

// A file name that is all of a line: "### halo.cuh", "**File: `halo.cuh`**", "// halo.cuh".
std::string name_in_line(std::string_view line) {
  if (line.size() > 200) return {};
  const auto strip = [&] {
    line = trim(line);
    while (!line.empty() && std::string_view("#*`:/ ").find(line[0]) != std::string_view::npos)
      line.remove_prefix(1);
    while (!line.empty() && std::string_view("*`:").find(line.back()) != std::string_view::npos)
      line.remove_suffix(1);
    line = trim(line);
  };
  strip();
  for (const std::string_view word : {"File:", "file:", "File", "file", "FILE:"}) {
    if (line.starts_with(word)) {
      line.remove_prefix(word.size());
      strip();
      break;
    }
  }
  return is_file_name(line) ? std::string(line) : std::string();
}

bool is_directive(std::string_view text) {
  text = trim(text);
  return text.starts_with('{') && text.ends_with('}') && text.size() <= kMaxDirective &&
         (text.find("\"backend\"") != std::string_view::npos ||
          text.find("\"directive\"") != std::string_view::npos);
}

class Parser {
 public:
  explicit Parser(std::vector<std::string_view> lines) : lines_(std::move(lines)) {}

  Result<ModelAnswer> run() {
    std::string file;  // named by the last line that was a name alone
    while (at_ < lines_.size()) {
      const auto line = lines_[at_];
      Fence fence;
      if (opens(line, fence)) {
        if (auto ok = take_fence(fence, file); !ok) return fail(ok.error());
        file.clear();
        continue;
      }
      const Mark mark = mark_of(line);
      if (mark == Mark::kSearch) {
        if (auto ok = take_block(file, lines_.size()); !ok) return fail(ok.error());
        continue;
      }
      // A line of = alone is a heading of Markdown.
      if (mark == Mark::kReplace) {
        return fail(bad_source("answer", number(),
                               ">>>>>>> REPLACE without <<<<<<< SEARCH before it",
                               "write SEARCH, =======, REPLACE in this order"));
      }
      if (auto name = name_in_line(line); !name.empty()) file = std::move(name);
      else if (!trim(line).empty()) file.clear();
      prose(line);
      ++at_;
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] int number() const { return static_cast<int>(at_) + 1; }

  void prose(std::string_view line) {
    if (out_.prose.size() + line.size() + 1 > kMaxProse) return;
    if (line.empty() && (out_.prose.empty() || out_.prose.ends_with("\n\n"))) return;
    (out_.prose += line) += '\n';
  }

  Status add(Edit edit) {
    if (out_.edits.size() >= kMaxEdits)
      return fail(bad_source("answer", edit.line, fmt::format("more than {} changes", kMaxEdits),
                             "send the whole file instead"));
    out_.edits.push_back(std::move(edit));
    return {};
  }

  // At <<<<<<< SEARCH; the block must end before line `end`.
  Status take_block(const std::string& file, std::size_t end) {
    Edit edit;
    edit.file = file;
    edit.line = number();
    const int first = edit.line;
    bool replacing = false;
    for (++at_; at_ < end; ++at_) {
      const auto line = lines_[at_];
      switch (mark_of(line)) {
        case Mark::kSearch:
          return fail(
              bad_source("answer", number(),
                         fmt::format("a second <<<<<<< SEARCH within the block of line {}", first),
                         "end each block with >>>>>>> REPLACE before the next one"));
        case Mark::kMiddle:
          if (replacing)
            return fail(
                bad_source("answer", number(),
                           fmt::format("a second ======= within the block of line {}", first),
                           "leave lines of = alone out of the code"));
          replacing = true;
          continue;
        case Mark::kReplace:
          if (!replacing)
            return fail(bad_source("answer", number(),
                                   fmt::format("the block of line {} has no ======= line", first),
                                   "write SEARCH, =======, REPLACE in this order"));
          ++at_;
          return add(std::move(edit));
        case Mark::kNone: break;
      }
      ((replacing ? edit.text : edit.search) += line) += '\n';
    }
    return fail(bad_source("answer", first, "half an answer: a block without >>>>>>> REPLACE",
                           "answer again, in whole, and shorter"));
  }

  Status take_fence(const Fence& fence, const std::string& named) {
    const int first = number();
    std::string file = name_in_info(fence.info);
    if (file.empty()) file = named;
    const std::size_t begin = ++at_;
    std::size_t end = begin;
    bool blocks = false;
    int open = 0;
    // Within a search/replace block a fence's end does not count: code may hold one.
    for (; end < lines_.size(); ++end) {
      const auto line = lines_[end];
      const Mark mark = mark_of(line);
      if (mark == Mark::kSearch) {
        blocks = true;
        open = 1;
      } else if (mark == Mark::kReplace) {
        open = 0;
      }
      if (open == 0 && closes(line, fence)) break;
    }
    if (end == lines_.size()) {
      return fail(bad_source("answer", first,
                             open > 0 ? "half an answer: a block without >>>>>>> REPLACE"
                                      : "half an answer: a code fence without an end",
                             "answer again, in whole, and shorter"));
    }
    if (blocks) {
      while (at_ < end) {
        const auto line = lines_[at_];
        if (mark_of(line) == Mark::kSearch) {
          if (auto ok = take_block(file, end); !ok) return ok;
          continue;
        }
        if (mark_of(line) == Mark::kReplace) {
          return fail(bad_source("answer", number(),
                                 ">>>>>>> REPLACE without <<<<<<< SEARCH before it",
                                 "write SEARCH, =======, REPLACE in this order"));
        }
        if (auto name = name_in_line(line); !name.empty()) file = std::move(name);
        ++at_;
      }
      at_ = end + 1;
      return {};
    }
    std::string text;
    for (std::size_t i = begin; i < end; ++i) (text += lines_[i]) += '\n';
    at_ = end + 1;
    const std::string language = to_lower(fence.info.substr(0, fence.info.find_first_of(" \t{:")));
    if (language == "json" || (language.empty() && is_directive(text))) {
      if (!out_.directive.empty() && is_directive(text)) {
        return fail(bad_source(
            "answer", first,
            fmt::format("a second directive, the first is at line {}", out_.directive_line),
            "give one directive"));
      }
      if (is_directive(text)) {
        out_.directive = trim(text);
        out_.directive_line = first;
      }
      return {};
    }
    // A shell command or a diagram is no code of the candidate.
    if (file.empty() && (language == "text" || language == "sh" || language == "bash" ||
                         language == "console" || language == "markdown"))
      return {};
    if (trim(text).empty()) return {};
    Edit edit;
    edit.kind = Edit::Kind::kRewrite;
    edit.file = std::move(file);
    edit.line = first;
    edit.text = std::move(text);
    return add(std::move(edit));
  }

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  ModelAnswer out_;
};

}  // namespace

Result<ModelAnswer> parse_answer(std::string_view answer) {
  if (answer.size() > kMaxAnswerBytes) {
    return fail(bad_source("answer", 0,
                           fmt::format("{} long, at most {} are read", bytes_text(answer.size()),
                                       bytes_text(kMaxAnswerBytes)),
                           "answer shorter"));
  }
  if (const auto zero = answer.find('\0'); zero != std::string_view::npos) {
    const auto line =
        1 + std::count(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(zero), '\n');
    return fail(bad_source("answer", static_cast<int>(line), "a NUL byte", "answer in text"));
  }
  // What a model thought before it answered is blanked, so that lines keep their numbers.
  std::string kept;
  if (const auto begin = answer.find_first_not_of(" \t\r\n");
      begin != std::string_view::npos && answer.substr(begin).starts_with("<think>")) {
    const auto end = answer.find("</think>", begin);
    if (end == std::string_view::npos)
      return fail(bad_source("answer", 1, "half an answer: <think> without an end",
                             "answer again, and shorter"));
    kept.assign(static_cast<std::size_t>(std::count(
                    answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
                '\n');
    kept += answer.substr(end + 8);
    answer = kept;
  }
  // A bare object first: the directive of a model that leaves fences out.
  std::string directive, rest;
  int directive_line = 0;
  if (const auto begin = answer.find_first_not_of(" \t\r\n");
      begin != std::string_view::npos && answer[begin] == '{') {
    const auto length = json_end(answer.substr(begin), "{", "}", kMaxDirective);
    if (length != std::string_view::npos && is_directive(answer.substr(begin, length))) {
      directive = answer.substr(begin, length);
      const auto lines = [&](std::size_t to) {
        return static_cast<std::size_t>(
            std::count(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
      };
      directive_line = static_cast<int>(lines(begin)) + 1;
      rest.assign(lines(begin + length), '\n');
      rest += answer.substr(begin + length);
      answer = rest;
    }
  }
  auto out = Parser(lines_of(answer)).run();
  if (!out) return out;
  if (!directive.empty()) {
    if (!out->directive.empty())
      return fail(
          bad_source("answer", out->directive_line,
                     fmt::format("a second directive, the first is at line {}", directive_line),
                     "give one directive"));
    out->directive = std::move(directive);
    out->directive_line = directive_line;
  }
  return out;
}

}  // namespace sculler::source
