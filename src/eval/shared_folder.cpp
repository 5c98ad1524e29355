#include "eval/shared_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kLargest = uint64_t{256} << 20;  // of one file

struct Piece {
  std::string from, to;  // to: relative
};

Error failed(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kIo, why, path, "evaluator.shared",
               "name a folder with room that this user can write here and on the nodes"};
}

// The files below `from` that `wanted` takes, as pieces below `to`; none where it is no folder.
template <class Wanted>
void add_folder(std::vector<Piece>& pieces, const std::string& from, const std::string& to,
                Wanted wanted) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(from, ignored), end; it != end; it.increment(ignored)) {
    if (!it->is_regular_file(ignored) || !wanted(it->path())) continue;
    pieces.push_back({it->path().string(), to + it->path().string().substr(from.size())});
  }
}

Result<std::string> hash_of(std::vector<Piece>& pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.to < b.to; });
  std::string names;
  for (const auto& piece : pieces) {
    auto text = real_files().read(piece.from, kLargest);
    if (!text) return fail(text.error());
    names += piece.to + " " + sha256_hex(*text) + "\n";
  }
  return sha256_hex(names).substr(0, 16);
}

// All of it is there when the folder `to` is: copied under another name first.
Status copy_all(const std::vector<Piece>& pieces, const std::string& to) {
  if (real_files().is_folder(to)) return {};
  const std::string partial = to + ".partial-" + std::to_string(::getpid());
  std::error_code why;
  for (const auto& piece : pieces) {
    const fs::path file = fs::path(partial) / piece.to;
    fs::create_directories(file.parent_path(), why);
    if (!why) fs::copy_file(piece.from, file, fs::copy_options::overwrite_existing, why);
    if (why) return fail(failed(file.string(), why.message()));
  }
  fs::rename(partial, to, why);
  if (!why) return {};
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  // Another evaluator was faster: its copy is the same.
  if (real_files().is_folder(to)) return {};
  return fail(failed(to, why.message()));
}

}  // namespace

Result<std::unique_ptr<SharedFolder>> SharedFolder::make(const Installation& here,
                                                         const std::string& folder) {
  std::vector<Piece> pieces;
  for (const char* name : {"sculler-eval", "sculler-rank", "sculler-verify", "sculler-vm"}) {
    const std::string program = here.programs + "/" + name;
    if (real_files().exists(program)) pieces.push_back({program, std::string("bin/") + name});
  }
  const auto all = [](const fs::path&) { return true; };
  if (!here.dropins.empty()) {
    add_folder(pieces, here.dropins, "lib", [](const fs::path& path) {
      return path.filename().string().find(".so") != std::string::npos;
    });
  }
  for (const char* part : {"include", "tasks", "profiles"}) {
    if (!here.share.empty()) add_folder(pieces, here.share + "/" + part, part, all);
  }
  if (!here.share.empty()) {
    add_folder(pieces, here.share + "/src", "src", [](const fs::path& path) {
      const auto kind = path.extension();
      return kind == ".h" || kind == ".cu" || kind == ".cuh";
    });
  }
  if (auto made = real_files().mkdirs(folder); !made)
    return fail(failed(folder, made.error().message));
  auto hash = hash_of(pieces);
  if (!hash) return fail(hash.error());
  const std::string root = folder + "/sculler-" + *hash;
  if (auto done = copy_all(pieces, root); !done) return fail(done.error());
  return std::unique_ptr<SharedFolder>(new SharedFolder(here.share, folder, root));
}

Result<std::string> SharedFolder::place(const std::string& path, const char* kind) {
  if (path.empty()) return path;
  if (!share_.empty() && path.starts_with(share_ + "/")) {
    const std::string staged = root_ + path.substr(share_.size());
    if (real_files().exists(staged)) return staged;
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = placed_.find(path); known != placed_.end()) return known->second;
  std::vector<Piece> pieces;
  const std::string name = file_name(path);
  if (real_files().is_folder(path))
    add_folder(pieces, path, name, [](const fs::path&) { return true; });
  else pieces.push_back({path, name});
  auto hash = hash_of(pieces);
  if (!hash) return fail(hash.error());
  const std::string place = folder_ + "/" + kind + "/" + *hash;
  if (auto made = real_files().mkdirs(parent_path(place)); !made)
    return fail(failed(place, made.error().message));
  if (auto done = copy_all(pieces, place); !done) return fail(done.error());
  return placed_[path] = place + "/" + name;
}

Result<Job> SharedFolder::place(const Job& job) {
  Job there = job;
  auto task = place(job.task, "tasks");
  if (!task) return fail(task.error());
  auto profile = place(job.profile, "profiles");
  if (!profile) return fail(profile.error());
  there.task = std::move(*task);
  there.profile = std::move(*profile);
  return there;
}

}  // namespace sculler::eval
