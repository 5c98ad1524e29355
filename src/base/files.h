// Files behind an interface. Everything durable goes through write_atomic: a reader sees the old
// text or the new one.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler {

class Files {
 public:
  virtual ~Files() = default;
  // The whole file; kNotFound where there is none, kBadInput above `max_bytes`.
  [[nodiscard]] virtual Result<std::string> read(const std::string& path,
                                                 uint64_t max_bytes = uint64_t{1} << 28) = 0;
  // Temporary file beside it, fsync, rename, fsync of the folder. kDiskFull where there is no room.
  [[nodiscard]] virtual Status write_atomic(const std::string& path, std::string_view text) = 0;
  [[nodiscard]] virtual Status append(const std::string& path, std::string_view text) = 0;
  // Names (not paths) in a folder, sorted; kNotFound where there is none.
  [[nodiscard]] virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  [[nodiscard]] virtual bool exists(const std::string& path) = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) = 0;
  [[nodiscard]] virtual Status mkdirs(const std::string& path) = 0;
  // Nothing there is success. Links are removed, not followed.
  [[nodiscard]] virtual Status remove_all(const std::string& path) = 0;
  // Bytes a writer may still use in the file system that holds `path` (or its nearest parent).
  [[nodiscard]] virtual Result<uint64_t> free_bytes(const std::string& path) = 0;
};

[[nodiscard]] Files& real_files();

// A tree in memory. `capacity` bounds the sum of file sizes, to test a full disk.
class MemoryFiles final : public Files {
 public:
  [[nodiscard]] Result<std::string> read(const std::string& path,
                                         uint64_t max_bytes = uint64_t{1} << 28) override;
  [[nodiscard]] Status write_atomic(const std::string& path, std::string_view text) override;
  [[nodiscard]] Status append(const std::string& path, std::string_view text) override;
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& path) override;
  [[nodiscard]] bool exists(const std::string& path) override;
  [[nodiscard]] bool is_folder(const std::string& path) override;
  [[nodiscard]] Status mkdirs(const std::string& path) override;
  [[nodiscard]] Status remove_all(const std::string& path) override;
  [[nodiscard]] Result<uint64_t> free_bytes(const std::string& path) override;
  void set_capacity(uint64_t bytes) { capacity_ = bytes; }

 private:
  [[nodiscard]] uint64_t used() const;
  [[nodiscard]] Status put(const std::string& path, std::string text);
  std::map<std::string, std::string> files_;
  std::set<std::string> folders_{"/", "."};
  uint64_t capacity_ = UINT64_MAX;
};

// "a/b" of "a" and "b"; `b` alone where it is absolute.
[[nodiscard]] std::string join_path(std::string_view a, std::string_view b);
[[nodiscard]] std::string parent_path(std::string_view path);
[[nodiscard]] std::string file_name(std::string_view path);
// Absolute, "." and ".." resolved as text, links not followed.
[[nodiscard]] std::string absolute_path(std::string_view path);

}  // namespace sculler
