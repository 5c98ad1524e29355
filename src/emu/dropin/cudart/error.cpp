#include <atomic>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {
thread_local int t_last = 0;
std::atomic<int> g_sticky{0};

// After these the context is broken until the process ends.
bool is_sticky(int code) {
  return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}
}  // namespace

cudaError_t finish(int code) {
  if (is_sticky(code)) g_sticky = code;
  if (code != cudaSuccess && code != cudaErrorNotReady) t_last = code;
  return static_cast<cudaError_t>(code);
}

cudaError_t not_supported(const char* function, const char* why) {
  return finish(client::unsupported(function, why));
}

SCULLER_EXPORT_C cudaError_t cudaGetLastError() {
  const int code = g_sticky != 0 ? g_sticky.load() : t_last;
  t_last = 0;
  return static_cast<cudaError_t>(code);
}
SCULLER_EXPORT_C cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(g_sticky != 0 ? g_sticky.load() : t_last);
}

namespace {
struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
#define SCULLER_ERROR(code, text) {code, #code, text}
constexpr ErrorText kErrors[] = {
    SCULLER_ERROR(cudaSuccess, "no error"),
    SCULLER_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SCULLER_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SCULLER_ERROR(cudaErrorInitializationError, "initialization error"),
    SCULLER_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    SCULLER_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SCULLER_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    SCULLER_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    SCULLER_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SCULLER_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    SCULLER_ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    SCULLER_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SCULLER_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SCULLER_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SCULLER_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    SCULLER_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    SCULLER_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    SCULLER_ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    SCULLER_ERROR(cudaErrorUnsupportedPtxVersion,
                  "the provided PTX was compiled with an unsupported toolchain."),
    SCULLER_ERROR(cudaErrorInvalidSource, "device kernel image is invalid"),
    SCULLER_ERROR(cudaErrorFileNotFound, "file not found"),
    SCULLER_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SCULLER_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    SCULLER_ERROR(cudaErrorNotReady, "device not ready"),
    SCULLER_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SCULLER_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SCULLER_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    SCULLER_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SCULLER_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SCULLER_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SCULLER_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                  "part or all of the requested memory range is already mapped"),
    SCULLER_ERROR(cudaErrorHostMemoryNotRegistered,
                  "pointer does not correspond to a registered memory region"),
    SCULLER_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    SCULLER_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    SCULLER_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    SCULLER_ERROR(cudaErrorInvalidAddressSpace,
                  "operation not supported on global/shared address space"),
    SCULLER_ERROR(cudaErrorInvalidPc, "invalid program counter"),
    SCULLER_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SCULLER_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    SCULLER_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SCULLER_ERROR(cudaErrorNotSupported, "operation not supported"),
    SCULLER_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    SCULLER_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    SCULLER_ERROR(cudaErrorStreamCaptureMerge,
                  "operation would result in a merge of separate capture sequences"),
    SCULLER_ERROR(cudaErrorStreamCaptureUnmatched,
                  "capture was not ended in the same stream as it began"),
    SCULLER_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SCULLER_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    SCULLER_ERROR(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    SCULLER_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing stream"),
    SCULLER_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    SCULLER_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef SCULLER_ERROR

const ErrorText* find(cudaError_t code) {
  for (const ErrorText& e : kErrors) {
    if (e.code == code) return &e;
  }
  return nullptr;
}
}  // namespace

SCULLER_EXPORT_C const char* cudaGetErrorName(cudaError_t code) {
  const ErrorText* e = find(code);
  return e != nullptr ? e->name : "unrecognized error code";
}
SCULLER_EXPORT_C const char* cudaGetErrorString(cudaError_t code) {
  const ErrorText* e = find(code);
  return e != nullptr ? e->text : "unrecognized error code";
}

}  // namespace sculler::emu::cudart
