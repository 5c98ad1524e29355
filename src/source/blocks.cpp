#include "source/blocks.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/strings.h"
#include "source/bad_source.h"
#include "source/hash_lines.h"
#include "source/token.h"

namespace sculler::source {
namespace {

constexpr std::string_view kStart = "EVOLVE-BLOCK-START", kEnd = "EVOLVE-BLOCK-END";

bool marks(std::string_view comment, std::string_view marker) {
  const auto body = trim(comment);
  if (!body.starts_with(marker)) return false;
  // EVOLVE-BLOCK-STARTED is a word, not a marker.
  return body.size() == marker.size() || body[marker.size()] == ' ' ||
         body[marker.size()] == '\t' || body[marker.size()] == ':';
}

std::size_t line_begin(std::string_view text, std::size_t at) {
  const auto newline = text.rfind('\n', at == 0 ? 0 : at - 1);
  return at == 0 || newline == std::string_view::npos ? 0 : newline + 1;
}
std::size_t line_after(std::string_view text, std::size_t at) {
  const auto newline = text.find('\n', at);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

// Comments on lines of their own that may be markers. Where a text has markers behind '#', it is of
// a language with such comments, and those alone count.
struct Comment {
  std::string_view text;
  int line = 0;
  std::size_t begin = 0, end = 0;
};
std::vector<Comment> marker_comments(std::string_view text) {
  std::vector<Comment> out;
  for (const auto& mark : hash_lines(text, "EVOLVE-BLOCK-")) {
    if (marks(mark.body, kStart) || marks(mark.body, kEnd))
      out.push_back({mark.body, mark.line, mark.begin, mark.end});
  }
  if (!out.empty()) return out;
  for (const auto& token : tokenize(text, true)) {
    if (token.kind != TokenKind::kComment || !token.line_start) continue;
    if (marks(token.text, kStart)) out.push_back({kStart, token.line, token.begin, token.end});
    else if (marks(token.text, kEnd)) out.push_back({kEnd, token.line, token.begin, token.end});
  }
  return out;
}

// The frozen pieces in order: before the first block, between, after the last.
std::vector<std::string_view> frozen_pieces(std::string_view text,
                                            const std::vector<Block>& blocks) {
  std::vector<std::string_view> pieces;
  std::size_t at = 0;
  for (const auto& block : blocks) {
    pieces.push_back(text.substr(at, block.begin - at));
    at = block.end;
  }
  pieces.push_back(text.substr(at));
  return pieces;
}

}  // namespace

Result<Blocks> find_blocks(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxSourceBytes) {
    return fail(bad_source(origin, 0,
                           fmt::format("{} of source, at most {} are taken",
                                       bytes_text(text.size()), bytes_text(kMaxSourceBytes)),
                           "shorten it"));
  }
  Blocks out;
  int open_line = 0;
  Block block;
  for (const auto& token : marker_comments(text)) {
    if (marks(token.text, kStart)) {
      if (open_line > 0) {
        return fail(
            bad_source(origin, token.line,
                       fmt::format("{} inside the block that began at line {}", kStart, open_line),
                       fmt::format("end it with // {} first", kEnd)));
      }
      open_line = token.line;
      block = Block{};
      block.first_line = token.line;
      block.begin = line_after(text, token.end);
    } else {
      if (open_line == 0)
        return fail(bad_source(origin, token.line, fmt::format("{} without a start", kEnd),
                               fmt::format("begin it with // {}", kStart)));
      open_line = 0;
      block.last_line = token.line;
      block.end = line_begin(text, token.begin);
      if (block.end < block.begin) {
        return fail(bad_source(origin, token.line, "start and end of an evolve block share a line",
                               "put each marker on a line of its own"));
      }
      out.blocks.push_back(block);
    }
  }
  if (open_line > 0)
    return fail(bad_source(origin, open_line, fmt::format("{} without an end", kStart),
                           fmt::format("end it with // {}", kEnd)));
  Sha256 hash;
  for (const auto piece : frozen_pieces(text, out.blocks)) hash.field(piece);
  out.frozen_sha256 = hash.hex();
  return out;
}

Result<Blocks> need_blocks(std::string_view text, std::string_view origin) {
  auto found = find_blocks(text, origin);
  if (found && found->blocks.empty()) {
    return fail(bad_source(origin, 0, "has no evolve blocks, so nothing in it may change",
                           fmt::format("mark what may change with // {} and // {}", kStart, kEnd)));
  }
  return found;
}

Result<std::string> replace_blocks(std::string_view text, const std::vector<std::string>& inner,
                                   std::string_view origin) {
  auto found = need_blocks(text, origin);
  if (!found) return fail(found.error());
  if (inner.size() != found->blocks.size()) {
    return fail(bad_source(
        origin, 0, fmt::format("{} texts for {} evolve blocks", inner.size(), found->blocks.size()),
        "give one text a block"));
  }
  const auto pieces = frozen_pieces(text, found->blocks);
  std::string out;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    out += pieces[i];
    out += inner[i];
    if (!inner[i].empty() && inner[i].back() != '\n') out += '\n';
  }
  out += pieces.back();
  // A new text may hold markers, or open a comment or string that swallows the frozen text after
  // it.
  auto check = find_blocks(out, origin);
  if (!check) return fail(check.error());
  if (check->frozen_sha256 != found->frozen_sha256) {
    return fail(bad_source(origin, 0, "the new text changes where evolve blocks begin or end",
                           "leave markers, comments and quotes balanced inside a block"));
  }
  return out;
}

int first_frozen_difference(std::string_view text, std::string_view parent) {
  auto a = find_blocks(text, "candidate"), b = find_blocks(parent, "parent");
  if (!a || !b) return 1;
  if (a->frozen_sha256 == b->frozen_sha256) return 0;
  const auto ours = frozen_pieces(text, a->blocks), theirs = frozen_pieces(parent, b->blocks);
  const auto line_of = [&](const char* at) {
    return 1 + static_cast<int>(std::count(text.data(), at, '\n'));
  };
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (i >= theirs.size()) return line_of(ours[i].data());
    if (ours[i] == theirs[i]) continue;
    std::size_t same = 0;
    while (same < ours[i].size() && same < theirs[i].size() && ours[i][same] == theirs[i][same])
      ++same;
    return line_of(ours[i].data() + same);
  }
  return line_of(text.data() + text.size());
}

}  // namespace sculler::source
