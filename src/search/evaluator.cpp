#include "search/evaluator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/files.h"
#include "base/strings.h"
#include "search/verdict.h"

namespace sculler::search {
namespace {

constexpr int kMaxDeaths = 3;
constexpr std::size_t kMaxVerdict = std::size_t{32} << 20;

}  // namespace

Status FakeEvaluator::submit(const std::string& id, std::string line) {
  queue_.emplace_back(id, std::move(line));
  ++submitted_;
  return {};
}

Result<std::optional<Answer>> FakeEvaluator::next(int64_t) {
  if (queue_.empty()) return std::optional<Answer>();
  auto [id, line] = std::move(queue_.front());
  queue_.pop_front();
  return std::optional<Answer>(Answer{id, judge_(id, line)});
}

ProcessEvaluator::ProcessEvaluator(Processes& processes, Clock& clock, SpawnOptions command,
                                   std::string log_path)
    : processes_(processes),
      clock_(clock),
      command_(std::move(command)),
      log_path_(std::move(log_path)) {
  command_.in = Stdio::pipe();
  command_.out = Stdio::pipe();
  command_.err = log_path_.empty() ? Stdio::null() : Stdio::append(log_path_);
  ::signal(SIGPIPE, SIG_IGN);  // a dead evaluator is seen by write()
}

ProcessEvaluator::~ProcessEvaluator() {
  if (!child_) return;
  child_->close_stdin();
  if (!child_->wait(open_.empty() ? 3000 : 0)) child_->kill_tree();
}

Status ProcessEvaluator::ensure_started() {
  if (broken_) return fail(*broken_);
  if (child_) return {};
  auto spawned = processes_.spawn(command_);
  if (!spawned) return fail(spawned.error());
  child_ = std::move(*spawned);
  for (const int fd : {child_->stdin_fd(), child_->stdout_fd()})
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  last_sign_ns_ = clock_.now_ns();
  out_.clear();
  out_at_ = 0;
  in_.clear();
  for (const auto& job : order_) (out_ += open_.at(job)) += '\n';
  return {};
}

std::string ProcessEvaluator::last_words() const {
  if (log_path_.empty()) return {};
  auto text = real_files().read(log_path_);
  if (!text) return {};
  const auto lines = trim(*text);
  const auto newline = lines.rfind('\n');
  return printable(
      shorten(newline == std::string_view::npos ? lines : lines.substr(newline + 1), 300));
}

void ProcessEvaluator::died() {
  child_->kill_tree();
  const auto status = child_->wait(1000);
  child_.reset();
  ++restarts_;
  ++deaths_in_a_row_;
  if (deaths_in_a_row_ < kMaxDeaths) {
    if (deaths_in_a_row_ > 1) clock_.sleep_ns(200'000'000);
    return;
  }
  Error error{ErrorCode::kChildFailed,
              fmt::format("the evaluator ended {} times without a verdict ({})", kMaxDeaths,
                          status ? status->text() : "killed"),
              log_path_,
              {},
              "run sculler doctor, then sculler resume"};
  if (status && status->code == static_cast<int>(ErrorCode::kDiskFull)) {
    error.code = ErrorCode::kDiskFull;
    error.message = "no room left on the disk for the evaluator";
    error.cure = "free space, then sculler resume";
  }
  if (const auto words = last_words(); !words.empty()) error.message += ": " + words;
  broken_ = std::move(error);
}

void ProcessEvaluator::pump_out() {
  while (child_ && out_at_ < out_.size()) {
    const ssize_t n = ::write(child_->stdin_fd(), out_.data() + out_at_, out_.size() - out_at_);
    if (n <= 0) {
      if (n < 0 && errno == EINTR) continue;
      return;  // full, or dead: the read side says which
    }
    out_at_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  out_at_ = 0;
}

void ProcessEvaluator::take_in() {
  char chunk[65536];
  for (;;) {
    const ssize_t n = ::read(child_->stdout_fd(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) return died();
    in_.append(chunk, static_cast<std::size_t>(n));
    last_sign_ns_ = clock_.now_ns();
    std::size_t begin = 0;
    for (std::size_t end = in_.find('\n'); end != std::string::npos; end = in_.find('\n', begin)) {
      std::string line = in_.substr(begin, end - begin);
      begin = end + 1;
      if (trim(line).empty()) continue;  // a sign of life
      auto verdict = parse_verdict(line, "sculler-eval");
      const auto known = verdict ? open_.find(verdict->job) : open_.end();
      if (known == open_.end()) {
        // Not an answer to anything that was asked: a bug in one of the two programs.
        const std::string what =
            verdict ? (verdict->message.empty() ? line : verdict->message) : verdict.error().text();
        broken_ = Error{ErrorCode::kProtocol,
                        "the evaluator said what was not asked: " + printable(shorten(what, 300)),
                        {},
                        {},
                        "use programs of one release"};
        return;
      }
      answers_.push_back({verdict->job, std::move(line)});
      order_.erase(std::find(order_.begin(), order_.end(), known->first));
      open_.erase(known);
      deaths_in_a_row_ = 0;
    }
    in_.erase(0, begin);
    if (in_.size() > kMaxVerdict) {
      broken_ = Error{ErrorCode::kProtocol, "the evaluator sent a line without an end", {}, {}, {}};
      return;
    }
  }
}

Status ProcessEvaluator::submit(const std::string& id, std::string line) {
  if (auto ok = ensure_started(); !ok) return ok;
  if (open_.count(id) > 0) return {};
  if (open_.empty()) last_sign_ns_ = clock_.now_ns();
  (out_ += line) += '\n';
  open_.emplace(id, std::move(line));
  order_.push_back(id);
  pump_out();
  return {};
}

Result<std::optional<Answer>> ProcessEvaluator::next(int64_t timeout_ms) {
  const int64_t end = clock_.now_ns() + timeout_ms * 1'000'000;
  for (;;) {
    if (!answers_.empty()) {
      std::optional<Answer> answer(std::move(answers_.front()));
      answers_.pop_front();
      return answer;
    }
    if (open_.empty()) return std::optional<Answer>();
    if (auto ok = ensure_started(); !ok) return fail(ok.error());
    pump_out();
    const int64_t left_ms = std::max<int64_t>(0, (end - clock_.now_ns()) / 1'000'000);
    pollfd polls[3] = {{child_->stdout_fd(), POLLIN, 0},
                       {out_.empty() ? -1 : child_->stdin_fd(), POLLOUT, 0},
                       {wake_fd_, POLLIN, 0}};
    const int ready = ::poll(polls, 3, static_cast<int>(std::min<int64_t>(left_ms, 1 << 30)));
    if (ready == 0) {
      if (clock_.now_ns() - last_sign_ns_ > stall_ms_ * 1'000'000) died();
      return std::optional<Answer>();
    }
    if (ready < 0 && errno == EINTR) return std::optional<Answer>();
    if (polls[0].revents != 0) take_in();
    else if (polls[2].revents != 0) return std::optional<Answer>();
  }
}

}  // namespace sculler::search
