// The stressed variant of a CUDA candidate: sleeps at the synchronisation points of its PTX, on the
// rank that SCULLER_STRESS_RANK names, so that the rank is late inside the region wherever others
// may wait for it (docs/measuring.md).
#pragma once

#include <string>
#include <string_view>

namespace sculler::eval {

inline constexpr const char* kStressRank = "SCULLER_STRESS_RANK";  // of the ranks' environment

// The candidate's source with the device variable that the sleeps read and a sculler_setup that
// sets it on the slow rank.
[[nodiscard]] std::string stressed_source(std::string_view text);

struct StressedPtx {
  std::string text;
  int points = 0;  // sleeps that were put in
};
// Before every barrier, fence, acquire, release, atomic and mbarrier operation of the module's
// functions: a sleep of `sculler_stress_ns` nanoseconds shifted right by a few bits of the clock.
// A module without the variable, or without such operations, comes back as it was (points 0).
[[nodiscard]] StressedPtx stress_ptx(std::string_view ptx);

}  // namespace sculler::eval
