#include "search/evolve/settings.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "directive/directive.h"

namespace sculler::search {
namespace {

Result<std::vector<double>> numbers(std::string_view text, double high) {
  std::vector<double> out;
  for (const auto word : split(text, ',')) {
    const auto value = parse_double(trim(word));
    if (!value || !(*value >= 0 && *value <= high)) {
      return fail(
          ErrorCode::kBadInput,
          fmt::format("\"{}\" is no number from 0 to {:g}", printable(shorten(word, 40)), high),
          "separate numbers by commas");
    }
    out.push_back(*value);
  }
  return out;
}

}  // namespace

Result<Mix> parse_mix(std::string_view text) {
  auto values = numbers(text, 1e6);
  if (!values) return fail(values.error());
  if (values->size() != 3 || (*values)[0] + (*values)[1] + (*values)[2] <= 0) {
    return fail(ErrorCode::kBadInput, "three shares are expected, not all zero",
                "write diff,full,crossover: 0.15,0.70,0.15");
  }
  return Mix{(*values)[0], (*values)[1], (*values)[2]};
}

Result<std::vector<double>> parse_temperatures(std::string_view text) {
  auto values = numbers(text, 2);
  if (values && values->size() > 64)
    return fail(ErrorCode::kBadInput, "more than 64 temperatures", "list fewer");
  return values;
}

Result<std::vector<std::string>> parse_backends(std::string_view text) {
  std::vector<std::string> out;
  if (trim(text).empty()) return out;
  std::vector<std::string> known;
  for (const auto backend : {directive::Backend::kNone, directive::Backend::kLsa,
                             directive::Backend::kGin, directive::Backend::kHybrid})
    known.emplace_back(directive::name(backend));
  for (const auto part : split(text, ',')) {
    const std::string word(trim(part));
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const auto like = nearest(word, known);
      return fail(ErrorCode::kBadInput,
                  fmt::format("\"{}\" is no backend", printable(shorten(word, 40))),
                  like ? fmt::format("did you mean {}?", *like)
                       : fmt::format("use {}, separated by commas", join(known, ", ")));
    }
    out.push_back(word);
  }
  return out;
}

}  // namespace sculler::search
