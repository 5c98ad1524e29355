#include "search/best.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::search {

std::string Elite::confirmation() const {
  if (!confirmed) return ", not confirmed";
  return verdict.status == "AMBIGUOUS" ? ", confirmed on fresh seeds as right, its speed undecided"
                                       : ", confirmed on fresh seeds";
}

namespace {

std::string readme(const Summary& summary, const BestContext& context) {
  const Elite& best = *summary.best;
  const Verdict& v = best.verdict;
  const auto& source = *best.candidate.source;
  std::string out = fmt::format("# {} for {}\n\n", best.candidate.label(), context.task);
  const bool predicted = v.latency_kind == "predicted";
  if (v.latency_us) {
    out += fmt::format(
        "{} {}{} at size {}{}.\n", microseconds_text(*v.latency_us),
        predicted ? "predicted" : "measured",
        v.latency_low_us && v.latency_high_us && !predicted
            ? fmt::format(" (95 % interval {} to {})", microseconds_text(*v.latency_low_us),
                          microseconds_text(*v.latency_high_us))
            : std::string(),
        v.latency_size.empty() ? context.size : v.latency_size,
        predicted && !best.measured ? ", not measured: no GPU took part" : "");
  }
  if (v.percent_sol)
    out += fmt::format("{:.0f} % of the speed of light at nominal rates", *v.percent_sol);
  if (v.percent_sol && v.percent_contended_sol)
    out += fmt::format(", {:.0f} % of the contended one", *v.percent_contended_sol);
  if (v.percent_sol) out += ".\n";
  if (best.measured) out += "\n" + measured_text(*best.measured, context.batch_profile) + ".\n";
  if (!best.ratio.empty()) {
    out += "\n| baseline | its time / this time |\n|---|---|\n";
    for (const auto& [name, ratio] : best.ratio) {
      const auto interval = v.ratio_interval.find(name);
      out += interval == v.ratio_interval.end()
                 ? fmt::format("| {} | {:.2f} |\n", name, ratio)
                 : fmt::format("| {} | {:.2f} ({:.2f} to {:.2f}) |\n", name, ratio,
                               interval->second.first, interval->second.second);
    }
  }
  out +=
      fmt::format("\n- target {}{}{}\n- status {}{}\n- containment {}\n", context.target,
                  context.profile.empty() ? "" : ", hardware profile ", context.profile, v.status,
                  best.confirmation(), v.containment.empty() ? "not said" : v.containment);
  if (v.recorded)
    out += "- recorded: the verdict is a cassette's, nothing was evaluated in this run\n";
  if (source.has_directive) {
    out += fmt::format("- directive {}", directive::print(source.directive));
    if (!source.directive.why.empty()) out += ": " + source.directive.why;
    out += "\n";
  }
  if (!best.candidate.defines.empty())
    out += fmt::format("- tunables {} (defines.json)\n", source::print(best.candidate.defines));
  out += fmt::format("- source {}, SHA-256 {}\n\nEvaluate it again:\n\n```\n{}\n```\n",
                     source.file_name, source.sha256, context.commands);
  return out;
}

}  // namespace

std::string measured_text(const Verdict& v, const std::string& profile) {
  std::string out;
  if (v.latency_us) {
    out = microseconds_text(*v.latency_us);
    if (v.latency_low_us && v.latency_high_us)
      out += fmt::format(" ({} to {})", microseconds_text(*v.latency_low_us),
                         microseconds_text(*v.latency_high_us));
    out += " ";
  }
  out += fmt::format("measured on {}", profile);
  for (const auto& [name, ratio] : v.ratio) {
    const auto interval = v.ratio_interval.find(name);
    out += fmt::format(
        ", {:.3f}{} times as fast as {}", ratio,
        interval == v.ratio_interval.end()
            ? std::string()
            : fmt::format(" ({:.3f} to {:.3f})", interval->second.first, interval->second.second),
        name);
  }
  return out;
}

Status write_best(Files& files, const std::string& folder, const Summary& summary,
                  const BestContext& context) {
  if (!summary.best) return fail(ErrorCode::kInternal, "there is no best candidate to write");
  const Elite& best = *summary.best;
  if (auto ok = files.mkdirs(folder); !ok) return ok;
  nlohmann::json defines = nlohmann::json::object();
  for (const auto& [name, value] : best.candidate.defines) defines[name] = value;
  auto verdict = parse_json(best.verdict_text, "verdict");
  if (!verdict) return fail(verdict.error());
  std::vector<std::pair<std::string, std::string>> all = {
      {"directive.json", pretty_json(best.candidate.source->has_directive
                                         ? directive::to_json(best.candidate.source->directive)
                                         : nlohmann::json::object()) +
                             "\n"},
      {"defines.json", pretty_json(defines) + "\n"},
      {"verdict.json", pretty_json(*verdict) + "\n"},
      {"README.md", readme(summary, context)}};
  if (best.measured) {
    auto measured = parse_json(best.measured_text, "measured verdict");
    if (!measured) return fail(measured.error());
    all.emplace_back("measured.json", pretty_json(*measured) + "\n");
  }
  for (const auto& file : best.candidate.source->files) all.emplace_back(file.name, file.text);
  for (const auto& [name, text] : all) {
    if (auto ok = files.write_atomic(join_path(folder, name), text); !ok) return ok;
  }
  return {};
}

}  // namespace sculler::search
