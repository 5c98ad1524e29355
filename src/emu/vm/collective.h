// Instructions that lanes of a warp execute together.
#pragma once

#include "emu/vm/emit.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

// Whether all living `members` execute this op now; if not, the group has to wait for them
// (Act::kRetry).
bool gathered(Warp& w, uint32_t members);
// Writes what bar.red gives to the lanes of a group that waited at it.
void finish_reduction(Warp& w, const Group& g, const BarrierState& b);
// bar.warp.sync; false where it is another barrier.
bool decode_warp_barrier(Emit& e);

}  // namespace sculler::emu::vm
