#include "verify/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "rank/protocol.h"
#include "verify/describe.h"
#include "verify/host_device.h"

namespace sculler::verify {
namespace {

Outcome broken(const Error& error) {
  Outcome out;
  out.status = status::kInternal;
  out.message = error.text();
  return out;
}

Outcome wrong(std::string message, std::string advice) {
  Outcome out;
  out.status = status::kIncorrect;
  out.message = std::move(message);
  out.advice = std::move(advice);
  return out;
}

Status write_bytes(const std::string& path, const std::vector<std::byte>& data) {
  const rank::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  std::size_t done = 0;
  while (fd && done < data.size()) {
    const auto n = ::write(fd.get(), data.data() + done, data.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (fd && done == data.size()) return {};
  return fail(Error{errno == ENOSPC ? ErrorCode::kDiskFull : ErrorCode::kIo, std::strerror(errno),
                    path, "", "Set TMPDIR to a file system with room."});
}

// The file as the adapter left it: a plain file of exactly that size, no link, no pipe. `why` says
// what it is instead.
bool read_bytes(const std::string& path, std::vector<std::byte>& data, std::string& why) {
  const rank::UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    why = errno == ENOENT ? "was not handed back"
                          : std::string("cannot be read: ") + std::strerror(errno);
    return false;
  }
  if (!S_ISREG(info.st_mode)) {
    why = "is no plain file";
    return false;
  }
  if (static_cast<uint64_t>(info.st_size) != data.size()) {
    why = "has " + std::to_string(info.st_size) + " bytes, not " + std::to_string(data.size());
    return false;
  }
  std::size_t done = 0;
  while (done < data.size()) {
    const auto n =
        ::pread(fd.get(), data.data() + done, data.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      why = "became shorter while it was read";
      return false;
    }
    done += static_cast<std::size_t>(n);
  }
  return true;
}

std::string file_of(const std::string& folder, const BufferSpec& buffer) {
  return folder + "/" + buffer.name + ".bin";
}

}  // namespace

Outcome FileJob::answer(std::string_view request) {
  auto object = parse_json(request, "request", 1 << 16, 4);
  if (!object) return broken(object.error());
  auto what = get_string(*object, "do", "request");
  auto content = get_int(*object, "content", "request", 0, 1 << 20);
  auto folder = get_string(*object, "folder", "request");
  if (!what) return broken(what.error());
  if (!content) return broken(content.error());
  if (!folder) return broken(folder.error());
  const int number = static_cast<int>(*content);
  if (*what == "fill") return fill(number, *folder);
  if (*what == "compare") return compare(number, *folder);
  return broken(Error{ErrorCode::kUsage, "'" + *what + "' is neither fill nor compare"});
}

Outcome FileJob::fill(int content, const std::string& folder) const {
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    const BufferSpec& buffer = job_.buffers[b];
    if (buffer.role != Role::kInput && buffer.role != Role::kInOut) continue;
    const auto data = make_input(job_, 0, static_cast<int>(b), content);
    if (auto done = write_bytes(file_of(folder, buffer), data); !done) return broken(done.error());
  }
  Outcome out;
  out.status = status::kPassed;
  return out;
}

Outcome FileJob::compare(int content, const std::string& folder) {
  Outcome out;
  out.status = status::kPassed;
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    const BufferSpec& buffer = job_.buffers[b];
    if (buffer.role != Role::kOutput && buffer.role != Role::kInOut) continue;
    auto expected = reference_.expected(content, 0, static_cast<int>(b));
    if (!expected) return broken(expected.error());
    std::vector<std::byte> data(buffer.bytes);
    std::string why;
    if (!read_bytes(file_of(folder, buffer), data, why))
      return wrong("output " + buffer.name + " " + why, "write every output in every run");
    const Comparison c = compare_host(buffer, data.data(), **expected, job_.tolerance);
    if (!(c.relative_l2 <= out.errors.relative_l2)) {
      out.errors = c;
      out.buffer = buffer.name;
    }
    if (c.passes(job_.tolerance)) continue;
    auto complaint = describe_incorrect(buffer, c, job_.tolerance, "");
    out.status = status::kIncorrect;
    out.message = std::move(complaint.message);
    out.advice = std::move(complaint.advice);
    out.errors = c;
    out.buffer = buffer.name;
    return out;
  }
  return out;
}

}  // namespace sculler::verify
