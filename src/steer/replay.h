// A policy on a recorded trace: what it would have fetched.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "steer/buffer.h"
#include "steer/controller.h"
#include "steer/trace.h"

namespace sculler::steer {

// Runs one policy over the whole trace. `degree`, `vip` and `massivegnn` begin with the candidates
// that rank highest; policies that know the schedule are told it as far ahead as they want.
// kBadInput where the trace lacks what the policy ranks by.
// With `control` it is asked before every minibatch; its buffer is the replay's.
[[nodiscard]] Result<Counts> replay(const Trace& trace, std::string_view policy, uint64_t capacity,
                                    Controller* control = nullptr);

// The ids that a policy begins with, the best first, no more than fit: of `degree`, `vip` and
// `massivegnn` the candidates that rank highest; others begin empty.
[[nodiscard]] std::vector<uint64_t> rows_to_begin_with(std::vector<Candidate> candidates,
                                                       std::string_view policy, uint64_t capacity);

// "5%" of `of` rows, or a number of rows.
[[nodiscard]] Result<uint64_t> capacity_of(uint64_t of, std::string_view text);
// "5%" of the trace's halo (of its distinct ids where the halo is unknown), or a number of rows.
[[nodiscard]] Result<uint64_t> capacity_of(const Trace& trace, std::string_view text);

}  // namespace sculler::steer
