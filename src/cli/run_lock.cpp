#include "cli/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"

namespace sculler::cli {

Result<RunLock> RunLock::take(const std::string& folder) {
  const std::string path = join_path(folder, "lock");
  RunLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  // A folder in memory (tests) cannot be locked and needs no lock.
  if (lock.fd_ >= 0 && ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    return fail(Error{ErrorCode::kUsage,
                      "another sculler works in this run folder",
                      folder,
                      {},
                      "wait for it, or end it"});
  }
  return lock;
}

RunLock::~RunLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace sculler::cli
