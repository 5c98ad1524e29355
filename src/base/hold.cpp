#include "base/hold.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/strings.h"

namespace sculler {
namespace {

struct Hold {
  std::string point, file;
  int64_t pass = 0;
};

Hold read_hold() {
  const char* text = std::getenv("SCULLER_HOLD");
  if (text == nullptr) return {};
  const auto parts = split(text, ':');
  if (parts.size() != 3) return {};
  return {std::string(parts[0]), std::string(parts[2]), parse_int(parts[1]).value_or(0)};
}

}  // namespace

void hold_point(std::string_view name) {
  static const Hold hold = read_hold();
  if (hold.point != name) return;
  static std::atomic<int64_t> passes{0};
  if (++passes != hold.pass) return;
  const int fd = ::open(hold.file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return;
  ::close(fd);
  for (int i = 0; i < 1000 && ::access((hold.file + ".go").c_str(), F_OK) != 0; ++i)
    ::usleep(20'000);
}

}  // namespace sculler
