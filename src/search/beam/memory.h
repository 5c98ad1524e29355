// The optimization memory of a run: what was learnt from pairs of programs of which one is faster,
// bounded, with the use that was made of each item.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/prompt.h"
#include "base/error.h"

namespace sculler::search::beam {

struct MemoryItem {
  int64_t plan = -1;           // index of the plan that it came of; -1: of another run
  bool positive = true;        // the rewrite made its program faster
  int64_t slow = 0, fast = 0;  // programs of this run; 0: of another one
  double speedup = 0;          // of the pair, above 1
  std::string task, target;    // where it was learnt
  std::string title, description, original, optimised;
  // Plans that named it, and those of them that made their program faster.
  int64_t uses = 0, wins = 0;
  std::map<std::string, double> helped{};  // kernel → largest speedup of such a plan

  // SHA-256 of what it says: the same item has the same key in every run.
  [[nodiscard]] std::string key() const;
  // How often it helps, one plan that it helped and one that it did not added.
  [[nodiscard]] double usefulness() const {
    return (1 + static_cast<double>(wins)) / (2 + static_cast<double>(uses));
  }
};

// One line of JSON; reading is bounded, kProtocol where it is no item.
[[nodiscard]] std::string print(const MemoryItem& item);
[[nodiscard]] Result<MemoryItem> parse_item(std::string_view text);

class Memory {
 public:
  // Faithful: the oldest is dropped where it is full, else the least useful, the older of equals.
  Memory(std::size_t capacity, bool faithful) : capacity_(capacity), faithful_(faithful) {}

  // Gives the item that was dropped for it, if one was. A known item is not added again.
  std::optional<MemoryItem> add(MemoryItem item);
  // A plan for `task` that named the item of this key was carried out.
  void used(std::string_view key, const std::string& task, double speedup, bool helped);
  // Oldest first: the order in which planners see them.
  [[nodiscard]] const std::vector<MemoryItem>& items() const { return items_; }

 private:
  std::size_t capacity_;
  bool faithful_;
  std::vector<MemoryItem> items_;
};

// For a planner's prompt, numbered from 1.
[[nodiscard]] std::vector<agent::Item> shown(const std::vector<MemoryItem>& items, int order);

}  // namespace sculler::search::beam
