// What the lints of all languages check.
#include <fmt/format.h>

#include "base/strings.h"
#include "source/blocks.h"
#include "source/lint_internal.h"
#include "source/tunables.h"

namespace sculler::source {

void Report::add(const Error& error, std::string rule) {
  const auto colon = error.file.rfind(':');
  const auto line = colon == std::string::npos
                        ? std::optional<int64_t>()
                        : parse_int(std::string_view(error.file).substr(colon + 1));
  add(static_cast<int>(line.value_or(0)), std::move(rule),
      error.key.empty() ? error.message : fmt::format("{}: {}", error.key, error.message),
      error.cure);
}

bool lint_blocks(std::string_view text, std::string_view origin, bool baseline,
                 std::string_view parent, Report& report) {
  auto blocks = baseline ? find_blocks(text, origin) : need_blocks(text, origin);
  if (!blocks) {
    report.add(blocks.error(), "evolve-block");
    return false;
  }
  if (parent.empty()) return true;
  if (const int line = first_frozen_difference(text, parent); line > 0) {
    report.add(line, "frozen-text", "text outside the evolve blocks differs from the parent's",
               "restore it and change only what lies between the markers");
  }
  return true;
}

void lint_tunables(std::string_view text, std::string_view origin, const Defines& defines,
                   Report& report) {
  auto found = find_tunables(text, origin);
  if (!found) return report.add(found.error(), "tunable");
  if (auto ok = check_defines(*found, defines, origin); !ok) report.add(ok.error(), "tunable");
}

}  // namespace sculler::source
