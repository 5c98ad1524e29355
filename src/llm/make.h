// The provider of a run, made from its settings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "llm/provider.h"
#include "llm/settings.h"

namespace sculler::llm {

class Http;
class Tape;

// One request that was answered, as it is kept: the text of every message and the whole answer.
struct Call {
  std::string role{}, model{}, question{};  // question: Request::name(), of a repair with ".repair"
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double usd = 0;
  std::string prompt{};      // prompt_text() of the request
  std::string prompt_sha{};  // 64 hex of `prompt`
  std::string answer{};      // what came, also where it is of no use
  std::string outcome{};     // "ok" or fault_name()
};

// Where calls are kept. Thread-safe; add() returns only when the call survives the end of the
// process.
class CallLog {
 public:
  virtual ~CallLog() = default;
  [[nodiscard]] virtual Status add(const Call& call) = 0;
  // An "ok" answer to this very question of an earlier life of the run: nobody pays twice.
  [[nodiscard]] virtual Result<std::optional<Call>> find(std::string_view question,
                                                         std::string_view prompt_sha) = 0;
  [[nodiscard]] virtual Status add_reward(std::string_view model, double worth) = 0;
  // Of the run so far, by model name: what the budget has lost and the choice has learnt.
  struct Total {
    std::string model;
    int64_t calls = 0, prompt_tokens = 0, answer_tokens = 0;
    double usd = 0;
    int64_t rewards = 0;
    double worth = 0;  // sum of the rewards
  };
  [[nodiscard]] virtual Result<std::vector<Total>> totals() = 0;
};

struct Surroundings {
  Files& files;
  Clock& clock;
  Processes& processes;
  Http* http = nullptr;      // null: libcurl
  CallLog* log = nullptr;    // null: nothing is kept
  Tape* tape = nullptr;      // null: neither recorded nor replayed
  int64_t seed = 1;          // of the run: weights draw from (seed, role, index, step)
  std::string run_folder{};  // of relative paths of `files` and `script`; the log of `local`
  std::string prices{};      // the prices.toml that comes with sculler; empty: none
  std::string cache{};       // folder of the embedded model and its server
};

// Refused (with the file, the key and the cure) where no model is configured, a name stands twice,
// a key is missing or lies open to others, or a price is needed and unknown.
[[nodiscard]] Result<std::unique_ptr<Provider>> make_provider(const Settings& settings,
                                                              const Surroundings& around);

}  // namespace sculler::llm
