// The last iteration of a job as its operations, each with what it read and wrote: what `sculler
// analyze` is made from (docs/internals.md, "Operations").
#pragma once

#include <string>

#include "emu/check/footprint.h"
#include "emu/device/machine.h"
#include "emu/predict/predict.h"

namespace sculler::emu {

// {"spaces":[...],"operations":[...],"truncated":false} as text. `predicted`: of the same
// iteration, its times are put beside the operations; null where there is none, and `untimed` may
// say why.
[[nodiscard]] std::string operations_json(Machine& machine, const Footprint& footprint,
                                          const Prediction* predicted,
                                          const std::string& untimed = {});

}  // namespace sculler::emu
