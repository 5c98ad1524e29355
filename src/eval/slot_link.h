// The connection to one evaluator that runs elsewhere (a slot): job lines to its input, verdict
// lines from its output, blank lines both ways as signs of life.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/process.h"

namespace sculler::eval {

constexpr int64_t kSlotBeats = 5;  // signs of life within the time after which silence is death

// What a slot says first.
struct SlotHello {
  std::string node, step;  // step: "12.0", of Slurm; empty where it is none
};
[[nodiscard]] std::string print_hello(const SlotHello& hello);
// Nothing where the line is no greeting; kVersion where the slot is of another version.
[[nodiscard]] Result<std::optional<SlotHello>> parse_hello(std::string_view line);

class SlotLink {
 public:
  // `silence_ms`: a slot that has greeted and then says nothing for so long is dead; signs of life
  // go out five times as often.
  SlotLink(std::unique_ptr<Child> child, int64_t silence_ms);
  // Kills what is left of it.
  ~SlotLink() = default;
  SlotLink(const SlotLink&) = delete;
  SlotLink& operator=(const SlotLink&) = delete;

  void send(const std::string& line);
  // The next line that is not blank; nothing where none came within `timeout_ms`. kChildFailed
  // where the slot ended, with its last words; kTimeout where it fell silent; kProtocol where a
  // line has no end.
  [[nodiscard]] Result<std::optional<std::string>> next(int64_t timeout_ms);
  // From here on silence counts.
  void greeted();
  // Closes its input and gives it `grace_ms` to end, then asks with SIGTERM and gives it
  // `asked_ms`.
  void finish(int64_t grace_ms, int64_t asked_ms);
  // What it printed on stderr last, one line.
  [[nodiscard]] std::string last_words() const;

 private:
  void pump(int64_t timeout_ms);
  std::unique_ptr<Child> child_;
  int64_t silence_ms_, last_heard_ms_, last_said_ms_;
  bool greeted_ = false, out_open_ = true, err_open_ = true;
  std::string out_, in_, err_;
  std::size_t out_at_ = 0, scanned_ = 0;
};

}  // namespace sculler::eval
