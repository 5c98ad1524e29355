#include "search/beam/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/fence.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace sculler::search::beam {

std::string MemoryItem::key() const {
  Sha256 hash;
  hash.field("sculler memory 1").field(target).field(positive ? "+" : "-").field(title);
  hash.field(description).field(original).field(optimised);
  return hash.hex();
}

std::string print(const MemoryItem& item) {
  return dump_json({{"version", 1},
                    {"plan", item.plan},
                    {"positive", item.positive},
                    {"slow", item.slow},
                    {"fast", item.fast},
                    {"speedup", item.speedup},
                    {"task", item.task},
                    {"target", item.target},
                    {"title", item.title},
                    {"description", item.description},
                    {"original", item.original},
                    {"optimized", item.optimised},
                    {"uses", item.uses},
                    {"wins", item.wins},
                    {"helped", item.helped}});
}

Result<MemoryItem> parse_item(std::string_view text) {
  constexpr std::size_t kMost = std::size_t{256} << 10, kShort = 200, kLong = 24'000;
  auto parsed = parse_json(text, "memory item", kMost, 8);
  if (!parsed) return fail(parsed.error());
  auto version = get_int(*parsed, "version", "memory item", 1, 1);
  if (!version) return fail(version.error());
  MemoryItem out;
  out.plan = int_or(*parsed, "plan", -1);
  out.positive = bool_or(*parsed, "positive", true);
  out.slow = int_or(*parsed, "slow", 0);
  out.fast = int_or(*parsed, "fast", 0);
  out.speedup = std::clamp(number_or(*parsed, "speedup", 0), 0.0, 1e9);
  out.uses = std::clamp<int64_t>(int_or(*parsed, "uses", 0), 0, 1'000'000'000);
  out.wins = std::clamp<int64_t>(int_or(*parsed, "wins", 0), 0, out.uses);
  const auto text_of = [&](const char* name, std::size_t most) {
    return printable(shorten(string_or(*parsed, name, ""), most), true);
  };
  out.task = agent::one_line(text_of("task", kLong), kShort);
  out.target = agent::one_line(text_of("target", kLong), kShort);
  out.title = agent::one_line(text_of("title", kLong), kShort);
  out.description = text_of("description", kLong);
  out.original = text_of("original", kLong);
  out.optimised = text_of("optimized", kLong);
  if (const auto* helped = find_member(*parsed, "helped");
      helped != nullptr && helped->is_object()) {
    for (const auto& [task, speedup] : helped->items())
      if (speedup.is_number() && out.helped.size() < 64)
        out.helped[agent::one_line(task, kShort)] = std::clamp(speedup.get<double>(), 0.0, 1e9);
  }
  if (out.title.empty() || out.description.empty()) {
    return fail(
        Error{ErrorCode::kProtocol, "has no title or no description", "memory item", "title", {}});
  }
  return out;
}

std::optional<MemoryItem> Memory::add(MemoryItem item) {
  if (capacity_ == 0) return item;
  const std::string key = item.key();
  if (std::any_of(items_.begin(), items_.end(),
                  [&](const MemoryItem& other) { return other.key() == key; }))
    return std::nullopt;
  std::optional<MemoryItem> dropped;
  if (items_.size() >= capacity_) {
    const auto at = faithful_ ? items_.begin()
                              : std::min_element(items_.begin(), items_.end(),
                                                 [](const MemoryItem& a, const MemoryItem& b) {
                                                   return a.usefulness() < b.usefulness();
                                                 });
    dropped = std::move(*at);
    items_.erase(at);
  }
  items_.push_back(std::move(item));
  return dropped;
}

void Memory::used(std::string_view key, const std::string& task, double speedup, bool helped) {
  const auto at = std::find_if(items_.begin(), items_.end(),
                               [&](const MemoryItem& item) { return item.key() == key; });
  if (at == items_.end()) return;
  ++at->uses;
  if (!helped) return;
  ++at->wins;
  double& best = at->helped[task];
  best = std::max(best, speedup);
}

std::vector<agent::Item> shown(const std::vector<MemoryItem>& items, int order) {
  std::vector<agent::Item> out;
  for (const auto& item : items) {
    std::string title =
        fmt::format("{}. {}{} ({:.2f} times as fast, on {}", out.size() + 1,
                    item.positive ? "" : "Made slower: ", item.title, item.speedup, item.task);
    for (const auto& [task, speedup] : item.helped)
      if (task != item.task) title += fmt::format("; helped {} by {:.2f}", task, speedup);
    std::string body = item.description + "\n";
    if (!item.original.empty()) body += "--- slower\n" + item.original + "\n";
    if (!item.optimised.empty()) body += "--- faster\n" + item.optimised + "\n";
    out.push_back({agent::one_line(title + ")", 400), {std::move(body), "text", order}});
  }
  return out;
}

}  // namespace sculler::search::beam
