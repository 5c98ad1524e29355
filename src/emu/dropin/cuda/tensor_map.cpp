// Tensor maps for the emulator (emu/vm/tensor_map.h), with the checks that the driver API
// documents.
#include "emu/vm/tensor_map.h"

#include <cstring>

#include "driver.h"

namespace sculler::emu::cuda {
namespace {
int element_bytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}
uint64_t swizzle_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return 0;
  }
}
}  // namespace

SCULLER_EXPORT_C CUresult cuTensorMapEncodeTiled(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t dims, void* address,
    const cuuint64_t* size, const cuuint64_t* stride, const cuuint32_t* box,
    const cuuint32_t* element_stride, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  const int element = element_bytes(type);
  if (out == nullptr || size == nullptr || box == nullptr || element_stride == nullptr ||
      dims < 1 || dims > 5 || (dims > 1 && stride == nullptr) || number(address) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (element == 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
    return not_supported("cuTensorMapEncodeTiled", "this data type, interleave or swizzle");
  }
  TensorMap map;
  map.data_type = static_cast<uint8_t>(type);
  map.element_bytes = static_cast<uint8_t>(element);
  map.dims = static_cast<uint8_t>(dims);
  map.interleave = static_cast<uint8_t>(interleave);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.l2_promotion = static_cast<uint8_t>(l2);
  map.nan_fill = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA ? 1 : 0;
  map.address = number(address);
  for (cuuint32_t i = 0; i < dims; ++i) {
    if (size[i] < 1 || size[i] > (uint64_t{1} << 32) || box[i] < 1 || box[i] > 256 ||
        element_stride[i] < 1 || element_stride[i] > 8) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    map.size[i] = size[i];
    map.box[i] = static_cast<uint16_t>(box[i]);
    map.element_stride[i] = static_cast<uint8_t>(element_stride[i]);
  }
  for (cuuint32_t i = 0; i + 1 < dims; ++i) {
    if (stride[i] % 16 != 0 || stride[i] >= (uint64_t{1} << 40)) return CUDA_ERROR_INVALID_VALUE;
    map.stride[i] = stride[i];
  }
  const uint64_t inner = box[0] * static_cast<uint64_t>(element);
  if (inner % 16 != 0 || (swizzle_bytes(swizzle) != 0 && inner > swizzle_bytes(swizzle)))
    return CUDA_ERROR_INVALID_VALUE;
  static_assert(sizeof(CUtensorMap) == 128);
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}
SCULLER_EXPORT_C CUresult cuTensorMapReplaceAddress(CUtensorMap* out, void* address) {
  if (out == nullptr || number(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  std::memcpy(static_cast<void*>(&map), out, sizeof map);
  if (map.magic != kTensorMapMagic) return CUDA_ERROR_INVALID_VALUE;
  map.address = number(address);
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace sculler::emu::cuda
