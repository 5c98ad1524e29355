// The words of docs/statuses.md: what a verdict's `status` can be.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace sculler::status {

inline constexpr const char* kPassed = "PASSED";
inline constexpr const char* kLintError = "LINT_ERROR";
inline constexpr const char* kCompileError = "COMPILE_ERROR";
inline constexpr const char* kLaunchError = "LAUNCH_ERROR";
inline constexpr const char* kUnsupported = "UNSUPPORTED";
inline constexpr const char* kIncorrect = "INCORRECT";
inline constexpr const char* kRace = "RACE";
inline constexpr const char* kDeadlock = "DEADLOCK";
inline constexpr const char* kHang = "HANG";
inline constexpr const char* kUninitialised = "UNINITIALISED";
inline constexpr const char* kOutOfBounds = "OUT_OF_BOUNDS";
inline constexpr const char* kTimeout = "TIMEOUT";
inline constexpr const char* kOom = "OOM";
inline constexpr const char* kCrash = "CRASH";
inline constexpr const char* kImplausible = "IMPLAUSIBLE";
inline constexpr const char* kCheat = "CHEAT";
inline constexpr const char* kAmbiguous = "AMBIGUOUS";
inline constexpr const char* kInternal = "INTERNAL";  // about the evaluator, not the candidate

inline constexpr std::array<std::string_view, 18> kAll{
    kPassed, kLintError, kCompileError, kLaunchError,   kUnsupported, kIncorrect,
    kRace,   kDeadlock,  kHang,         kUninitialised, kOutOfBounds, kTimeout,
    kOom,    kCrash,     kImplausible,  kCheat,         kAmbiguous,   kInternal};

[[nodiscard]] constexpr bool is_word(std::string_view text) {
  return std::find(kAll.begin(), kAll.end(), text) != kAll.end();
}

}  // namespace sculler::status
