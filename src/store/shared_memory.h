// What runs have learnt and other runs may use: items of an optimization memory, and whether the
// plans that named them made their programs faster. One SQLite file that runs open at the same
// time; items are never changed, uses are added once each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace sculler::store {

struct SharedItem {
  std::string key;             // 64 hex; the same content has the same key
  std::string target;          // "cpu", "cuda" …: rewrites of one say little about another
  std::string text;            // JSON of whoever wrote it
  int64_t uses = 0, wins = 0;  // plans that named it; those that helped
  std::map<std::string, double> helped{};  // kernel → largest speedup of such a plan
};

// Thread-safe.
class SharedMemory {
 public:
  // Makes the file where it is missing; kVersion where it is something else. ":memory:" keeps
  // nothing.
  [[nodiscard]] static Result<std::unique_ptr<SharedMemory>> open(const std::string& path,
                                                                  Clock& clock);
  virtual ~SharedMemory() = default;

  // A known key adds nothing.
  [[nodiscard]] virtual Status add(std::string_view key, std::string_view target,
                                   std::string_view text) = 0;
  // Plan `plan` of run `run` named the item; the same plan counts once, whatever life says it.
  [[nodiscard]] virtual Status used(std::string_view key, std::string_view run, int64_t plan,
                                    std::string_view task, double speedup, bool helped) = 0;
  // Of this target, in order of writing, with what is known of their use.
  [[nodiscard]] virtual Result<std::vector<SharedItem>> items(std::string_view target) = 0;

 protected:
  SharedMemory() = default;
};

}  // namespace sculler::store
