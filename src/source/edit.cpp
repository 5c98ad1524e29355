#include "source/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "source/bad_source.h"
#include "source/blocks.h"
#include "source/edit_lines.h"
#include "source/token.h"

namespace sculler::source {
namespace {

// Steps of comparing lines that one answer may cost.
constexpr uint64_t kMaxWork = 100'000'000;

std::string quoted(std::string_view line) { return "\"" + printable(shorten(line, 100)) + "\""; }

std::string_view without_trailing_blanks(std::string_view line) {
  const auto last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

std::size_t directive_begin(std::string_view text, std::size_t& end) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    auto line = trim(text.substr(at, newline - at));
    if (line.starts_with("//") && trim(line.substr(2)).starts_with("sculler:directive")) {
      end = newline;
      if (end > at && text[end - 1] == '\r') --end;
      return at;
    }
    at = newline + 1;
  }
  return std::string_view::npos;
}

// `text` with the directive line that `like` has, so that only other differences count.
std::string directive_of(std::string_view text, std::string_view like) {
  std::size_t end = 0, like_end = 0;
  const auto at = directive_begin(text, end), like_at = directive_begin(like, like_end);
  std::string out(text);
  if (at == std::string_view::npos) {
    // Left out on the first line, as models do.
    if (like_at == 0) out.insert(0, like.substr(0, std::min(like_end + 1, like.size())));
    return out;
  }
  if (like_at != std::string_view::npos)
    out.replace(at, end - at, like.substr(like_at, like_end - like_at));
  return out;
}

// One file while changes are applied.
class Target {
 public:
  Target(const File& file, Scope scope) : file_(file), scope_(scope), lines_(file.text) {}

  Status init() {
    auto found = find_blocks(file_.text, file_.name);
    if (!found) return fail(found.error());
    had_blocks_ = !found->blocks.empty();
    frozen_ = found->frozen_sha256;
    mark_editable(*found);
    return {};
  }
  Status replace(const Edit& edit, uint64_t& work);
  Status rewrite(const Edit& edit);
  Status finish(int line);
  [[nodiscard]] File take() { return {file_.name, lines_.text()}; }
  [[nodiscard]] const std::string& name() const { return file_.name; }

 private:
  void mark_editable(const Blocks& blocks);
  [[nodiscard]] bool may_change(std::size_t line) const;
  [[nodiscard]] Error not_found(const Edit& edit,
                                const std::vector<std::string_view>& search) const;
  Status set_text(std::string text, int line);

  const File& file_;
  Scope scope_;
  Lines lines_;
  std::vector<bool> editable_;  // by line; in scope kFile all but the markers
  std::string frozen_;
  bool had_blocks_ = false;
};

void Target::mark_editable(const Blocks& blocks) {
  editable_.assign(lines_.count(), scope_ == Scope::kFile);
  for (const auto& block : blocks.blocks) {
    const auto first = static_cast<std::size_t>(block.first_line),
               last = static_cast<std::size_t>(block.last_line);  // of the markers, from 1
    for (std::size_t i = first; i + 1 < last && i < editable_.size(); ++i) editable_[i] = true;
    // A marker's comment may go over several lines; its first and last are what counts.
    if (first - 1 < editable_.size()) editable_[first - 1] = false;
    if (last - 1 < editable_.size()) editable_[last - 1] = false;
  }
}

bool Target::may_change(std::size_t line) const {
  return line < editable_.size() && editable_[line];
}

Error Target::not_found(const Edit& edit, const std::vector<std::string_view>& search) const {
  const Nearest near = lines_.nearest(search);
  if (near.same == 0) {
    return bad_source(
        "answer", edit.line,
        fmt::format("the text to search is not in {}: no line of it is, it begins with {}", name(),
                    quoted(near.wanted)),
        "copy the lines from the source as it is shown");
  }
  std::string message = fmt::format(
      "the text to search is not in {}; nearest is line {}, where {} of {} lines agree, "
      "but line {} ",
      name(), near.line + 1, near.same, search.size(), near.differs + 1);
  if (near.only_indentation)
    message += fmt::format("has {} blanks before it, not {}", near.has_indent, near.wanted_indent);
  else message += fmt::format("is {}, not {}", quoted(near.has), quoted(near.wanted));
  return bad_source("answer", edit.line, std::move(message),
                    "copy the lines from the source as it is shown");
}

Status Target::replace(const Edit& edit, uint64_t& work) {
  std::vector<std::string_view> search;
  for (auto& line : lines_in(edit.search)) search.push_back(without_trailing_blanks(line));
  // Empty lines around it say nothing about the place, and are often one too many.
  const bool blank =
      std::all_of(search.begin(), search.end(), [](std::string_view line) { return line.empty(); });
  if (blank) {
    return fail(
        bad_source("answer", edit.line, "the text to search is empty",
                   "give the lines that are replaced, or one line and repeat it in the new text"));
  }
  std::vector<std::size_t> found;
  if (!lines_.find(search, found, work, kMaxWork)) {
    return fail(bad_source("answer", edit.line, "the changes are too many for a text of this size",
                           "send the whole file instead"));
  }
  if (found.empty()) return fail(not_found(edit, search));
  std::vector<std::size_t> possible;
  std::size_t frozen_line = 0;
  for (const std::size_t at : found) {
    std::size_t i = 0;
    while (i < search.size() && may_change(at + i)) ++i;
    if (i == search.size()) possible.push_back(at);
    else frozen_line = at + i;
  }
  if (possible.empty()) {
    return fail(
        bad_source("answer", edit.line,
                   fmt::format("line {} of {} is outside the evolve blocks and may not change: {}",
                               frozen_line + 1, name(), quoted(lines_.at(frozen_line))),
                   "change only what lies between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END"));
  }
  if (possible.size() > 1) {
    std::string places;
    for (std::size_t i = 0; i < possible.size() && i < 5; ++i)
      places += fmt::format("{}{}", i > 0 ? ", " : "", possible[i] + 1);
    if (possible.size() > 5) places += ", …";
    return fail(bad_source("answer", edit.line,
                           fmt::format("the text to search occurs {} times in {} (lines {})",
                                       possible.size(), name(), places),
                           "add lines before or after it, so that it is found once"));
  }
  const auto with = lines_in(edit.text);
  lines_.replace(possible[0], search.size(), with);
  editable_.erase(editable_.begin() + static_cast<std::ptrdiff_t>(possible[0]),
                  editable_.begin() + static_cast<std::ptrdiff_t>(possible[0] + search.size()));
  editable_.insert(editable_.begin() + static_cast<std::ptrdiff_t>(possible[0]), with.size(), true);
  return {};
}

Status Target::set_text(std::string text, int line) {
  if (text.size() > kMaxSourceBytes) {
    return fail(bad_source("answer", line,
                           fmt::format("{} would be {} long, at most {} are taken", name(),
                                       bytes_text(text.size()), bytes_text(kMaxSourceBytes)),
                           "write less"));
  }
  Lines lines(text);
  lines.take_ends_of(lines_);
  auto found = find_blocks(lines.text(), name());
  if (!found) {
    Error error = found.error();
    error.message += fmt::format(" (in {})", error.file);
    error.file = fmt::format("answer:{}", line);
    return fail(std::move(error));
  }
  lines_ = std::move(lines);
  mark_editable(*found);
  return {};
}

Status Target::rewrite(const Edit& edit) {
  const std::string old = lines_.text();
  const std::string text =
      directive_of(Lines::with_plain_ends(edit.text), Lines::with_plain_ends(old));
  auto ours = find_blocks(text, name());
  if (!ours) {
    Error error = ours.error();
    error.message += fmt::format(" (in the new {})", error.file);
    error.file = fmt::format("answer:{}", edit.line);
    return fail(std::move(error));
  }
  auto theirs = find_blocks(old, name());
  if (!theirs) return fail(theirs.error());
  std::vector<std::string> inner;
  if (!ours->blocks.empty()) {
    bool only_blocks = ours->blocks.size() == theirs->blocks.size();
    std::size_t at = 0;
    std::string frozen;
    for (const auto& block : ours->blocks) {
      frozen.append(text, at, block.begin - at);
      frozen += '\n';
      at = block.end;
      inner.push_back(text.substr(block.begin, block.end - block.begin));
    }
    frozen.append(text, at);
    for (const auto line : split(frozen, '\n')) {
      const auto word = trim(line);
      only_blocks =
          only_blocks && (word.empty() || word.find("EVOLVE-BLOCK-") != std::string_view::npos ||
                          word.starts_with("// sculler:directive"));
    }
    if (!only_blocks) {
      if (scope_ == Scope::kFile) return set_text(text, edit.line);
      Lines comparable(text);
      comparable.take_ends_of(lines_);
      const std::string whole = comparable.text();
      const int line = first_frozen_difference(whole, old);
      if (line == 0) return set_text(whole, edit.line);
      const auto& at_line = static_cast<std::size_t>(line - 1);
      return fail(bad_source(
          "answer", edit.line,
          fmt::format(
              "the new {} changes text outside the evolve blocks, first at its "
              "line {}: {}",
              name(), line,
              quoted(at_line < comparable.count() ? comparable.at(at_line) : std::string_view())),
          "repeat that text exactly, or send the evolve blocks alone with their markers"));
    }
  } else {
    if (scope_ == Scope::kFile && !had_blocks_) return set_text(text, edit.line);
    for (const char* entry : {"sculler_setup", "sculler_run", "sculler_teardown"}) {
      const bool mine = text.find(entry) != std::string::npos;
      std::string outside;
      std::size_t at = 0;
      for (const auto& block : theirs->blocks) {
        outside.append(old, at, block.begin - at);
        at = block.end;
      }
      outside.append(old, at);
      if (mine && outside.find(entry) != std::string::npos) {
        return fail(
            bad_source("answer", edit.line,
                       fmt::format("the new {} has no evolve blocks, but holds {}, which stands "
                                   "outside of them",
                                   name(), entry),
                       "repeat the lines with EVOLVE-BLOCK-START and EVOLVE-BLOCK-END"));
      }
    }
    if (theirs->blocks.size() != 1) {
      return fail(bad_source("answer", edit.line,
                             fmt::format("the new {} has no evolve blocks, {} has {}", name(),
                                         name(), theirs->blocks.size()),
                             "repeat the lines with EVOLVE-BLOCK-START and EVOLVE-BLOCK-END"));
    }
    inner.push_back(text);
    std::size_t end = 0, old_end = 0;
    if (directive_begin(inner[0], end) == 0 &&
        directive_begin(old, old_end) < theirs->blocks[0].begin) {
      // The directive's line belongs on top of the file.
      inner[0].erase(0, std::min(end + 1, inner[0].size()));
    }
  }
  auto changed = replace_blocks(Lines::with_plain_ends(old), inner, name());
  if (!changed) {
    Error error = changed.error();
    error.file = fmt::format("answer:{}", edit.line);
    return fail(std::move(error));
  }
  return set_text(std::move(*changed), edit.line);
}

Status Target::finish(int line) {
  const std::string text = lines_.text();
  if (text.size() > kMaxSourceBytes) return set_text(text, line);  // gives the error
  auto found = find_blocks(text, name());
  const bool kept = found && (scope_ == Scope::kFile ? !had_blocks_ || !found->blocks.empty()
                                                     : found->frozen_sha256 == frozen_);
  if (!kept) {
    return fail(
        bad_source("answer", line,
                   fmt::format("the new text of {} changes where evolve blocks begin or end{}",
                               name(), found ? std::string() : ": " + found.error().message),
                   "leave markers, comments and quotes balanced, and write no marker"));
  }
  return {};
}

}  // namespace

Result<std::vector<File>> apply(const std::vector<File>& files, const std::vector<Edit>& edits,
                                Scope scope) {
  if (files.empty()) return fail(bad_source("answer", 0, "there is no file to change", {}));
  if (edits.empty())
    return fail(bad_source("answer", 0, "the answer holds no change",
                           "write search/replace blocks or a fenced whole text"));
  if (edits.size() > kMaxEdits)
    return fail(bad_source("answer", 0, fmt::format("more than {} changes", kMaxEdits),
                           "send the whole file"));
  std::vector<std::unique_ptr<Target>> targets;
  std::vector<File> added;
  std::vector<const Edit*> last(files.size(), nullptr);  // of each file
  for (const auto& file : files) {
    targets.push_back(std::make_unique<Target>(file, scope));
    if (auto ok = targets.back()->init(); !ok) return fail(ok.error());
  }
  uint64_t work = 0;
  for (const auto& edit : edits) {
    const std::string& name = edit.file.empty() ? files[0].name : edit.file;
    const auto at = std::find_if(files.begin(), files.end(),
                                 [&](const File& file) { return file.name == name; });
    if (at == files.end()) {
      std::vector<std::string> names;
      for (const auto& file : files) names.push_back(file.name);
      // A further source would not be compiled: a wrong name for the first file, most likely.
      const bool header = name.ends_with(".h") || name.ends_with(".cuh") ||
                          name.ends_with(".hpp") || name.ends_with(".inc");
      if (edit.kind == Edit::Kind::kReplace || !header || !is_file_name(name)) {
        return fail(bad_source(
            "answer", edit.line, fmt::format("there is no file {}", printable(shorten(name, 60))),
            fmt::format("the files are {}; a new one must be a header", join(names, ", "))));
      }
      if (files.size() + added.size() >= kMaxFiles)
        return fail(bad_source("answer", edit.line, fmt::format("more than {} files", kMaxFiles),
                               "use fewer"));
      const auto twice = std::find_if(added.begin(), added.end(),
                                      [&](const File& file) { return file.name == name; });
      if (twice != added.end())
        return fail(bad_source("answer", edit.line, fmt::format("{} is written twice", name),
                               "write it once"));
      if (edit.text.size() > kMaxSourceBytes)
        return fail(
            bad_source("answer", edit.line, fmt::format("{} is too large", name), "write less"));
      added.push_back({name, edit.text});
      continue;
    }
    const auto index = static_cast<std::size_t>(at - files.begin());
    last[index] = &edit;
    auto done = edit.kind == Edit::Kind::kReplace ? targets[index]->replace(edit, work)
                                                  : targets[index]->rewrite(edit);
    if (!done) return fail(done.error());
  }
  std::vector<File> out;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (last[i] != nullptr) {
      if (auto ok = targets[i]->finish(last[i]->line); !ok) return fail(ok.error());
    }
    out.push_back(targets[i]->take());
  }
  for (auto& file : added) out.push_back(std::move(file));
  return out;
}

std::string with_directive(std::string_view text, std::string_view json) {
  const std::string line = fmt::format("// sculler:directive {}", json);
  std::size_t end = 0;
  const auto at = directive_begin(text, end);
  std::string out(text);
  if (at == std::string_view::npos) {
    const auto newline = text.find('\n');
    const bool crlf = newline != std::string_view::npos && newline > 0 && text[newline - 1] == '\r';
    return line + (crlf ? "\r\n" : "\n") + out;
  }
  out.replace(at, end - at, line);
  return out;
}

uint64_t different_blocks(std::string_view a, std::string_view other) {
  const std::string b = directive_of(other, a);
  auto first = find_blocks(a, "a"), second = find_blocks(b, "b");
  if (!first || !second || first->frozen_sha256 != second->frozen_sha256) return 0;
  uint64_t out = 0;
  for (std::size_t i = 0; i < first->blocks.size() && i < 64; ++i) {
    const auto &x = first->blocks[i], &y = second->blocks[i];
    if (a.substr(x.begin, x.end - x.begin) != std::string_view(b).substr(y.begin, y.end - y.begin))
      out |= uint64_t{1} << i;
  }
  return out;
}

Result<std::string> cross_blocks(std::string_view a, std::string_view other, uint64_t mask) {
  const std::string b = directive_of(other, a);
  auto first = need_blocks(a, "first parent"), second = need_blocks(b, "second parent");
  if (!first) return fail(first.error());
  if (!second) return fail(second.error());
  if (first->frozen_sha256 != second->frozen_sha256)
    return fail(Error{ErrorCode::kBadSource,
                      "the parents differ outside their evolve blocks",
                      "crossover",
                      {},
                      "cross programs of one seed"});
  std::vector<std::string> inner;
  for (std::size_t i = 0; i < first->blocks.size(); ++i) {
    const bool from_b = i < 64 && ((mask >> i) & 1) != 0;
    const auto& block = from_b ? second->blocks[i] : first->blocks[i];
    inner.emplace_back(
        (from_b ? std::string_view(b) : a).substr(block.begin, block.end - block.begin));
  }
  return replace_blocks(a, inner, "crossover");
}

}  // namespace sculler::source
