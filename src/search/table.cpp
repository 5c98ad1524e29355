#include "search/table.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace sculler::search {
namespace {

constexpr std::size_t kLabel = 30, kDirective = 34, kProposer = 24;

std::string padded(std::string_view text, std::size_t width) {
  std::string out = shorten(printable(text), width);
  out.append(width - display_width(out), ' ');
  return out;
}
std::string right(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  return (columns < width ? std::string(width - columns, ' ') : std::string()) + std::string(text);
}
std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string table_head(std::string_view kind, std::string_view baseline, bool with_proposer) {
  return without_trailing_blanks(
      fmt::format("{}  {}  {}{}  {}  {}  {}  {}", right("#", 4), padded("candidate", kLabel),
                  with_proposer ? padded("proposed by", kProposer) + "  " : std::string(),
                  padded("directive", kDirective), padded("status", 13), right(kind, 10),
                  right(fmt::format("vs {}", baseline), 10), right("% of SOL", 8)));
}

std::string table_row(const Row& row) {
  const Verdict& v = *row.verdict;
  std::string out =
      fmt::format("{}  {}  {}{}  {}", right(row.number > 0 ? std::to_string(row.number) : "–", 4),
                  padded(row.label, kLabel),
                  row.with_proposer ? padded(row.proposed_by, kProposer) + "  " : std::string(),
                  padded(row.directive, kDirective), padded(v.status, 13));
  if (!v.right()) {
    std::string text;
    if (v.rank >= 0) text += fmt::format("rank {}, ", v.rank);
    if (!v.where.empty() && v.message.find(v.where) == std::string::npos) text += v.where + ": ";
    text += v.message;
    return without_trailing_blanks(out + "  " + printable(shorten(text, 200)));
  }
  out += "  " + right(v.latency_us ? microseconds_text(*v.latency_us) : "–", 10);
  out += "  " + right(row.ratio ? fmt::format("{:.2f}", *row.ratio) : "–", 10);
  out += "  " + right(v.percent_sol ? fmt::format("{:.0f}", *v.percent_sol) : "–", 8);
  return out;
}

std::string tally_text(const Tally& t, bool with_best) {
  std::string out;
  if (with_best && t.best_us)
    out += fmt::format("best {} {}; ", t.best, microseconds_text(*t.best_us));
  out += t.budget > 0 ? fmt::format("{} of {} evaluated, {} passed, {}", t.evaluated, t.budget,
                                    t.passed, duration_text(t.seconds))
                      : fmt::format("{} evaluated, {} passed, {}", t.evaluated, t.passed,
                                    duration_text(t.seconds));
  if (t.budget > t.evaluated && t.evaluated > 0) {
    const double each = t.seconds / static_cast<double>(t.evaluated);
    out += fmt::format(", about {} left",
                       duration_text(each * static_cast<double>(t.budget - t.evaluated)));
  }
  return out + fmt::format(", ${:.2f}", t.usd);
}

}  // namespace sculler::search
