// What a person sees while long work runs: finished lines, and on a terminal one live line below
// them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace sculler {

class Progress {
 public:
  virtual ~Progress() = default;
  // A line that stays.
  virtual void line(std::string_view text) = 0;
  // The live line: replaces the previous one. Dropped where there is no terminal.
  virtual void live(std::string_view text) = 0;
  // Removes the live line.
  virtual void clear() = 0;
};

class NoProgress final : public Progress {
 public:
  void line(std::string_view) override {}
  void live(std::string_view) override {}
  void clear() override {}
};

// Keeps everything, for tests.
class RecordedProgress final : public Progress {
 public:
  void line(std::string_view text) override { (lines_ += text) += '\n'; }
  void live(std::string_view text) override { last_live_ = text; }
  void clear() override { last_live_.clear(); }
  [[nodiscard]] const std::string& lines() const { return lines_; }
  [[nodiscard]] const std::string& last_live() const { return last_live_; }

 private:
  std::string lines_, last_live_;
};

// Writes to a stream; the live line appears only where the stream is a terminal, at most every 100
// ms, cut to its width.
class TerminalProgress final : public Progress {
 public:
  TerminalProgress(std::FILE* stream, Clock& clock);
  ~TerminalProgress() override;
  void line(std::string_view text) override;
  void live(std::string_view text) override;
  void clear() override;

 private:
  std::FILE* stream_;
  Clock& clock_;
  bool terminal_ = false;
  bool shown_ = false;
  int64_t last_ns_ = 0;
};

}  // namespace sculler
