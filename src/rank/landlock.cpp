#include "rank/landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace sculler::rank {
namespace {

// linux/landlock.h of the build machine may be older than the kernel that we run on.
constexpr int kCreate = 444, kAddRule = 445, kRestrict = 446;  // the same on every architecture
constexpr uint32_t kVersionFlag = 1;
constexpr int kPathBeneath = 1;
enum Access : uint64_t {
  kExecute = 1U << 0,
  kWriteFile = 1U << 1,
  kReadFile = 1U << 2,
  kReadDir = 1U << 3,
  kRemoveDir = 1U << 4,
  kRemoveFile = 1U << 5,
  kMakeChar = 1U << 6,
  kMakeDir = 1U << 7,
  kMakeReg = 1U << 8,
  kMakeSock = 1U << 9,
  kMakeFifo = 1U << 10,
  kMakeBlock = 1U << 11,
  kMakeSym = 1U << 12,
  kRefer = 1U << 13,     // ABI 2
  kTruncate = 1U << 14,  // ABI 3
};
constexpr uint64_t kScopeSockets = 1, kScopeSignals = 2;  // ABI 6
constexpr uint64_t kOnFiles = kExecute | kWriteFile | kReadFile | kTruncate;

struct RulesetAttr {
  uint64_t handled_fs = 0, handled_net = 0, scoped = 0;
};
struct [[gnu::packed]] PathAttr {
  uint64_t allowed = 0;
  int32_t parent = -1;
};

uint64_t all_access(int abi) {
  uint64_t all = (uint64_t{1} << 13) - 1;
  if (abi >= 2) all |= kRefer;
  if (abi >= 3) all |= kTruncate;
  return all;
}

int create(const RulesetAttr& attr, int abi) {
  // Older kernels know a shorter structure, and refuse a longer one only where its rest is not 0.
  const std::size_t size = abi >= kLandlockScopes ? sizeof attr : abi >= 4 ? 16 : 8;
  return static_cast<int>(::syscall(kCreate, &attr, size, 0));
}

Status allow(int ruleset, const std::string& path, uint64_t access) {
  const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return {};
  struct stat info{};
  if (::fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) access &= kOnFiles;
  const PathAttr attr{access, fd};
  const bool done = ::syscall(kAddRule, ruleset, kPathBeneath, &attr, 0) == 0;
  const int number = errno;
  ::close(fd);
  if (!done) return fail(ErrorCode::kIo, "Landlock: " + path + ": " + std::strerror(number));
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi = ::syscall(kCreate, nullptr, 0, kVersionFlag);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

Result<int> landlock_rules(const LandlockRules& rules) {
  const int abi = landlock_abi();
  if (abi == 0) return -1;
  RulesetAttr attr;
  // A domain must handle something; nobody here makes device nodes.
  attr.handled_fs = rules.files ? all_access(abi) : uint64_t{kMakeBlock};
  if (abi >= kLandlockScopes) {
    if (rules.sockets) attr.scoped |= kScopeSockets;
    if (rules.signals) attr.scoped |= kScopeSignals;
  }
  const int ruleset = create(attr, abi);
  if (ruleset < 0) return fail(ErrorCode::kIo, std::string("Landlock: ") + std::strerror(errno));
  if (!rules.files) return ruleset;
  for (const auto& path : rules.read) {
    if (auto done = allow(ruleset, path, kExecute | kReadFile | kReadDir); !done) {
      ::close(ruleset);
      return fail(done.error());
    }
  }
  for (const auto& path : rules.write) {
    const uint64_t access = all_access(abi) & ~uint64_t{kMakeChar | kMakeBlock};
    if (auto done = allow(ruleset, path, access); !done) {
      ::close(ruleset);
      return fail(done.error());
    }
  }
  return ruleset;
}

Status landlock_enter(int ruleset) {
  const bool done = ::syscall(kRestrict, ruleset, 0) == 0;
  const int number = errno;
  ::close(ruleset);
  if (!done) return fail(ErrorCode::kIo, std::string("Landlock: ") + std::strerror(number));
  return {};
}

bool landlock_separate() {
  LandlockRules rules;
  rules.signals = true;
  auto ruleset = landlock_rules(rules);
  return ruleset && *ruleset >= 0 && landlock_enter(*ruleset).has_value();
}

}  // namespace sculler::rank
