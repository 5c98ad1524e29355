// Parts of `sculler calibrate` that need no GPU, and what it shares with `sculler bench ceilings`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/app.h"

namespace sculler::cli {

// "key value" lines of the measuring program; comments and nonsense are left out.
[[nodiscard]] std::vector<std::pair<std::string, double>> parse_rates(std::string_view text);
// The profile's text with these keys of [measured] replaced, everything else byte for byte.
[[nodiscard]] Result<std::string> with_rates(
    std::string_view profile, const std::vector<std::pair<std::string, double>>& rates,
    std::string_view origin);

// Absolute path of the folder for a measured profile: `into`, or the user's where it is empty.
[[nodiscard]] Result<std::string> profile_folder(const App& app, const std::string& into);

// A measuring program: src/cli/calibrate/<source>.
struct Measuring {
  std::string source;
  std::vector<std::string> compiler;   // the compiler and its options, before the source
  std::vector<std::string> libraries;  // behind it
  std::vector<std::string> arguments;  // of the program
  int64_t timeout_ms = 300'000;        // of its run
};
// Compiles the program into `folder`, which is made where it is missing, runs and removes it; gives
// what it prints.
[[nodiscard]] Result<std::string> measure(App& app, const Home& home, const std::string& folder,
                                          const Measuring& m);

}  // namespace sculler::cli
