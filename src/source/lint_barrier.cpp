#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/strings.h"
#include "source/lint_internal.h"

namespace sculler::source {
namespace {

using Constants = std::map<std::string, int64_t, std::less<>>;

std::optional<int64_t> number(std::string_view text) {
  while (!text.empty() && std::string_view("uUlLzZ").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  return parse_int(text);
}

// A lone literal, or a lone name with a known value.
std::optional<int64_t> constant(const std::vector<Token>& code, std::size_t begin, std::size_t end,
                                const Constants& known) {
  if (end != begin + 1) return std::nullopt;
  if (code[begin].kind == TokenKind::kNumber) return number(code[begin].text);
  const auto found = known.find(code[begin].text);
  return found == known.end() ? std::nullopt : std::optional<int64_t>(found->second);
}

// #define NAME 3, constexpr int NAME = 3, and the tunables' values.
Constants constants_of(const std::vector<Token>& code, const Defines& defines) {
  Constants out;
  for (std::size_t i = 0; i + 2 < code.size(); ++i) {
    if (code[i].in_directive && code[i].text == "define" &&
        code[i + 2].kind == TokenKind::kNumber && code[i + 2].line == code[i].line &&
        (i + 3 >= code.size() || code[i + 3].line != code[i].line)) {
      if (const auto value = number(code[i + 2].text)) out[code[i + 1].text] = *value;
    }
    if (code[i].kind == TokenKind::kIdentifier && code[i + 1].text == "=" &&
        code[i + 2].kind == TokenKind::kNumber && i + 3 < code.size() && code[i + 3].text == ";" &&
        i >= 2 && (code[i - 1].kind == TokenKind::kIdentifier) &&
        (code[i - 2].text == "constexpr" || code[i - 2].text == "const")) {
      if (const auto value = number(code[i + 2].text)) out[code[i].text] = *value;
    }
  }
  for (const auto& [name, value] : defines) {
    if (const auto parsed = parse_int(value)) out[name] = *parsed;
  }
  return out;
}

// Arguments between the brackets that open at `open`: [begin, end) of each, at the top level of
// nesting.
std::vector<std::pair<std::size_t, std::size_t>> arguments(const std::vector<Token>& code,
                                                           std::size_t open) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t i = open; i < code.size() && i < open + 4096; ++i) {
    const std::string& text = code[i].text;
    if (code[i].kind != TokenKind::kPunctuator) continue;
    if (text == "(" || text == "{" || text == "[") ++depth;
    if (text == ")" || text == "}" || text == "]") {
      if (--depth == 0) {
        if (i > begin) out.emplace_back(begin, i);
        return out;
      }
    }
    if (text == "," && depth == 1) {
      out.emplace_back(begin, i);
      begin = i + 1;
    }
  }
  return {};
}

}  // namespace

void lint_barriers(const std::vector<Token>& code, const LintOptions& options, Report& report) {
  const Constants known = constants_of(code, options.defines);
  // reqs.lsaBarrierCount = N; the largest constant counts, and one that is no constant ends the
  // check.
  std::map<std::string, std::optional<int64_t>> counts;
  for (std::size_t i = 1; i + 2 < code.size(); ++i) {
    const std::string& name = code[i].text;
    if ((name != "lsaBarrierCount" && name != "barrierCount" && name != "ginSignalCount") ||
        code[i + 1].text != "=" || code[i + 2].text == "=")
      continue;
    std::size_t end = i + 2;
    while (end < code.size() && code[end].text != ";" && code[end].text != ",") ++end;
    const auto value = constant(code, i + 2, end, known);
    const auto old = counts.find(name);
    if (old == counts.end()) counts[name] = value;
    else
      old->second = old->second && value ? std::optional<int64_t>(std::max(*old->second, *value))
                                         : std::nullopt;
  }
  const auto check = [&](const char* what, const char* field, std::size_t begin, std::size_t end,
                         int line) {
    const auto count = counts.find(field);
    const auto index = constant(code, begin, end, known);
    if (!index) return;
    if (*index < 0 || (count != counts.end() && count->second && *index >= *count->second)) {
      report.add(line, "barrier-index",
                 count == counts.end() || !count->second
                     ? fmt::format("{} index {} is negative", what, *index)
                     : fmt::format("{} index {}, but {} = {}", what, *index, field, *count->second),
                 fmt::format("raise {} or lower the index", field));
    }
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].kind != TokenKind::kIdentifier) continue;
    // ncclLsaBarrierSession<Coop> bar{coop, comm, team, index}: the index is the last constant
    // argument of four or more.
    if (code[i].text == "ncclLsaBarrierSession") {
      std::size_t open = i + 1;
      while (open < code.size() && open < i + 32 && code[open].text != "(" &&
             code[open].text != "{" && code[open].text != ";")
        ++open;
      if (open >= code.size() || (code[open].text != "(" && code[open].text != "{")) continue;
      const auto args = arguments(code, open);
      // The fifth argument asks for multimem.
      if (!options.multicast && args.size() >= 5 && code[args[4].first].text == "true") {
        report.add(code[i].line, "multicast",
                   "a barrier over multimem: the hardware profile forbids multicast",
                   "leave the argument out");
      }
      if (args.size() >= 4)
        check("barrier", "lsaBarrierCount", args[3].first, args[3].second, code[i].line);
    }
    if (code[i].text == "ncclGin_SignalInc" || code[i].text == "ncclGin_SignalAdd") {
      const auto args = i + 1 < code.size() && (code[i + 1].text == "(" || code[i + 1].text == "{")
                            ? arguments(code, i + 1)
                            : std::vector<std::pair<std::size_t, std::size_t>>{};
      if (!args.empty())
        check("signal", "ginSignalCount", args[0].first, args[0].second, code[i].line);
    }
  }
}

}  // namespace sculler::source
