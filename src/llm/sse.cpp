#include "llm/sse.h"

namespace sculler::llm {

bool SseParser::dispatch(const Visit& visit) {
  if (!has_data_) {
    name_.clear();
    return true;
  }
  if (!data_.empty()) data_.pop_back();  // the last line end
  const bool more = visit(name_, data_);
  name_.clear();
  data_.clear();
  has_data_ = false;
  return more;
}

bool SseParser::line(std::string_view text, const Visit& visit) {
  if (first_) {
    first_ = false;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  }
  if (text.empty()) return dispatch(visit);
  const auto colon = text.find(':');
  if (colon == 0) return true;  // a comment, sent to keep the connection
  const std::string_view field = text.substr(0, colon);
  std::string_view value =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (data_.size() + value.size() + 1 > max_) {
      too_big_ = true;
      return false;
    }
    data_ += value;
    data_ += '\n';
    has_data_ = true;
  } else if (field == "event") {
    name_ = value;
  }
  return true;
}

bool SseParser::feed(std::string_view piece, const Visit& visit) {
  while (!piece.empty()) {
    if (after_cr_) {  // the second half of CR LF
      after_cr_ = false;
      if (piece.front() == '\n') {
        piece.remove_prefix(1);
        continue;
      }
    }
    const auto end = piece.find_first_of("\r\n");
    const std::string_view part = piece.substr(0, end);
    if (line_.size() + part.size() > max_) {
      too_big_ = true;
      return false;
    }
    if (end == std::string_view::npos) {
      line_ += part;
      return true;
    }
    after_cr_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    if (line_.empty()) {
      if (!line(part, visit)) return false;
      continue;
    }
    line_ += part;
    const std::string whole = std::move(line_);
    line_.clear();
    if (!line(whole, visit)) return false;
  }
  return true;
}

bool SseParser::finish(const Visit& visit) {
  if (!line_.empty()) {
    const std::string whole = std::move(line_);
    line_.clear();
    if (!line(whole, visit)) return false;
  }
  return dispatch(visit);
}

}  // namespace sculler::llm
