// Numbers of the CUDA, NCCL and cuBLAS C interfaces that the device layer returns or takes. They
// are part of those libraries' stable ABIs (driver_types.h, nccl.h, cublas_api.h, library_types.h);
// the drop-ins, which are compiled against the real headers, assert that these agree.
#pragma once

#include <cstdint>

namespace sculler::emu {

// cudaError_t; CUresult has the same numbers where both exist.
enum CudaCode : int {
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaMemoryAllocation = 2,
  kCudaInvalidConfiguration = 9,
  kCudaInvalidPitchValue = 12,
  kCudaInvalidSymbol = 13,
  kCudaInvalidMemcpyDirection = 21,
  kCudaInvalidDeviceFunction = 98,
  kCudaInvalidDevice = 101,
  kCudaInvalidKernelImage = 200,
  kCudaInvalidResourceHandle = 400,
  kCudaSymbolNotFound = 500,
  kCudaNotReady = 600,
  kCudaIllegalAddress = 700,
  kCudaLaunchOutOfResources = 701,
  kCudaLaunchTimeout = 702,
  kCudaAssert = 710,
  kCudaIllegalInstruction = 715,
  kCudaMisalignedAddress = 716,
  kCudaLaunchFailure = 719,
  kCudaCooperativeLaunchTooLarge = 720,
  kCudaNotSupported = 801,
  kCudaStreamCaptureUnsupported = 900,
  kCudaStreamCaptureInvalidated = 901,
  kCudaStreamCaptureMerge = 902,
  kCudaStreamCaptureUnmatched = 903,
  kCudaStreamCaptureUnjoined = 904,
  kCudaStreamCaptureIsolation = 905,
  kCudaStreamCaptureImplicit = 906,
  kCudaCapturedEvent = 907,
  kCudaStreamCaptureWrongThread = 908,
  kCudaInvalidClusterSize = 912,
  kCudaUnknown = 999,
};

// ncclResult_t
enum NcclCode : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
};

// ncclDataType_t
enum class NcclType : uint8_t {
  kInt8 = 0,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat8e4m3,
  kFloat8e5m2,
};
// ncclRedOp_t, without user-made ones
enum class NcclOp : uint8_t { kSum = 0, kProd, kMax, kMin, kAvg };

// cublasStatus_t
enum CublasCode : int {
  kCublasSuccess = 0,
  kCublasNotInitialized = 1,
  kCublasAllocFailed = 3,
  kCublasInvalidValue = 7,
  kCublasExecutionFailed = 13,
  kCublasNotSupported = 15,
};

// cudaDataType_t
enum class CudaType : uint8_t {
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR8I = 3,
  kR32I = 10,
  kR16BF = 14
};

// Flags of cudaStreamCreateWithFlags, cudaEventCreateWithFlags.
inline constexpr uint32_t kStreamNonBlocking = 1;
inline constexpr uint32_t kEventDisableTiming = 2;

// CUstreamWaitValue_flags
enum class WaitCondition : uint8_t { kGeq = 0, kEq = 1, kAnd = 2, kNor = 3 };

// cudaStreamCaptureMode, cudaStreamCaptureStatus
enum class CaptureMode : uint8_t { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CaptureStatus : uint8_t { kNone = 0, kActive = 1, kInvalidated = 2 };

}  // namespace sculler::emu
