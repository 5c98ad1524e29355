#include "eval/slot_link.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/stopwatch.h"

namespace sculler::eval {
namespace {

constexpr int kSlotVersion = 1;
constexpr std::size_t kLineLimit = std::size_t{32} << 20;  // of a verdict, as sculler takes it
constexpr std::size_t kWordsLimit = 4096;

}  // namespace

std::string print_hello(const SlotHello& hello) {
  return dump_json({{"slot", kSlotVersion}, {"node", hello.node}, {"step", hello.step}});
}

Result<std::optional<SlotHello>> parse_hello(std::string_view line) {
  auto object = parse_json(line, "slot", 4096);
  if (!object || !object->is_object() || find_member(*object, "slot") == nullptr)
    return std::optional<SlotHello>();
  if (int_or(*object, "slot", 0) != kSlotVersion) {
    return fail(Error{ErrorCode::kVersion, "the slot's sculler-eval is of another version", "", "",
                      "use programs of one release on all nodes"});
  }
  return std::optional<SlotHello>(
      SlotHello{printable(shorten(string_or(*object, "node", ""), 255)),
                printable(shorten(string_or(*object, "step", ""), 60))});
}

SlotLink::SlotLink(std::unique_ptr<Child> child, int64_t silence_ms)
    : child_(std::move(child)),
      silence_ms_(silence_ms),
      last_heard_ms_(now_ms()),
      last_said_ms_(last_heard_ms_) {
  for (const int fd : {child_->stdin_fd(), child_->stdout_fd(), child_->stderr_fd()})
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void SlotLink::send(const std::string& line) { (out_ += line) += '\n'; }

void SlotLink::greeted() {
  greeted_ = true;
  last_heard_ms_ = now_ms();
}

std::string SlotLink::last_words() const {
  std::string text(trim(err_));
  std::replace(text.begin(), text.end(), '\n', ';');
  return printable(text.size() > 400 ? "…" + text.substr(text.size() - 400) : text);
}

void SlotLink::pump(int64_t timeout_ms) {
  std::array<pollfd, 3> fds{pollfd{out_open_ ? child_->stdout_fd() : -1, POLLIN, 0},
                            pollfd{err_open_ ? child_->stderr_fd() : -1, POLLIN, 0},
                            pollfd{out_.empty() ? -1 : child_->stdin_fd(), POLLOUT, 0}};
  if (::poll(fds.data(), fds.size(), static_cast<int>(timeout_ms)) <= 0) return;
  const auto take = [&](const pollfd& fd, std::string& into, bool& open) {
    if (fd.fd < 0 || fd.revents == 0) return;
    std::array<char, 65536> chunk;
    const auto n = ::read(fd.fd, chunk.data(), chunk.size());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) open = false;
    if (n <= 0) return;
    into.append(chunk.data(), static_cast<std::size_t>(n));
    last_heard_ms_ = now_ms();
  };
  take(fds[0], in_, out_open_);
  take(fds[1], err_, err_open_);
  if (err_.size() > 2 * kWordsLimit) err_.erase(0, err_.size() - kWordsLimit);
  if (fds[2].fd >= 0 && fds[2].revents != 0) {
    const auto n = ::write(fds[2].fd, out_.data() + out_at_, out_.size() - out_at_);
    if (n > 0) out_at_ += static_cast<std::size_t>(n);
    // A closed input is seen as the end of the output.
    if (out_at_ == out_.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      out_.clear();
      out_at_ = 0;
    }
  }
}

Result<std::optional<std::string>> SlotLink::next(int64_t timeout_ms) {
  const int64_t deadline = now_ms() + timeout_ms;
  for (;;) {
    for (auto end = in_.find('\n', scanned_); end != std::string::npos; end = in_.find('\n')) {
      std::string line = in_.substr(0, end);
      in_.erase(0, end + 1);
      scanned_ = 0;
      if (!trim(line).empty()) return std::optional<std::string>(std::move(line));
    }
    scanned_ = in_.size();
    if (in_.size() > kLineLimit)
      return fail(ErrorCode::kProtocol, "it sent a line without an end",
                  "use programs of one release on all nodes");
    if (!out_open_) {
      const auto status = child_->wait(2000);
      pump(0);
      const std::string words = last_words();
      return fail(ErrorCode::kChildFailed, (status ? status->text() : "it closed its output") +
                                               (words.empty() ? "" : ": " + words));
    }
    const int64_t now = now_ms();
    if (greeted_ && now - last_heard_ms_ > silence_ms_) {
      const std::string words = last_words();
      return fail(ErrorCode::kTimeout, "silent for " + std::to_string(silence_ms_ / 1000) + " s" +
                                           (words.empty() ? "" : ": " + words));
    }
    if (greeted_ && out_.empty() && now - last_said_ms_ >= silence_ms_ / kSlotBeats) {
      out_ = "\n";
      last_said_ms_ = now;
    }
    const int64_t left = deadline - now;
    pump(std::clamp<int64_t>(left, 0, std::max<int64_t>(1, silence_ms_ / kSlotBeats)));
    if (left <= 0 && in_.find('\n', scanned_) == std::string::npos && out_open_)
      return std::optional<std::string>();
  }
}

void SlotLink::finish(int64_t grace_ms, int64_t asked_ms) {
  child_->close_stdin();
  out_.clear();
  for (const bool asked : {false, true}) {
    if (asked) child_->signal(SIGTERM);
    const int64_t deadline = now_ms() + (asked ? asked_ms : grace_ms);
    while (!child_->wait(0) && now_ms() < deadline) {
      if (out_open_ || err_open_) pump(50);
      else if (child_->wait(50)) break;
    }
    if (child_->wait(0)) return;
  }
}

}  // namespace sculler::eval
