// What this machine's cores reach: measured by a program that is compiled here, kept as the
// hardware profile `cpu`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"

namespace sculler::cli {

// One line of src/cli/calibrate/ceilings.cpp. GB/s, GFLOP/s, or ns for latency.
struct CeilingFigure {
  std::string rate, implementation;
  int threads = 1;
  double value = 0;
};

// Lines that are no such object, and figures that are not above 0, are left out.
[[nodiscard]] std::vector<CeilingFigure> parse_ceilings(std::string_view text);
// The best of a rate over all implementations and numbers of threads (for latency the least); null
// where there is none.
[[nodiscard]] const CeilingFigure* best_ceiling(const std::vector<CeilingFigure>& figures,
                                                std::string_view rate);
// A profile (src/task/profile.h) with the best of each rate in [measured] and every figure below
// it. kBadInput where a rate is missing.
[[nodiscard]] Result<std::string> ceilings_profile(const std::vector<CeilingFigure>& figures,
                                                   std::string_view machine);

// Measures and writes FOLDER/cpu.toml (`into` empty: the user's profiles); prints a table or JSON.
[[nodiscard]] Status measure_ceilings(App& app, const std::string& into, double seconds,
                                      int threads);

}  // namespace sculler::cli
