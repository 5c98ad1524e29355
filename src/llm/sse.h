// Server-sent events (WHATWG HTML, 9.2), from pieces of any size, bounded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sculler::llm {

class SseParser {
 public:
  // Called for every event with data; false ends the parsing.
  using Visit = std::function<bool(std::string_view name, std::string_view data)>;
  explicit SseParser(std::size_t max_event_bytes) : max_(max_event_bytes) {}

  // False where an event is larger than allowed (too_big()) or `visit` said so.
  [[nodiscard]] bool feed(std::string_view piece, const Visit& visit);
  // The end of the stream: an event without its empty line is given too, as servers end it so.
  [[nodiscard]] bool finish(const Visit& visit);
  [[nodiscard]] bool too_big() const { return too_big_; }
  [[nodiscard]] std::size_t held_bytes() const {
    return line_.size() + data_.size() + name_.size();
  }

 private:
  [[nodiscard]] bool line(std::string_view text, const Visit& visit);
  [[nodiscard]] bool dispatch(const Visit& visit);
  std::size_t max_;
  std::string line_, name_, data_;
  bool has_data_ = false, after_cr_ = false, first_ = true, too_big_ = false;
};

}  // namespace sculler::llm
