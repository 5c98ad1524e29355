// Asynchronous copies and the barriers in memory that count them.
#pragma once

#include "emu/vm/cluster.h"
#include "emu/vm/emit.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

// Makes the copies of these lanes visible, all but the last `keep` committed groups.
void land(Warp& w, uint32_t lanes, uint32_t keep);
// cp.async.mbarrier.arrive, behind `mbarrier`.
void decode_copy_arrive(Emit& e);
// complete_tx of a bulk copy that has been done; false: a fault.
bool complete_transactions(Warp& w, const SharedPlace& barrier, uint32_t bytes);
struct MbarrierState {
  uint32_t expected = 0, arrived = 0;  // arrivals, in this phase
  int32_t transactions = 0;            // bytes that are still to come
  bool phase = false;                  // parity of the phase that is under way
};
[[nodiscard]] MbarrierState mbarrier_state(uint64_t word);
void register_mbarrier(DecodeTable& t);

// cp.async.bulk, behind `cp` and `cp.reduce`: bulk.cpp, tensor.cpp.
void decode_bulk(Emit& e, bool reduces);
void decode_tensor(Emit& e, bool reduces);

}  // namespace sculler::emu::vm
