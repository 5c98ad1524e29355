// What language models were asked and answered in a run: tables llm_call and llm_reward of the
// run's database.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace sculler::store {

struct LlmCall {
  std::string role, model;
  std::string question;  // "000012-mutator", of a repair "000012-mutator.repair"
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double usd = 0;
  std::string prompt, prompt_sha;
  std::string answer;
  std::string outcome;  // "ok", or the name of the fault
  int64_t t = 0;        // milliseconds since 1970; given by the store
};

struct LlmTotal {
  std::string model;
  int64_t calls = 0, prompt_tokens = 0, answer_tokens = 0;
  double usd = 0;
  int64_t rewards = 0;
  double worth = 0;
};

// Thread-safe. Store::calls gives one that shares the store's connection.
class Calls {
 public:
  // Beside no store: `path` of the database of a run, which Store::open has made.
  [[nodiscard]] static Result<std::unique_ptr<Calls>> open(const std::string& path, Clock& clock);
  virtual ~Calls() = default;

  // Survives the end of this process when it returns.
  [[nodiscard]] virtual Status add(const LlmCall& call) = 0;
  // The last "ok" answer to this question with this prompt.
  [[nodiscard]] virtual Result<std::optional<LlmCall>> find(std::string_view question,
                                                            std::string_view prompt_sha) = 0;
  [[nodiscard]] virtual Status add_reward(std::string_view model, double worth) = 0;
  // By model, in order of names.
  [[nodiscard]] virtual Result<std::vector<LlmTotal>> totals() = 0;
  // In order of writing.
  [[nodiscard]] virtual Status each(const std::function<void(const LlmCall&)>& visit) = 0;

 protected:
  Calls() = default;
};

}  // namespace sculler::store
