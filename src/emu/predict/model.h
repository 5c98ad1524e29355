// What one operation of a trace asks of the machine at the real size. Inside predict/.
#pragma once

#include <string>

#include "emu/predict/predict.h"

namespace sculler::emu {

// A load on the machine: `fixed` seconds in which it only occupies its place, then `work` seconds
// at full speed.
struct Demand {
  enum class Kind : uint8_t { kNothing, kKernel, kGemm, kNccl, kPeerCopy, kOtherCopy };
  Kind kind = Kind::kNothing;
  double fixed = 0, work = 0;
  double sms = 0;   // wanted
  double link = 0;  // bytes/s of a direction at full speed
  int to = -1,
      from = -1;       // copies: whose port takes in, whose gives; -1 with a link: this rank's both
  double host = 0;     // the call
  bool meets = false;  // a kernel that waits for its counterparts on the other ranks
  const char* bound = "latency";
};

// Growth from the emulated to the real size.
struct Growth {
  double flops = 1, hbm = 1, link = 1;
  double hbm_bytes = 0;       // of a rank at the real size: no kernel moves more through memory
  double emulated_flops = 0;  // of a rank at the emulated size
};
[[nodiscard]] Growth growth(const task::Work& emulated, const task::Work& real);

// `instructions`: of the kernel, the least over the ranks (waiting adds to the others).
[[nodiscard]] Demand demand(const Trace& trace, const TraceOp& op, double instructions,
                            const Growth& growth, const Rates& rates);

}  // namespace sculler::emu
