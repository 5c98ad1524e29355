#include "llm/secrets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/process.h"
#include "base/strings.h"

namespace sculler::llm {
namespace {

Result<std::string> one_line(std::string text, const std::string& origin) {
  std::string key(trim(text));
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.empty() || !plain || key.size() > 4096) {
    return fail(Error{ErrorCode::kModel,
                      key.empty() ? "is empty" : "is not one line of printable characters",
                      origin,
                      {},
                      "put the key there and nothing else"});
  }
  return key;
}

}  // namespace

void Secrets::add(std::string secret) {
  if (secret.size() < 8) return;
  secrets_.push_back(std::move(secret));
  std::sort(secrets_.begin(), secrets_.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string Secrets::redact(std::string text) const {
  static constexpr std::string_view kPut = "[key]";
  for (const auto& secret : secrets_) {
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), kPut);
      at += kPut.size();
    }
  }
  return text;
}

Result<std::string> key_from_environment(const std::string& variable) {
  std::string value = env_value(variable.c_str());
  if (value.empty()) {
    return fail(Error{ErrorCode::kModel, "the environment variable is not set", variable, "key_env",
                      fmt::format("export {}=… before the run, or use key_file", variable)});
  }
  return one_line(std::move(value), variable);
}

Result<std::string> key_from_file(const std::string& path) {
  const auto bad = [&](std::string what, std::string cure) {
    return fail(Error{ErrorCode::kModel, std::move(what), path, "key_file", std::move(cure)});
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(std::strerror(errno), "put the key into this file, mode 600");
  struct stat info{};
  std::string text;
  std::string problem;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) problem = "is not a file";
  else if (info.st_uid != ::geteuid()) problem = "belongs to another user";
  else if ((info.st_mode & 077) != 0) problem = "can be read by others";
  else {
    char chunk[8192];
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0) problem = std::strerror(errno);
    else text.assign(chunk, static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (!problem.empty()) return bad(problem, fmt::format("chmod 600 {}", path));
  return one_line(std::move(text), path);
}

}  // namespace sculler::llm
