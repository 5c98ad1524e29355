#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/strings.h"

namespace sculler {
namespace {

constexpr int64_t kRefreshNs = 100'000'000;
constexpr const char* kErase = "\r\x1b[K";

std::size_t columns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

TerminalProgress::TerminalProgress(std::FILE* stream, Clock& clock)
    : stream_(stream), clock_(clock), terminal_(isatty(fileno(stream)) == 1) {}

TerminalProgress::~TerminalProgress() { TerminalProgress::clear(); }

void TerminalProgress::line(std::string_view text) {
  clear();
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fputc('\n', stream_);
  std::fflush(stream_);
  last_ns_ = 0;
}

void TerminalProgress::live(std::string_view text) {
  if (!terminal_) return;
  const int64_t now = clock_.now_ns();
  if (last_ns_ != 0 && now - last_ns_ < kRefreshNs) return;
  last_ns_ = now;
  const std::string cut = shorten(printable(text), columns(fileno(stream_)) - 1);
  std::fputs(kErase, stream_);
  std::fwrite(cut.data(), 1, cut.size(), stream_);
  std::fflush(stream_);
  shown_ = true;
}

void TerminalProgress::clear() {
  if (!shown_) return;
  std::fputs(kErase, stream_);
  std::fflush(stream_);
  shown_ = false;
}

}  // namespace sculler
