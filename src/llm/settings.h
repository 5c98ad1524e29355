// [llm] and [[model]] of run.toml as values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/toml.h"

namespace sculler::llm {

// One [[model]] table. What is empty or 0 takes the default of its provider.
struct Model {
  std::string name{};      // unique in the run; what store, cassette and rewards speak of
  std::string provider{};  // openai, anthropic, local, files, command, script
  std::string model{};     // as the server calls it; empty: `name`
  std::string url{};       // without the last part: https://api.openai.com/v1
  std::string key_env{}, key_file{};  // neither: no key is sent
  std::vector<std::string> roles{};   // empty: every role
  double weight = 1;
  int64_t context = 0;             // tokens of prompt and answer; 0: unknown, unchecked
  int64_t max_tokens = 0;          // of an answer; 0: 8192
  std::string max_tokens_field{};  // "max_tokens", "max_completion_tokens" or "none"
  bool temperature = true;         // false: the server takes none
  std::string schema{};            // "json_schema", "json_object", "tool" or "prompt"
  bool stream = true;
  double price_in = -1, price_out = -1;  // USD a million tokens; negative: prices.toml
  std::vector<std::pair<std::string, std::string>> headers{};  // value "env:NAME" is looked up
  std::string body{};               // JSON object whose members are put into every request
  std::vector<std::string> argv{};  // command: program and arguments
  std::vector<std::string> env{};   // command: variables it gets besides the usual ones
  double timeout_s = 0;             // of a call; 0: llm.timeout, for files a day
  std::string path{};               // files: folder; local: GGUF; script: rule file
  std::string server{};             // local: llama-server; empty: the cached one
  int64_t threads = 0;              // local
  std::string where{};              // "file:line" for errors; not part of the file
};

struct Settings {
  std::vector<Model> models{};
  double timeout_s = 600;    // one call with all its retries
  int64_t retries = 5;       // after the first request
  int64_t parallel = 8;      // calls at once; the engine asks no more
  double max_usd = 0;        // 0: no bound
  int64_t max_tokens = 0;    // prompt and answer of the whole run; 0: no bound
  double stop_after_s = 30;  // … over at least so many seconds
  int64_t stop_after = 10;   // failures of an endpoint one after another; 0: never
  int64_t max_answer_bytes = 1 << 20;
  std::string choose = "weights";  // weights, ucb
  std::string prices{};            // a prices.toml instead of the one that comes with it
};

// The [[model]] tables of a run file; none is no error. Unknown keys are named with the nearest,
// values that cannot be are refused with file, line and key.
[[nodiscard]] Result<std::vector<Model>> read_models(const TomlReader& root);
// The tables again, such that read_models gives the same.
[[nodiscard]] std::string print_models(const std::vector<Model>& models);
// One model in a word: "local", "local:FILE.gguf", "files", "files:FOLDER", "command:PROGRAM …",
// "openai:MODEL", "anthropic:MODEL", "script:FILE".
[[nodiscard]] Result<Model> model_of_word(std::string_view word);
// What is empty or 0 gets the default of its provider.
void fill_defaults(Model& model);

}  // namespace sculler::llm
