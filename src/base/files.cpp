#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace sculler {
namespace {

namespace fs = std::filesystem;

Error system_error(int number, const std::string& path, std::string_view what) {
  if (number == ENOSPC || number == EDQUOT) {
    return {ErrorCode::kDiskFull,
            fmt::format("no room left on the disk while {}", what),
            path,
            {},
            "free space there or choose another folder"};
  }
  const ErrorCode code =
      number == ENOENT || number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {code, fmt::format("{}: {}", what, std::strerror(number)), path, {}, {}};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  [[nodiscard]] int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

class RealFiles final : public Files {
 public:
  Result<std::string> read(const std::string& path, uint64_t max_bytes) override {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.ok()) return fail(system_error(errno, path, "opening it"));
    struct stat info{};
    if (fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return fail(Error{ErrorCode::kBadInput, "is a folder, a file is expected", path, {}, {}});
    }
    std::string text;
    text.resize(
        std::min<uint64_t>(static_cast<uint64_t>(std::max<off_t>(info.st_size, 0)), max_bytes));
    std::size_t used = 0;
    for (;;) {
      if (used == text.size()) text.resize(std::max<std::size_t>(4096, used * 2));
      const ssize_t n = ::read(file.get(), text.data() + used, text.size() - used);
      if (n < 0) {
        if (errno == EINTR) continue;
        return fail(system_error(errno, path, "reading it"));
      }
      if (n == 0) break;
      used += static_cast<std::size_t>(n);
      if (used > max_bytes) {
        return fail(Error{
            ErrorCode::kBadInput, fmt::format("is larger than {} bytes", max_bytes), path, {}, {}});
      }
    }
    text.resize(used);
    return text;
  }

  Status write_atomic(const std::string& path, std::string_view text) override {
    static std::atomic<uint64_t> counter{0};
    const std::string temporary =
        fmt::format("{}.tmp.{}.{}", path, ::getpid(), counter.fetch_add(1));
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.ok()) return fail(system_error(errno, path, "creating it"));
    int error = write_all(file.get(), text);
    if (error == 0 && ::fsync(file.get()) != 0) error = errno;
    if (file.close() != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) {
      ::unlink(temporary.c_str());
      return fail(system_error(error, path, "writing it"));
    }
    const Descriptor folder(::open(parent_path(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.ok()) ::fsync(folder.get());
    return {};
  }

  Status append(const std::string& path, std::string_view text) override {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file.ok()) return fail(system_error(errno, path, "opening it"));
    if (const int error = write_all(file.get(), text); error != 0) {
      return fail(system_error(error, path, "writing it"));
    }
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    DIR* folder = ::opendir(path.c_str());
    if (folder == nullptr) return fail(system_error(errno, path, "listing it"));
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
  }

  bool exists(const std::string& path) override { return ::access(path.c_str(), F_OK) == 0; }

  bool is_folder(const std::string& path) override {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  Status mkdirs(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail(system_error(error.value(), path, "making the folder"));
    return {};
  }

  Status remove_all(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return fail(system_error(error.value(), path, "removing it"));
    return {};
  }

  Result<uint64_t> free_bytes(const std::string& path) override {
    std::string at = absolute_path(path);
    while (!exists(at) && at != "/") at = parent_path(at);
    struct statvfs info{};
    if (::statvfs(at.c_str(), &info) != 0)
      return fail(system_error(errno, at, "asking for free space"));
    return uint64_t{info.f_bavail} * info.f_frsize;
  }
};

}  // namespace

Files& real_files() {
  static RealFiles files;
  return files;
}

std::string join_path(std::string_view a, std::string_view b) {
  if (a.empty() || (!b.empty() && b.front() == '/')) return std::string(b);
  if (b.empty()) return std::string(a);
  std::string out(a);
  if (out.back() != '/') out += '/';
  return out.append(b);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string file_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string absolute_path(std::string_view path) {
  std::error_code error;
  fs::path full = fs::absolute(fs::path(path), error);
  if (error) full = fs::path(path);
  std::string out = full.lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace sculler
