#include "gnn/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/strings.h"
#include "base/xml.h"

namespace sculler::gnn {

Result<TrainingRow> training_row(std::string_view lines) {
  TrainingRow row;
  row.accuracy = -1;
  std::vector<double> seconds;
  bool begun = false, ended = false;
  for (const auto line : split(lines, '\n')) {
    if (!line.starts_with('{')) continue;  // what mpirun says
    auto event = parse_json(line, "sculler-gnn train");
    if (!event) return fail(event.error());
    const std::string kind = string_or(*event, "event", "");
    if (kind == "begin") {
      begun = true;
      row.policy = string_or(*event, "policy", "");
      row.buffer = string_or(*event, "buffer", "");
    } else if (kind == "epoch") {
      const auto number = [&](const char* key) {
        return static_cast<uint64_t>(std::max<int64_t>(0, int_or(*event, key, 0)));
      };
      row.remote += number("remote");
      row.hits += number("hits");
      row.fetched += number("fetched");
      row.extra += number("extra");
      row.bytes += number("bytes");
      row.losses += (row.losses.empty() ? "" : " ") + string_or(*event, "losses", "");
      seconds.push_back(number_or(*event, "seconds", 0));
    } else if (kind == "test") {
      row.accuracy = number_or(*event, "accuracy", -1);
    } else if (kind == "end") {
      ended = true;
    }
  }
  if (!begun || !ended || seconds.empty())
    return fail(ErrorCode::kChildFailed, "a training did not end",
                "Run it alone with sculler-gnn train to see why.");
  row.epoch_s = spread_of(seconds).median;
  return row;
}

nlohmann::json json_of(const TrainingRow& row) {
  return {{"version", 1},           {"policy", row.policy},     {"buffer", row.buffer},
          {"seed", row.seed},       {"remote", row.remote},     {"hits", row.hits},
          {"fetched", row.fetched}, {"extra", row.extra},       {"bytes", row.bytes},
          {"epoch_s", row.epoch_s}, {"accuracy", row.accuracy}, {"losses", row.losses}};
}

Result<TrainingRow> training_row_of(const nlohmann::json& row, const std::string& origin) {
  TrainingRow out;
  auto policy = get_string(row, "policy", origin);
  auto buffer = get_string(row, "buffer", origin);
  auto losses = get_string(row, "losses", origin);
  if (!policy) return fail(policy.error());
  if (!buffer) return fail(buffer.error());
  if (!losses) return fail(losses.error());
  out.policy = *policy;
  out.buffer = *buffer;
  out.losses = *losses;
  const std::pair<const char*, uint64_t*> numbers[] = {
      {"seed", &out.seed},       {"remote", &out.remote}, {"hits", &out.hits},
      {"fetched", &out.fetched}, {"extra", &out.extra},   {"bytes", &out.bytes}};
  for (const auto& [key, value] : numbers) {
    auto number = get_int(row, key, origin, 0);
    if (!number) return fail(number.error());
    *value = static_cast<uint64_t>(*number);
  }
  auto seconds = get_number(row, "epoch_s", origin);
  if (!seconds) return fail(seconds.error());
  out.epoch_s = *seconds;
  out.accuracy = number_or(row, "accuracy", -1);
  return out;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<Compared> compared(const std::vector<TrainingRow>& rows) {
  std::vector<std::string> buffers, policies;
  std::map<uint64_t, const TrainingRow*> none;
  const auto once = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  for (const auto& row : rows) {
    once(policies, row.policy);
    if (row.policy == "none") none[row.seed] = &row;
    else once(buffers, row.buffer);
  }
  if (buffers.empty() && !rows.empty()) buffers.push_back(rows.front().buffer);
  std::vector<Compared> out;
  for (const auto& buffer : buffers)
    for (const auto& policy : policies) {
      std::vector<double> hit_rate, fetched, megabytes, seconds, change, speed;
      for (const auto& row : rows) {
        if (row.policy != policy || (policy != "none" && row.buffer != buffer)) continue;
        hit_rate.push_back(
            row.remote > 0 ? static_cast<double>(row.hits) / static_cast<double>(row.remote) : 0.0);
        fetched.push_back(static_cast<double>(row.fetched));
        megabytes.push_back(static_cast<double>(row.bytes) / 1e6);
        seconds.push_back(row.epoch_s);
        const auto base = none.find(row.seed);
        if (base == none.end() || base->second->fetched == 0 || row.epoch_s <= 0) continue;
        change.push_back(
            static_cast<double>(row.fetched) / static_cast<double>(base->second->fetched) - 1);
        speed.push_back(base->second->epoch_s / row.epoch_s);
      }
      if (fetched.empty()) continue;
      Compared c{policy,
                 buffer,
                 spread_of(hit_rate),
                 spread_of(fetched),
                 spread_of(megabytes),
                 spread_of(seconds),
                 spread_of(change),
                 spread_of(speed),
                 fetched.size()};
      out.push_back(std::move(c));
    }
  return out;
}

std::vector<uint64_t> unequal(const std::vector<TrainingRow>& rows) {
  std::map<uint64_t, std::set<std::string>> losses;
  for (const auto& row : rows) losses[row.seed].insert(row.losses);
  std::vector<uint64_t> out;
  for (const auto& [seed, different] : losses)
    if (different.size() > 1) out.push_back(seed);
  return out;
}

std::string comparison_table(const std::vector<Compared>& all) {
  std::string out, buffer;
  for (const auto& c : all) {
    if (c.buffer != buffer) {
      buffer = c.buffer;
      out += fmt::format(
          "buffer {}, {} seeds: median [lowest, highest]\n  {:<14}{:>9}{:>26}{:>11}{:>22}"
          "{:>20}\n",
          buffer, c.seeds, "policy", "hit rate", "rows fetched", "MB", "epoch s", "times as fast");
    }
    out += fmt::format(
        "  {:<14}{:>8.1f}%{:>26}{:>11.1f}{:>22}{:>20}\n", c.policy, 100 * c.hit_rate.median,
        fmt::format("{:+.1f}% [{:+.1f}, {:+.1f}]", 100 * c.rows_change.median,
                    100 * c.rows_change.low, 100 * c.rows_change.high),
        c.megabytes.median,
        fmt::format("{:.2f} [{:.2f}, {:.2f}]", c.epoch_s.median, c.epoch_s.low, c.epoch_s.high),
        fmt::format("{:.2f} [{:.2f}, {:.2f}]", c.speed.median, c.speed.low, c.speed.high));
  }
  return out;
}

std::string comparison_svg(const std::vector<Compared>& all, std::string_view title) {
  constexpr std::array<const char*, 4> kColours = {"#2a6fb0", "#d08a2e", "#5a9a5a", "#999"};
  constexpr double kLeft = 110, kWide = 330, kBetween = 60, kLine = 11, kGap = 7, kTop = 62;
  std::vector<std::string> policies, buffers;
  for (const auto& c : all) {
    if (std::find(policies.begin(), policies.end(), c.policy) == policies.end())
      policies.push_back(c.policy);
    if (std::find(buffers.begin(), buffers.end(), c.buffer) == buffers.end())
      buffers.push_back(c.buffer);
  }
  const std::array<std::pair<const char*, Spread Compared::*>, 2> panels = {
      {{"rows fetched, replacements included", &Compared::rows},
       {"seconds an epoch", &Compared::epoch_s}}};
  const double line_group = kLine * static_cast<double>(buffers.size()) + kGap;
  const double height = kTop + line_group * static_cast<double>(policies.size()) + 16;
  const double width = kLeft + 2 * (kWide + kBetween) + 30;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"10\" y=\"18\" font-size=\"13\">{2}</text>\n<text x=\"10\" y=\"36\">buffer",
      width, height, xml_escaped(title));
  for (size_t b = 0; b < buffers.size(); ++b)
    out += fmt::format(" <tspan fill=\"{}\">{}</tspan>", kColours[b % kColours.size()],
                       xml_escaped(buffers[b]));
  out += "</text>\n";
  for (size_t p = 0; p < policies.size(); ++p)
    out +=
        fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                    kTop + line_group * (static_cast<double>(p) + 0.5), xml_escaped(policies[p]));
  for (size_t panel = 0; panel < panels.size(); ++panel) {
    const auto& [name, member] = panels[panel];
    const double left = kLeft + static_cast<double>(panel) * (kWide + kBetween);
    double most = 0;
    for (const auto& c : all) most = std::max(most, (c.*member).high);
    if (most <= 0) most = 1;
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", left, kTop - 8, name);
    for (const auto& c : all) {
      const auto p = static_cast<double>(std::find(policies.begin(), policies.end(), c.policy) -
                                         policies.begin());
      const auto b = std::find(buffers.begin(), buffers.end(), c.buffer) - buffers.begin();
      const Spread& value = c.*member;
      const double y = kTop + line_group * p + kLine * static_cast<double>(b);
      const auto at = [&](double v) { return left + kWide * v / most; };
      out += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>"
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#333\"/>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"9\">{}</text>\n",
          left, y, kWide * value.median / most, kLine - 2,
          kColours[static_cast<size_t>(b) % kColours.size()], at(value.low), y + (kLine - 2) / 2,
          at(value.high), y + (kLine - 2) / 2, at(value.high) + 4, y + kLine - 3,
          panel == 0 ? fmt::format("{:.0f}", value.median) : fmt::format("{:.2f}", value.median));
    }
  }
  return out + "</svg>\n";
}

}  // namespace sculler::gnn
