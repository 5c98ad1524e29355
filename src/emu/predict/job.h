// The prediction that a job asks for ("emu.predict" of job.json), as the object that its result
// carries.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "emu/predict/predict.h"

namespace sculler::emu {

struct JobPrediction {
  Prediction prediction;
  std::string json;  // {"size","latency_us","per_rank_us","timeline":[...]} on one line
};

// `emu_json`: the job's "emu" object. `trace`: of the last iteration, marked "opened" before its
// opening barrier. Empty where the job asks for no prediction. Errors: a profile that lacks rates,
// a trace without work.
[[nodiscard]] Result<std::optional<JobPrediction>> predict_job(std::string_view emu_json,
                                                               const Trace& trace, int n_ranks,
                                                               Files& files);

}  // namespace sculler::emu
