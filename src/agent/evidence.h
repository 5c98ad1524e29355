// A verdict as a model reads it: what happened, where, with the findings, errors and the timeline.
#pragma once

#include <string>
#include <string_view>

namespace sculler::agent {

// Text of several lines, unfenced, at most about `bytes`. `verdict` is the evaluator's JSON line;
// where it does not parse, only that is said. Paths, times and ids are left out: the same run gives
// the same text.
[[nodiscard]] std::string evidence(std::string_view verdict, std::size_t bytes);

// "PASSED 552 µs predicted, 1.72x the best baseline, 73 % of SOL" or "RACE at ring.cu:84: …".
[[nodiscard]] std::string verdict_line(std::string_view verdict, double score, std::size_t width);

}  // namespace sculler::agent
