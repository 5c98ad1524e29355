#include "search/verdict.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/status_words.h"
#include "base/strings.h"

namespace sculler::search {
namespace {

std::optional<double> positive(const nlohmann::json& object, std::string_view key) {
  const auto* found = find_member(object, key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  return value;
}

}  // namespace

bool judges_program(std::string_view said) {
  return said != status::kInternal && said != status::kUnsupported;
}

double lowest_ratio(const std::map<std::string, double>& ratios) {
  double out = 0;
  for (const auto& [name, ratio] : ratios) out = out == 0 ? ratio : std::min(out, ratio);
  return out;
}

Result<Verdict> parse_verdict(std::string_view text, std::string_view origin) {
  auto object = parse_json(text, origin, std::size_t{16} << 20, 64);
  if (!object) {
    Error error = object.error();
    error.code = ErrorCode::kProtocol;
    return fail(std::move(error));
  }
  auto version = get_int(*object, "version", origin, 1, 1);
  if (!version) return fail(version.error());
  auto job = get_string(*object, "job", origin);
  if (!job) return fail(job.error());
  auto status = get_string(*object, "status", origin);
  if (!status) return fail(status.error());
  Verdict out;
  out.job = std::move(*job);
  out.status = printable(shorten(*status, 24));
  out.stage = string_or(*object, "stage", "");
  if (const auto* latency = find_member(*object, "latency_us")) {
    out.latency_us = positive(*latency, "median");
    out.latency_low_us = positive(*latency, "low");
    out.latency_high_us = positive(*latency, "high");
    out.latency_kind = string_or(*latency, "kind", "");
    out.latency_size = string_or(*latency, "size", "");
  }
  if (const auto* ratios = find_member(*object, "ratio");
      ratios != nullptr && ratios->is_object()) {
    for (const auto& [name, ratio] : ratios->items()) {
      const auto median = positive(ratio, "median");
      if (!median) continue;
      out.ratio[name] = *median;
      out.ratio_interval[name] = {positive(ratio, "low").value_or(*median),
                                  positive(ratio, "high").value_or(*median)};
    }
  }
  out.percent_sol = positive(*object, "percent_sol");
  out.percent_contended_sol = positive(*object, "percent_contended_sol");
  out.rank = static_cast<int>(std::clamp<int64_t>(int_or(*object, "rank", -1), -1, 1 << 20));
  out.where = string_or(*object, "where", "");
  out.message = string_or(*object, "message", "");
  out.advice = string_or(*object, "advice", "");
  if (const auto* counters = find_member(*object, "counters"))
    out.host_collectives = int_or(*counters, "host_collectives", -1);
  out.containment = string_or(*object, "containment", "");
  out.recorded = bool_or(*object, "recorded", false);
  return out;
}

}  // namespace sculler::search
