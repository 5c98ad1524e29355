// State spaces at run time, and generic addresses.
#pragma once

#include <cstdint>

#include "emu/vm/state.h"

namespace sculler::emu::vm {

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

// Generic addresses of kernel parameters.
inline constexpr Address kParamWindow = 0x0500'0000'0000;
inline constexpr uint64_t kParamWindowBytes = 1u << 16;

// Where a generic address of this warp points; kGlobal for everything else, null and wild ones too.
[[nodiscard]] inline Space space_of(const Warp& w, Address a) {
  if (a >= kDeviceBase) return Space::kGlobal;
  if (a - w.shared_window < kSharedWindow || a - kSharedBase < kLocalBase - kSharedBase)
    return Space::kShared;
  if (a - kLocalBase < kMaxLocal) return Space::kLocal;
  if (a - kParamWindow < kParamWindowBytes) return Space::kParam;
  return Space::kGlobal;
}

}  // namespace sculler::emu::vm
