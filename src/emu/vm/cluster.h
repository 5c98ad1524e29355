// Blocks of one cluster: their shared memory and their barrier. A shared address of 32 bits is an
// offset in the own block's window; mapa gives one that names a block of the cluster in its top
// byte. Generic addresses of shared memory are those of the blocks' windows.
#pragma once

#include "emu/vm/access.h"
#include "emu/vm/state.h"

namespace sculler::emu::vm {

inline constexpr uint32_t kClusterShift = 24;

[[nodiscard]] inline Address window_of(const Block& b) {
  return kSharedBase + b.window * kSharedWindow;
}

// The block that an address of shared memory (own offset, mapped or generic) names and the offset
// in its window; null where it is none of the cluster's blocks, or one that has exited.
[[nodiscard]] Block* block_of(const Warp& w, uint64_t address, uint64_t* offset);

struct SharedPlace {
  Block* block = nullptr;
  uint32_t offset = 0;  // in the window
  uint8_t* pointer = nullptr;
  Address generic = 0;
};
// `bytes` bytes of shared memory for lane `lane` to touch; false: a fault.
bool shared_place(Warp& w, uint64_t address, uint64_t bytes, uint32_t align, Access access,
                  int lane, SharedPlace* out);

// barrier.cluster, behind these two words.
void decode_cluster_barrier(Emit& e);

}  // namespace sculler::emu::vm
