// Compiled artifacts by content: atomic insertion, bounded size with the least recently used
// dropped first, safe for several evaluators on one folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sculler::eval {

// A file that a result depends on, as it was when the result was made.
struct Dependency {
  std::string path;
  int64_t size = 0;
  int64_t mtime_ns = 0;
  std::string sha256;
};

class ArtifactCache {
 public:
  ArtifactCache(std::string folder, uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  [[nodiscard]] Status open();

  // Folder of the object with this key (64 hex digits); marks it used.
  [[nodiscard]] std::optional<std::string> find(const std::string& key);
  // Moves `staged` (a folder made by stage()) in as the object; where another evaluator was first,
  // its object stays and `staged` is removed. Returns the object's folder.
  [[nodiscard]] Result<std::string> insert(const std::string& key, const std::string& staged);
  // A fresh private folder inside of the cache's file system.
  [[nodiscard]] Result<std::string> stage();

  // Direct mode: what was compiled from this source key before, checked against the files that it
  // included.
  [[nodiscard]] std::optional<std::string> find_by_source(const std::string& source_key);
  void remember_source(const std::string& source_key, const std::string& key,
                       const std::vector<Dependency>& needs);

  // Drops objects until the sum is below the bound. Returns the bytes that are left.
  uint64_t trim();

 private:
  [[nodiscard]] std::string object(const std::string& key) const;
  [[nodiscard]] std::string manifest(const std::string& source_key) const;
  std::string folder_;
  uint64_t max_bytes_;
};

// Drops files of a folder, least recently used first, until the sum is below the bound. Returns the
// bytes that are left. Who has one open keeps it.
uint64_t trim_files(const std::string& folder, uint64_t max_bytes);

// Size, time and hash of a file now; nothing where it cannot be read.
[[nodiscard]] std::optional<Dependency> observe(const std::string& path);
// True where the file still has the same size and time, or else the same content.
[[nodiscard]] bool unchanged(const Dependency& dependency);

}  // namespace sculler::eval
