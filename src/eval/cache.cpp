#include "eval/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kManifestEntries = 8;

tl::unexpected<Error> io(const std::string& path, const std::error_code& why) {
  const bool full = why == std::errc::no_space_on_device;
  return fail(Error{
      full ? ErrorCode::kDiskFull : ErrorCode::kIo, why.message(), path, "",
      full ? "Free some space or set --cache to another file system." : "Check the cache folder."});
}

uint64_t bytes_below(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) sum += entry.file_size(ignored);
  }
  return sum;
}

}  // namespace

std::optional<Dependency> observe(const std::string& path) {
  // Compilers read the same few thousand headers again and again.
  static std::mutex mutex;
  static std::map<std::string, Dependency> known;
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const int64_t mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  {
    const std::lock_guard lock(mutex);
    const auto at = known.find(path);
    if (at != known.end() && at->second.size == info.st_size && at->second.mtime_ns == mtime_ns)
      return at->second;
  }
  auto text = real_files().read(path, uint64_t{1} << 28);
  if (!text) return std::nullopt;
  Dependency seen{path, info.st_size, mtime_ns, sha256_hex(*text)};
  const std::lock_guard lock(mutex);
  return known[path] = std::move(seen);
}

bool unchanged(const Dependency& d) {
  struct stat info{};
  if (::stat(d.path.c_str(), &info) != 0 || info.st_size != d.size) return false;
  if (int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec == d.mtime_ns)
    return true;
  auto text = real_files().read(d.path, uint64_t{1} << 28);
  return text && sha256_hex(*text) == d.sha256;
}

std::string ArtifactCache::object(const std::string& key) const {
  return folder_ + "/objects/" + key.substr(0, 2) + "/" + key;
}
std::string ArtifactCache::manifest(const std::string& source_key) const {
  return folder_ + "/manifests/" + source_key.substr(0, 2) + "/" + source_key + ".json";
}

Status ArtifactCache::open() {
  std::error_code why;
  for (const char* part : {"/objects", "/manifests", "/staged"}) {
    fs::create_directories(folder_ + part, why);
    if (why) return io(folder_ + part, why);
  }
  // What a killed evaluator left: a staged folder names its process.
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ + "/staged", ignored)) {
    const std::string name = entry.path().filename();
    const int pid = std::atoi(name.c_str());
    if (pid > 0 && ::access(("/proc/" + std::to_string(pid)).c_str(), F_OK) != 0)
      fs::remove_all(entry.path(), ignored);
  }
  return {};
}

std::optional<std::string> ArtifactCache::find(const std::string& key) {
  const std::string path = object(key);
  std::error_code why;
  if (!fs::exists(path + "/meta.json", why)) return std::nullopt;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return path;
}

Result<std::string> ArtifactCache::stage() {
  static std::atomic<uint64_t> counter{0};
  const std::string path = folder_ + "/staged/" + std::to_string(::getpid()) + "-" +
                           std::to_string(counter.fetch_add(1));
  std::error_code why;
  fs::remove_all(path, why);
  fs::create_directories(path, why);
  if (why) return io(path, why);
  return path;
}

Result<std::string> ArtifactCache::insert(const std::string& key, const std::string& staged) {
  const std::string path = object(key);
  std::error_code why;
  fs::create_directories(fs::path(path).parent_path(), why);
  if (why) return io(path, why);
  fs::rename(staged, path, why);
  if (why) {
    std::error_code ignored;
    if (fs::exists(path + "/meta.json", ignored)) {
      fs::remove_all(staged, ignored);
      return path;
    }
    return io(path, why);
  }
  return path;
}

std::optional<std::string> ArtifactCache::find_by_source(const std::string& source_key) {
  const std::string path = manifest(source_key);
  auto text = real_files().read(path, uint64_t{16} << 20);
  if (!text) return std::nullopt;
  auto parsed = parse_json(*text, path);
  if (!parsed || !parsed->is_array()) return std::nullopt;
  for (const auto& entry : *parsed) {
    const auto* needs = find_member(entry, "needs");
    if (needs == nullptr || !needs->is_array()) continue;
    const bool same = std::all_of(needs->begin(), needs->end(), [](const auto& d) {
      return unchanged({string_or(d, "path", ""), int_or(d, "size", -1), int_or(d, "mtime_ns", 0),
                        string_or(d, "sha256", "")});
    });
    if (!same) continue;
    const std::string key = string_or(entry, "key", "");
    if (key.size() == 64 && find(key)) return key;
  }
  return std::nullopt;
}

void ArtifactCache::remember_source(const std::string& source_key, const std::string& key,
                                    const std::vector<Dependency>& needs) {
  const std::string path = manifest(source_key);
  nlohmann::json entries = nlohmann::json::array();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& d : needs) {
    list.push_back(
        {{"path", d.path}, {"size", d.size}, {"mtime_ns", d.mtime_ns}, {"sha256", d.sha256}});
  }
  entries.push_back({{"key", key}, {"needs", list}});
  if (auto old = real_files().read(path, uint64_t{16} << 20)) {
    if (auto parsed = parse_json(*old, path); parsed && parsed->is_array()) {
      for (const auto& entry : *parsed) {
        if (entries.size() < kManifestEntries && string_or(entry, "key", "") != key)
          entries.push_back(entry);
      }
    }
  }
  // A manifest that is lost costs a compilation, nothing else: no error is reported.
  if (!real_files().mkdirs(parent_path(path))) return;
  (void)real_files().write_atomic(path, dump_json(entries));
}

namespace {

struct Item {
  fs::path path;
  fs::file_time_type used;
  uint64_t bytes;
};

// Drops items, least recently used first, where they are above the bound; the bytes that are left.
template <class Drop>
uint64_t drop_oldest(std::vector<Item> items, uint64_t max_bytes, const Drop& drop) {
  uint64_t sum = 0;
  for (const auto& item : items) sum += item.bytes;
  if (sum <= max_bytes) return sum;
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.used < b.used; });
  for (const auto& item : items) {
    if (sum <= max_bytes - max_bytes / 10 || !drop(item.path)) break;
    sum -= item.bytes;
  }
  return sum;
}

}  // namespace

uint64_t ArtifactCache::trim() {
  std::vector<Item> items;
  std::error_code why;
  for (const auto& shard : fs::directory_iterator(folder_ + "/objects", why)) {
    std::error_code inner;
    for (const auto& entry : fs::directory_iterator(shard.path(), inner)) {
      std::error_code ignored;
      items.push_back(
          {entry.path(), fs::last_write_time(entry.path(), ignored), bytes_below(entry.path())});
    }
  }
  return drop_oldest(std::move(items), max_bytes_, [&](const fs::path& path) {
    // Out of sight first, so that no reader finds half an object.
    auto grave = stage();
    if (!grave) return false;
    fs::rename(path, *grave + "/old", why);
    fs::remove_all(*grave, why);
    return true;
  });
}

uint64_t trim_files(const std::string& folder, uint64_t max_bytes) {
  std::vector<Item> items;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    std::error_code gone;  // another evaluator may be at it
    const uint64_t bytes = entry.file_size(gone);
    if (!gone) items.push_back({entry.path(), entry.last_write_time(gone), bytes});
  }
  return drop_oldest(std::move(items), max_bytes, [&](const fs::path& path) {
    fs::remove(path, why);
    return true;
  });
}

}  // namespace sculler::eval
