#include <iterator>

#include "driver.h"

namespace sculler::emu::cuda {
namespace {
struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
#define SCULLER_ERROR(code, text) {code, #code, text}
constexpr ErrorText kErrors[] = {
    SCULLER_ERROR(CUDA_SUCCESS, "no error"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    SCULLER_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    SCULLER_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    SCULLER_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    SCULLER_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    SCULLER_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "no kernel image is available for execution on the device"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    SCULLER_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    SCULLER_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    SCULLER_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    SCULLER_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    SCULLER_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    SCULLER_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    SCULLER_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    SCULLER_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    SCULLER_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    SCULLER_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    SCULLER_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    SCULLER_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    SCULLER_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    SCULLER_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  "operation not permitted when stream is capturing"),
    SCULLER_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef SCULLER_ERROR
const ErrorText* find(CUresult code) {
  for (const ErrorText& e : kErrors) {
    if (e.code == code) return &e;
  }
  return nullptr;
}
}  // namespace

CUresult not_supported(const char* function, const char* why) {
  return result(client::unsupported(function, why));
}

SCULLER_EXPORT_C CUresult cuGetErrorString(CUresult code, const char** text) {
  const ErrorText* e = find(code);
  *text = e != nullptr ? e->text : nullptr;
  return e != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SCULLER_EXPORT_C CUresult cuGetErrorName(CUresult code, const char** text) {
  const ErrorText* e = find(code);
  *text = e != nullptr ? e->name : nullptr;
  return e != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace sculler::emu::cuda
