#include "eval/machine_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "eval/stopwatch.h"

namespace sculler::eval {
namespace {

// Two bytes of the file: whoever is next holds the first until it has the second, so that a stream
// of checks cannot keep a timing out.
constexpr off_t kNext = 0, kWork = 1;

// Locks of an open file description: not lost when another descriptor of the file is closed.
bool set(int fd, short type, off_t byte) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool wait_for(int fd, short type, off_t byte, std::chrono::steady_clock::time_point start,
              int64_t most_ms) {
  while (!set(fd, type, byte)) {
    if (ms_since(start) >= static_cast<double>(most_ms)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Another user's file is opened without O_CREAT: in sticky folders the kernel may refuse the rest.
int open_lock(const std::string& file) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  const int there = ::open(file.c_str(), flags);
  if (there >= 0) return there;
  const int made = ::open(file.c_str(), flags | O_CREAT, 0666);
  if (made >= 0) (void)::fchmod(made, 0666);  // whatever the umask: all users take turns
  return made;
}

}  // namespace

MachineLock MachineLock::take(const std::string& file, Kind kind, int64_t most_ms) {
  MachineLock lock;
  if (file.empty()) return lock;
  const int fd = open_lock(file);
  if (fd < 0) return lock;
  const auto start = std::chrono::steady_clock::now();
  const bool mine = wait_for(fd, F_WRLCK, kNext, start, most_ms) &&
                    wait_for(fd, kind == Kind::kAlone ? F_WRLCK : F_RDLCK, kWork, start, most_ms);
  set(fd, F_UNLCK, kNext);
  if (mine) lock.fd_ = fd;
  else ::close(fd);
  return lock;
}

MachineLock::~MachineLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string MachineLock::folder() {
  std::error_code error;
  if (const char* asked = std::getenv("SCULLER_LOCK_FOLDER"); asked != nullptr) return asked;
  if (::access("/run/lock", W_OK) == 0) return "/run/lock";
  auto temporary = std::filesystem::temp_directory_path(error);
  return error ? std::string() : temporary.string();
}

}  // namespace sculler::eval
