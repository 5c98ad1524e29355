#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/files.h"

namespace sculler {
namespace {

// As the real files, any thread may use them; one lock for all of them, since this is a fake.
std::recursive_mutex all_fakes;

Error missing(const std::string& path) {
  return {ErrorCode::kNotFound, "opening it: No such file or directory", path, {}, {}};
}

std::string clean(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

}  // namespace

uint64_t MemoryFiles::used() const {
  uint64_t total = 0;
  for (const auto& [path, text] : files_) total += text.size();
  return total;
}

Status MemoryFiles::put(const std::string& path, std::string text) {
  const std::string name = clean(path);
  if (folders_.count(parent_path(name)) == 0) return fail(missing(parent_path(name)));
  const auto old = files_.find(name);
  const uint64_t others = used() - (old == files_.end() ? 0 : old->second.size());
  if (others + text.size() > capacity_) {
    return fail(Error{ErrorCode::kDiskFull,
                      "no room left on the disk while writing it",
                      path,
                      {},
                      "free space there or choose another folder"});
  }
  files_[name] = std::move(text);
  return {};
}

Result<std::string> MemoryFiles::read(const std::string& path, uint64_t max_bytes) {
  const std::scoped_lock lock(all_fakes);
  const auto at = files_.find(clean(path));
  if (at == files_.end()) return fail(missing(path));
  if (at->second.size() > max_bytes) {
    return fail(Error{
        ErrorCode::kBadInput, fmt::format("is larger than {} bytes", max_bytes), path, {}, {}});
  }
  return at->second;
}

Status MemoryFiles::write_atomic(const std::string& path, std::string_view text) {
  const std::scoped_lock lock(all_fakes);
  return put(path, std::string(text));
}

Status MemoryFiles::append(const std::string& path, std::string_view text) {
  const std::scoped_lock lock(all_fakes);
  const auto old = files_.find(clean(path));
  std::string whole = old == files_.end() ? std::string() : old->second;
  return put(path, whole.append(text));
}

Result<std::vector<std::string>> MemoryFiles::list(const std::string& path) {
  const std::scoped_lock lock(all_fakes);
  const std::string folder = clean(path);
  if (folders_.count(folder) == 0) return fail(missing(path));
  std::set<std::string> names;
  for (const auto& [name, text] : files_) {
    if (parent_path(name) == folder) names.insert(file_name(name));
  }
  for (const auto& name : folders_) {
    if (name != folder && name != "." && parent_path(name) == folder) names.insert(file_name(name));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

bool MemoryFiles::exists(const std::string& path) {
  const std::scoped_lock lock(all_fakes);
  return files_.count(clean(path)) > 0 || is_folder(path);
}

bool MemoryFiles::is_folder(const std::string& path) {
  const std::scoped_lock lock(all_fakes);
  return folders_.count(clean(path)) > 0;
}

Status MemoryFiles::mkdirs(const std::string& path) {
  const std::scoped_lock lock(all_fakes);
  for (std::string at = clean(path); folders_.insert(at).second;) at = parent_path(at);
  return {};
}

Status MemoryFiles::remove_all(const std::string& path) {
  const std::scoped_lock lock(all_fakes);
  const std::string root = clean(path), below = root + "/";
  std::erase_if(files_,
                [&](const auto& f) { return f.first == root || f.first.starts_with(below); });
  std::erase_if(folders_, [&](const auto& f) { return f == root || f.starts_with(below); });
  return {};
}

Result<uint64_t> MemoryFiles::free_bytes(const std::string&) {
  return capacity_ - std::min(capacity_, used());
}

}  // namespace sculler
