// What cuTensorMapEncodeTiled writes into a CUtensorMap on the emulator: our own layout of the 128
// opaque bytes, read by the bulk tensor copies of vm/tensor.cpp. All counts are as the CUDA driver
// API defines them; dimension 0 is the innermost.
#pragma once

#include <cstdint>
#include <type_traits>

namespace sculler::emu {

inline constexpr uint32_t kTensorMapMagic = 0x50414d54;  // "TMAP"

struct TensorMap {
  uint32_t magic = kTensorMapMagic;
  uint8_t data_type = 0;  // CUtensorMapDataType
  uint8_t element_bytes = 0;
  uint8_t dims = 0;        // 1 .. 5
  uint8_t interleave = 0;  // CUtensorMapInterleave
  uint8_t swizzle = 0;     // CUtensorMapSwizzle
  uint8_t l2_promotion = 0;
  uint8_t nan_fill = 0;  // out of bounds reads: 0 zero, 1 NaN (CUtensorMapFloatOOBfill)
  uint8_t reserved = 0;
  uint16_t box[5] = {};  // elements a dimension, 1 .. 256
  uint8_t element_stride[5] = {};
  uint8_t reserved2 = 0;
  uint64_t address = 0;     // of element 0, 16-byte aligned
  uint64_t size[5] = {};    // elements a dimension, 1 .. 2^32
  uint64_t stride[4] = {};  // bytes from one index of dimension i + 1 to the next
};
static_assert(std::is_trivially_copyable_v<TensorMap> && sizeof(TensorMap) <= 128);

}  // namespace sculler::emu
