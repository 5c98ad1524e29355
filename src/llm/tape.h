// A cassette: what the models answered, what the evaluator judged, and in which order the engine
// took both in. Replayed, a run takes the same way without a model and without an evaluator.
// One JSON object a line; written line by line, so a run that dies leaves a cassette up to there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "llm/provider.h"

namespace sculler::llm {

// A completion as the engine took it in.
struct Taken {
  enum class Kind { kAnswer, kVerdict };
  Kind kind = Kind::kAnswer;
  std::string key{};  // Request::name(), or the job id
  friend bool operator==(const Taken&, const Taken&) = default;
};

// The text by which a prompt is compared: paths, dates, times, run names and hex ids of 16 digits
// and more are replaced by words, line ends made one kind.
[[nodiscard]] std::string canonical_prompt(std::string_view text);
// All messages of a request as one text, as cassette, store and report show it.
[[nodiscard]] std::string prompt_text(const Request& request);

class Tape {
 public:
  // Where the file is there already (a resumed run), what it holds stays.
  [[nodiscard]] static Result<std::unique_ptr<Tape>> record(Files& files, const std::string& path);
  [[nodiscard]] static Result<std::unique_ptr<Tape>> replay(Files& files, const std::string& path);

  [[nodiscard]] bool replaying() const { return replaying_; }
  // Replaying, a question gets the answer of its name whatever its prompt says: texts of prompts
  // and evidence may have changed since, the way that is taken depends on answers and verdicts
  // alone.
  void take_any_prompt() { any_prompt_ = true; }

  // By the provider. Recording: keeps the reply. Replaying: the recorded reply, kMismatch with the
  // first line that differs where the prompt is another one.
  [[nodiscard]] Status keep(const Request& request, const Reply& reply);
  [[nodiscard]] Reply reply(const Request& request);

  // By the engine. A verdict is kept as the JSON line that the evaluator wrote; a replayed one is
  // labelled "recorded" by whoever shows it.
  [[nodiscard]] Status keep_verdict(std::string_view job, std::string_view json);
  [[nodiscard]] Result<std::string> verdict(std::string_view job);
  // The order: recording, the engine says what it takes in, when it does; replaying, it asks what
  // comes next and waits for that one. Empty at the end of the cassette.
  [[nodiscard]] Status took(const Taken& taken);
  [[nodiscard]] std::optional<Taken> next();
  // The same without going on.
  [[nodiscard]] std::optional<Taken> peek() const;

 private:
  struct Kept {
    std::string prompt;  // canonical
    Reply reply;
  };
  Tape(Files& files, std::string path, bool replaying)
      : files_(files), path_(std::move(path)), replaying_(replaying) {}
  [[nodiscard]] Status cut_torn_line();
  [[nodiscard]] Status load();
  [[nodiscard]] Status write(const std::string& line);
  Files& files_;
  std::string path_{};
  bool replaying_, any_prompt_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, Kept, std::less<>> replies_;
  std::map<std::string, std::string, std::less<>> verdicts_;
  std::vector<Taken> order_;
  std::size_t at_ = 0;
};

}  // namespace sculler::llm
