// Asynchronous copies and the barriers in memory that count them.
#pragma once

#include "emu/vm/emit.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

// Makes the copies of these lanes visible, all but the last `keep` committed groups.
void land(Warp& w, uint32_t lanes, uint32_t keep);
// cp.async.mbarrier.arrive, behind `mbarrier`.
void decode_copy_arrive(Emit& e);
void register_mbarrier(DecodeTable& t);

}  // namespace sculler::emu::vm
