// Checkers that leave defences out, to show what each is worth (docs/exploits.md). A job may ask
// for one only where sculler-eval was started with --weak-checker, and its verdict says so.
//   naive    one comparison at the end: no poison, the same inputs every time, no race checks
//   races    naive, with the race checker (emu)
//   poison   naive, with poisoned outputs compared after each iteration
//   delays   naive, with fresh inputs, and one rank late
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace sculler::eval {

[[nodiscard]] bool is_weak_checker(std::string_view name);
// Changes a job.json accordingly: one set, few iterations, `checker` for the trusted process.
void weaken(std::string_view name, int n_ranks, nlohmann::json& spec);

}  // namespace sculler::eval
