// Streams, events, synchronisation and host functions.
#include <mutex>
#include <unordered_map>

#include "runtime.h"

namespace sculler::emu::cudart {
namespace {
template <wire::Op kOp>
cudaError_t on(uint64_t handle) {
  wire::OnHandle<kOp> request;
  request.handle = handle;
  return finish(client::call(request));
}

struct Callback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  void* argument;
};
void run_callback(void* raw) {
  auto* callback = static_cast<Callback*>(raw);
  callback->function(callback->stream, cudaSuccess, callback->argument);
  delete callback;
}
}  // namespace

SCULLER_EXPORT_C cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags,
                                                          int priority) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (const cudaError_t error = use_device(); error != cudaSuccess) return finish(error);
  wire::StreamCreate request;
  request.flags = flags;
  request.priority = priority;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  *out = handle_of<cudaStream_t>(reply.handle);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
SCULLER_EXPORT_C cudaError_t cudaStreamCreate(cudaStream_t* out) {
  return cudaStreamCreateWithPriority(out, 0, 0);
}
SCULLER_EXPORT_C cudaError_t cudaStreamDestroy(cudaStream_t s) {
  return on<wire::Op::kStreamDestroy>(number(s));
}
SCULLER_EXPORT_C cudaError_t cudaStreamQuery(cudaStream_t s) {
  return on<wire::Op::kStreamQuery>(number(s));
}
SCULLER_EXPORT_C cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  return on<wire::Op::kStreamSynchronize>(number(s));
}
SCULLER_EXPORT_C cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  if (flags != cudaEventWaitDefault)
    return not_supported("cudaStreamWaitEvent", "with cudaEventWaitExternal");
  wire::StreamWaitEvent request;
  request.stream = number(s);
  request.event = number(e);
  return finish(client::call(request));
}
static cudaError_t stream_info(cudaStream_t s, wire::StreamReply& reply) {
  wire::StreamInfo request;
  request.stream = number(s);
  return finish(client::call(request, reply));
}
SCULLER_EXPORT_C cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned* flags) {
  wire::StreamReply reply;
  const cudaError_t error = stream_info(s, reply);
  *flags = reply.flags;
  return error;
}
SCULLER_EXPORT_C cudaError_t cudaStreamGetPriority(cudaStream_t s, int* priority) {
  wire::StreamReply reply;
  const cudaError_t error = stream_info(s, reply);
  *priority = reply.priority;
  return error;
}
SCULLER_EXPORT_C cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long* id) {
  wire::StreamReply reply;
  *id = number(s);
  return stream_info(s, reply);
}
SCULLER_EXPORT_C cudaError_t cudaStreamGetDevice(cudaStream_t s, int* device) {
  wire::StreamReply reply;
  *device = current_device();
  return stream_info(s, reply);
}
SCULLER_EXPORT_C cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID id,
                                                    const cudaStreamAttrValue*) {
  switch (id) {  // hints that change no result
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeSynchronizationPolicy:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomain:
    case cudaLaunchAttributeMemSyncDomainMap: return finish(cudaSuccess);
    default:
      return not_supported("cudaStreamSetAttribute", ("attribute " + std::to_string(id)).c_str());
  }
}

SCULLER_EXPORT_C cudaError_t cudaDeviceSynchronize() {
  return finish(client::call(wire::DeviceSynchronize{}));
}

SCULLER_EXPORT_C cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if ((flags & cudaEventInterprocess) != 0)
    return not_supported("cudaEventCreateWithFlags", "with cudaEventInterprocess");
  wire::EventCreate request;
  request.flags = flags;
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  *out = handle_of<cudaEvent_t>(reply.handle);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, 0);
}
SCULLER_EXPORT_C cudaError_t cudaEventDestroy(cudaEvent_t e) {
  return on<wire::Op::kEventDestroy>(number(e));
}
SCULLER_EXPORT_C cudaError_t cudaEventQuery(cudaEvent_t e) {
  return on<wire::Op::kEventQuery>(number(e));
}
SCULLER_EXPORT_C cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  return on<wire::Op::kEventSynchronize>(number(e));
}
SCULLER_EXPORT_C cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s,
                                                      unsigned flags) {
  if (flags != cudaEventRecordDefault)
    return not_supported("cudaEventRecordWithFlags", "with cudaEventRecordExternal");
  wire::EventRecord request;
  request.event = number(e);
  request.stream = number(s);
  return finish(client::call(request));
}
SCULLER_EXPORT_C cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return cudaEventRecordWithFlags(e, s, 0);
}
SCULLER_EXPORT_C cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  wire::EventElapsed request;
  request.begin = number(begin);
  request.end = number(end);
  wire::ElapsedReply reply;
  const int code = client::call(request, reply);
  *ms = reply.milliseconds;
  return finish(code);
}

SCULLER_EXPORT_C cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function,
                                                void* argument) {
  if (function == nullptr) return finish(cudaErrorInvalidValue);
  return finish(client::host_function(number(s), function, argument));
}
SCULLER_EXPORT_C cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t function,
                                                   void* argument, unsigned) {
  if (function == nullptr) return finish(cudaErrorInvalidValue);
  auto* callback = new Callback{function, s, argument};
  const int code = client::host_function(number(s), run_callback, callback);
  if (code != client::kSuccess) delete callback;
  return finish(code);
}

// ---- capture
SCULLER_EXPORT_C cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  wire::CaptureBegin request;
  request.stream = number(s);
  request.mode = static_cast<uint32_t>(mode);
  return finish(client::call(request));
}
SCULLER_EXPORT_C cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  wire::CaptureEnd request;
  request.stream = number(s);
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  if (graph != nullptr) *graph = handle_of<cudaGraph_t>(reply.handle);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaStreamIsCapturing(cudaStream_t s,
                                                   cudaStreamCaptureStatus* status) {
  wire::StreamReply reply;
  const cudaError_t error = stream_info(s, reply);
  *status = static_cast<cudaStreamCaptureStatus>(reply.capture_status);
  return error;
}
SCULLER_EXPORT_C cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t s, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* n_dependencies) {
  wire::StreamReply reply;
  const cudaError_t error = stream_info(s, reply);
  if (error != cudaSuccess) return error;
  if (reply.capture_status == cudaStreamCaptureStatusActive &&
      (graph != nullptr || dependencies != nullptr || edges != nullptr ||
       n_dependencies != nullptr)) {
    return not_supported("cudaStreamGetCaptureInfo", "with the graph or its dependencies");
  }
  *status = static_cast<cudaStreamCaptureStatus>(reply.capture_status);
  if (id != nullptr) *id = reply.capture_id;
  if (n_dependencies != nullptr) *n_dependencies = 0;
  return error;
}
SCULLER_EXPORT_C cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return finish(cudaSuccess);
}

}  // namespace sculler::emu::cudart
