#include "driver.h"

namespace sculler::emu::cuda {
namespace {
template <wire::Op kOp>
CUresult on(uint64_t handle) {
  wire::OnHandle<kOp> request;
  request.handle = handle;
  return result(client::call(request));
}
CUresult write_value(CUstream s, CUdeviceptr at, uint64_t value, uint8_t bytes, unsigned flags) {
  if ((flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags != 0) return not_supported("cuStreamWriteValue", "without a memory barrier");
  wire::WriteValue request;
  request.stream = number(s);
  request.address = at;
  request.value = value;
  request.bytes = bytes;
  return result(client::call(request));
}
CUresult wait_value(CUstream s, CUdeviceptr at, uint64_t value, uint8_t bytes, unsigned flags) {
  wire::WaitValue request;
  if (flags > CU_STREAM_WAIT_VALUE_NOR)
    return not_supported("cuStreamWaitValue", "with CU_STREAM_WAIT_VALUE_FLUSH");
  request.stream = number(s);
  request.address = at;
  request.value = value;
  request.bytes = bytes;
  request.compare = static_cast<wire::WaitValue::Compare>(flags);
  return result(client::call(request));
}
}  // namespace

SCULLER_EXPORT_C CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  wire::StreamCreate request;
  request.flags = flags;
  request.priority = priority;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  *out = handle_of<CUstream>(reply.handle);
  return result(code);
}
SCULLER_EXPORT_C CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}
SCULLER_EXPORT_C CUresult cuStreamDestroy_v2(CUstream s) {
  return on<wire::Op::kStreamDestroy>(number(s));
}
SCULLER_EXPORT_C CUresult cuStreamSynchronize(CUstream s) {
  return on<wire::Op::kStreamSynchronize>(number(s));
}
SCULLER_EXPORT_C CUresult cuStreamQuery(CUstream s) {
  return on<wire::Op::kStreamQuery>(number(s));
}
SCULLER_EXPORT_C CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  if (flags != CU_EVENT_WAIT_DEFAULT)
    return not_supported("cuStreamWaitEvent", "with CU_EVENT_WAIT_EXTERNAL");
  wire::StreamWaitEvent request;
  request.stream = number(s);
  request.event = number(e);
  return result(client::call(request));
}
SCULLER_EXPORT_C CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  wire::StreamInfo request;
  request.stream = number(s);
  wire::StreamReply reply;
  const int code = client::call(request, reply);
  *status = static_cast<CUstreamCaptureStatus>(reply.capture_status);
  return result(code);
}
SCULLER_EXPORT_C CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = handle_of<CUcontext>(1);
  return CUDA_SUCCESS;
}

SCULLER_EXPORT_C CUresult cuEventCreate(CUevent* out, unsigned flags) {
  if ((flags & CU_EVENT_INTERPROCESS) != 0)
    return not_supported("cuEventCreate", "with CU_EVENT_INTERPROCESS");
  wire::EventCreate request;
  request.flags = flags;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  *out = handle_of<CUevent>(reply.handle);
  return result(code);
}
SCULLER_EXPORT_C CUresult cuEventDestroy_v2(CUevent e) {
  return on<wire::Op::kEventDestroy>(number(e));
}
SCULLER_EXPORT_C CUresult cuEventQuery(CUevent e) { return on<wire::Op::kEventQuery>(number(e)); }
SCULLER_EXPORT_C CUresult cuEventSynchronize(CUevent e) {
  return on<wire::Op::kEventSynchronize>(number(e));
}
SCULLER_EXPORT_C CUresult cuEventRecord(CUevent e, CUstream s) {
  wire::EventRecord request;
  request.event = number(e);
  request.stream = number(s);
  return result(client::call(request));
}
SCULLER_EXPORT_C CUresult cuEventElapsedTime_v2(float* ms, CUevent begin, CUevent end) {
  wire::EventElapsed request;
  request.begin = number(begin);
  request.end = number(end);
  wire::ElapsedReply reply;
  const int code = client::call(request, reply);
  *ms = reply.milliseconds;
  return result(code);
}
SCULLER_EXPORT_C CUresult cuLaunchHostFunc(CUstream s, CUhostFn function, void* argument) {
  return function == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : result(client::host_function(number(s), function, argument));
}

SCULLER_EXPORT_C CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr at, cuuint32_t value,
                                                  unsigned flags) {
  return write_value(s, at, value, 4, flags);
}
SCULLER_EXPORT_C CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr at, cuuint64_t value,
                                                  unsigned flags) {
  return write_value(s, at, value, 8, flags);
}
SCULLER_EXPORT_C CUresult cuStreamWaitValue32_v2(CUstream s, CUdeviceptr at, cuuint32_t value,
                                                 unsigned flags) {
  return wait_value(s, at, value, 4, flags);
}
SCULLER_EXPORT_C CUresult cuStreamWaitValue64_v2(CUstream s, CUdeviceptr at, cuuint64_t value,
                                                 unsigned flags) {
  return wait_value(s, at, value, 8, flags);
}

}  // namespace sculler::emu::cuda
