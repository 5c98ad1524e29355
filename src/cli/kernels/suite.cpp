#include "cli/kernels/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "base/xml.h"

namespace sculler::cli::kernels {
namespace {

constexpr std::array<std::pair<const char*, double>, 4> kFast{
    {{"1", 1.0}, {"1.2", 1.2}, {"1.5", 1.5}, {"2", 2.0}}};

std::optional<double> positive(const nlohmann::json& object, std::string_view key) {
  const double value = number_or(object, key, 0);
  return value > 0 && value < 1e12 ? std::optional(value) : std::nullopt;
}

class Geomean {
 public:
  void add(double value) {
    sum_ += std::log(value);
    ++n_;
  }
  [[nodiscard]] std::optional<double> value() const {
    return n_ == 0 ? std::nullopt : std::optional(std::exp(sum_ / n_));
  }

 private:
  double sum_ = 0;
  int n_ = 0;
};

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : std::string("-");
}

std::string times(const Against* against) {
  return against == nullptr ? std::string("-") : fmt::format("{:.2f}", against->ratio);
}

std::string cost_lines(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, Cost> sums;
  for (const Row& row : rows) {
    for (const Cost& cost : row.costs) {
      Cost& sum = sums[{cost.role, cost.model}];
      sum.calls += cost.calls;
      sum.prompt_tokens += cost.prompt_tokens;
      sum.answer_tokens += cost.answer_tokens;
      sum.usd += cost.usd;
    }
  }
  if (sums.empty()) return "cost: no model was asked for any of these programs\n";
  std::string out;
  for (const auto& [key, sum] : sums) {
    out += fmt::format("cost: {} by {}: {} calls, {} + {} tokens, ${:.2f}\n", printable(key.first),
                       printable(key.second), sum.calls, sum.prompt_tokens, sum.answer_tokens,
                       sum.usd);
  }
  return out;
}

}  // namespace

const Against* Row::over(const std::string& name) const {
  const auto at = against.find(name);
  return at == against.end() ? nullptr : &at->second;
}

std::optional<double> Row::percent_of(const std::string& name) const {
  const Against* other = over(name);
  if (!percent_peak || other == nullptr || !(other->ratio > 0)) return std::nullopt;
  return *percent_peak / other->ratio;
}

std::string row_json(const Row& r) {
  nlohmann::json out{{"version", 1},       {"kernel", r.kernel}, {"target", r.target},
                     {"size", r.size},     {"key", r.key},       {"status", r.status},
                     {"best", r.best},     {"from", r.from},     {"baseline", r.baseline},
                     {"vendor", r.vendor}, {"latency_us", r.us}};
  if (!r.skipped.empty()) out["skipped"] = r.skipped;
  if (!r.message.empty()) out["message"] = r.message;
  if (r.percent_peak) out["percent_peak"] = *r.percent_peak;
  if (r.percent_sol) out["percent_sol"] = *r.percent_sol;
  if (r.latency_bound) out["latency_bound"] = true;
  out["against"] = nlohmann::json::object();
  for (const auto& [name, a] : r.against)
    out["against"][name] = {{"ratio", a.ratio}, {"low", a.low}, {"high", a.high}, {"call", a.call}};
  out["costs"] = nlohmann::json::array();
  for (const Cost& c : r.costs) {
    out["costs"].push_back({{"role", c.role},
                            {"model", c.model},
                            {"calls", c.calls},
                            {"prompt_tokens", c.prompt_tokens},
                            {"answer_tokens", c.answer_tokens},
                            {"usd", c.usd}});
  }
  return dump_json(out);
}

Result<Row> parse_row(std::string_view line, std::string_view origin) {
  auto object = parse_json(line, origin, 1 << 20, 8);
  if (!object) return fail(object.error());
  auto version = get_int(*object, "version", origin, 1, 1);
  if (!version) return fail(version.error());
  Row r;
  for (const auto& [key, into] :
       {std::pair{"kernel", &r.kernel}, std::pair{"target", &r.target}, std::pair{"size", &r.size},
        std::pair{"key", &r.key}, std::pair{"status", &r.status}, std::pair{"best", &r.best},
        std::pair{"from", &r.from}, std::pair{"baseline", &r.baseline},
        std::pair{"vendor", &r.vendor}}) {
    auto text = get_string(*object, key, origin);
    if (!text) return fail(text.error());
    *into = std::move(*text);
  }
  r.skipped = string_or(*object, "skipped", "");
  r.message = string_or(*object, "message", "");
  r.us = positive(*object, "latency_us").value_or(0);
  r.percent_peak = positive(*object, "percent_peak");
  r.percent_sol = positive(*object, "percent_sol");
  r.latency_bound = bool_or(*object, "latency_bound", false);
  if (const auto* against = find_member(*object, "against");
      against != nullptr && against->is_object()) {
    for (const auto& [name, a] : against->items()) {
      if (const auto ratio = a.is_object() ? positive(a, "ratio") : std::nullopt)
        r.against[name] = {*ratio, number_or(a, "low", 0), number_or(a, "high", 0),
                           string_or(a, "call", "")};
    }
  }
  if (const auto* costs = find_member(*object, "costs"); costs != nullptr && costs->is_array()) {
    for (const auto& c : *costs) {
      if (!c.is_object()) continue;
      r.costs.push_back({string_or(c, "role", ""), string_or(c, "model", ""), int_or(c, "calls", 0),
                         int_or(c, "prompt_tokens", 0), int_or(c, "answer_tokens", 0),
                         number_or(c, "usd", 0)});
    }
  }
  return r;
}

Status take_verdict(std::string_view verdict, Row& row) {
  auto object = parse_json(verdict, "verdict", std::size_t{32} << 20);
  if (!object) return fail(object.error());
  auto status = get_string(*object, "status", "verdict");
  if (!status) return fail(status.error());
  row.status = *status;
  row.message = printable(shorten(string_or(*object, "message", ""), 300));
  if (const auto* latency = find_member(*object, "latency_us");
      latency != nullptr && latency->is_object())
    row.us = positive(*latency, "median").value_or(0);
  row.percent_peak = positive(*object, "percent_peak");
  row.percent_sol = positive(*object, "percent_sol");
  const auto* ratios = find_member(*object, "ratio");
  const auto* calls = find_member(*object, "comparison");
  if (ratios == nullptr || !ratios->is_object()) return {};
  for (const auto& [name, r] : ratios->items()) {
    const auto ratio = r.is_object() ? positive(r, "median") : std::nullopt;
    if (!ratio) continue;
    Against against{*ratio, number_or(r, "low", 0), number_or(r, "high", 0), ""};
    if (calls != nullptr && calls->is_object()) against.call = string_or(*calls, name, "");
    row.against[name] = std::move(against);
  }
  return {};
}

Summary summarize(const std::vector<Row>& rows) {
  Summary out;
  Geomean ratio, vendor, before, after;
  std::map<std::string, int> fast;
  for (const Row& row : rows) {
    ++out.asked;
    if (!row.skipped.empty()) {
      ++out.skipped;
      continue;
    }
    if (!row.right()) continue;
    ++out.right;
    const Against* base = row.over(row.baseline);
    if (base != nullptr) {
      ratio.add(base->ratio);
      for (const auto& [name, least] : kFast) fast[name] += base->ratio > least ? 1 : 0;
    }
    if (const Against* library = row.over(row.vendor)) vendor.add(library->ratio);
    if (row.latency_bound) {
      ++out.bound_by_latency;
    } else if (const auto was = row.percent_of(row.baseline)) {
      before.add(*was);
      after.add(*row.percent_peak);
    }
  }
  const int judged = out.asked - out.skipped;
  for (const auto& [name, least] : kFast)
    if (judged > 0) out.fast[name] = static_cast<double>(fast[name]) / judged;
  out.geomean = ratio.value();
  out.geomean_vendor = vendor.value();
  out.peak_before = before.value();
  out.peak_after = after.value();
  return out;
}

std::string table(const std::vector<Row>& rows) {
  std::string out =
      fmt::format("{:<24} {:>10} {:>10}  {:<24} {:>7} {:<9} {:>7} {:<9} {:>11} {:>7}\n", "kernel",
                  "baseline", "best", "program", "x base", "", "x lib", "", "% of peak", "nominal");
  for (const Row& row : rows) {
    if (!row.skipped.empty()) {
      out += fmt::format("{:<24} skipped: {}\n", row.kernel, printable(row.skipped));
      continue;
    }
    if (!row.right()) {
      out += fmt::format("{:<24} {:<24} {}: {}\n", row.kernel, printable(shorten(row.best, 24)),
                         printable(row.status), printable(row.message));
      continue;
    }
    const Against* base = row.over(row.baseline);
    const Against* library = row.over(row.vendor);
    const auto before = row.percent_of(row.baseline);
    out += fmt::format(
        "{:<24} {:>10} {:>10}  {:<24} {:>7} {:<9} {:>7} {:<9} {:>11} {:>7}{}\n", row.kernel,
        base == nullptr ? std::string("-") : microseconds_text(base->ratio * row.us),
        microseconds_text(row.us), printable(shorten(row.best, 24)), times(base),
        base == nullptr ? std::string() : base->call, times(library),
        library == nullptr ? std::string() : library->call,
        row.percent_peak ? percent(before) + " > " + percent(row.percent_peak) : std::string("-"),
        percent(row.percent_sol), row.latency_bound ? "  bound by latency" : "");
  }
  const Summary s = summarize(rows);
  out += fmt::format("\n{} kernels: {} right, {} skipped, {} not right\n", s.asked, s.right,
                     s.skipped, s.asked - s.skipped - s.right);
  std::string fast;
  for (const auto& [name, least] : kFast) {
    if (const auto at = s.fast.find(name); at != s.fast.end())
      fast += fmt::format("{}Fast@{} {:.0f} %", fast.empty() ? "" : ", ", name, 100 * at->second);
  }
  if (!fast.empty()) out += fast + " (of the kernels not skipped, over the baseline)\n";
  if (s.geomean) out += fmt::format("geomean {:.3f}x the baseline", *s.geomean);
  if (s.geomean_vendor)
    out += fmt::format(", {:.3f}x the library where there is one", *s.geomean_vendor);
  if (s.geomean) out += "\n";
  if (s.peak_after) {
    out += fmt::format(
        "geomean of the measured peak: {:.0f} > {:.0f} %{}\n", *s.peak_before, *s.peak_after,
        s.bound_by_latency > 0 ? fmt::format(", {} bound by latency left out", s.bound_by_latency)
                               : std::string());
  }
  out += cost_lines(rows);
  out +=
      "AccelOpt, on other hardware (Trainium 1, Trainium 2): 49 > 61 %, 45 > 59 % of peak; figures "
      "of unlike machines do not compare\n";
  return out;
}

std::string picture(const std::vector<Row>& rows) {
  struct Bar {
    const char* color;
    double value;
  };
  std::vector<const Row*> shown;
  bool peaks = false;
  for (const Row& row : rows) {
    if (row.right()) shown.push_back(&row);
    peaks = peaks || (row.right() && row.percent_peak.has_value());
  }
  const auto value = [&](const Row& row, const std::string& name) {
    const Against* other = row.over(name);
    if (peaks) return row.percent_of(name).value_or(0);
    return other == nullptr || row.over(row.baseline) == nullptr
               ? 0.0
               : row.over(row.baseline)->ratio / other->ratio;
  };
  double most = peaks ? 100 : 1;
  for (const Row* row : shown) {
    const Against* base = row->over(row->baseline);
    const double best = peaks ? row->percent_peak.value_or(0) : base == nullptr ? 0 : base->ratio;
    most = std::max({most, best, value(*row, row->baseline), value(*row, row->vendor)});
  }
  constexpr double kLeft = 190, kWide = 560, kLine = 12, kGap = 14;
  const double height = 70 + static_cast<double>(shown.size()) * (3 * kLine + kGap);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"18\" font-size=\"13\">{2}</text>\n"
      "<text x=\"10\" y=\"36\"><tspan fill=\"#999\">baseline</tspan> <tspan "
      "fill=\"#d08a2e\">library</tspan> <tspan fill=\"#2a6fb0\">best</tspan></text>\n",
      kLeft + kWide + 60, height,
      peaks ? "kernels: % of the measured peak" : "kernels: times as fast as the baseline");
  double y = 50;
  for (const Row* row : shown) {
    const Against* base = row->over(row->baseline);
    const double best = peaks ? row->percent_peak.value_or(0) : base == nullptr ? 0 : base->ratio;
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                       y + 1.5 * kLine + 4, xml_escaped(row->kernel));
    for (const Bar& bar : {Bar{"#999", value(*row, row->baseline)},
                           Bar{"#d08a2e", value(*row, row->vendor)}, Bar{"#2a6fb0", best}}) {
      if (bar.value > 0) {
        const double width = kWide * bar.value / most;
        out += fmt::format(
            "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>"
            "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"9\">{:.{}f}</text>\n",
            kLeft, y, width, kLine - 2, bar.color, kLeft + width + 4, y + kLine - 4, bar.value,
            peaks ? 0 : 2);
      }
      y += kLine;
    }
    y += kGap;
  }
  return out + "</svg>\n";
}

}  // namespace sculler::cli::kernels
