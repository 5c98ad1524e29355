// The prediction that a job asks for ("emu.predict" of job.json), as the object that its result
// carries.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "emu/predict/predict.h"

namespace sculler::emu {

// `emu_json`: the job's "emu" object. `trace`: of the last iteration, marked "opened" before its
// opening barrier. Empty where the job asks for no prediction; otherwise
// {"size","latency_us","per_rank_us","timeline":[...]} on one line. Errors: a profile that lacks
// rates, a trace without work.
[[nodiscard]] Result<std::optional<std::string>> predict_job(std::string_view emu_json,
                                                             const Trace& trace, int n_ranks,
                                                             Files& files);

}  // namespace sculler::emu
