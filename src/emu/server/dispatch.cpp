// Requests of the wire as calls of the device layer: streams, work, graphs and libraries;
// serve_memory.h has the rest.
#include "emu/server/serve_memory.h"

namespace sculler::emu {

struct Server::Serve : Server::ServeMemory {
  using ServeMemory::operator();

  // ---- streams and events
  Answer operator()(const wire::StreamCreate& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.stream_create(host, m.flags, m.priority, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::StreamDestroy& m) const {
    return answer(machine.stream_destroy(host, m.handle));
  }
  Answer operator()(const wire::StreamQuery& m) const {
    return answer(machine.stream_query(host, m.handle));
  }
  Answer operator()(const wire::StreamSynchronize& m) const {
    return answer(machine.stream_synchronize(host, m.handle));
  }
  Answer operator()(const wire::DeviceSynchronize&) const {
    return answer(machine.device_synchronize(host));
  }
  Answer operator()(const wire::StreamWaitEvent& m) const {
    return answer(machine.stream_wait_event(host, m.stream, m.event));
  }
  Answer operator()(const wire::StreamInfo& m) const {
    StreamInfo info;
    const Outcome outcome = machine.stream_info(host, m.stream, &info);
    wire::StreamReply reply;
    reply.flags = info.flags;
    reply.priority = info.priority;
    reply.capture_status = static_cast<uint32_t>(info.capture);
    reply.capture_id = info.capture_id;
    return answer(outcome, reply);
  }
  Answer operator()(const wire::EventCreate& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.event_create(host, m.flags, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::EventDestroy& m) const {
    return answer(machine.event_destroy(host, m.handle));
  }
  Answer operator()(const wire::EventQuery& m) const {
    return answer(machine.event_query(host, m.handle));
  }
  Answer operator()(const wire::EventSynchronize& m) const {
    return answer(machine.event_synchronize(host, m.handle));
  }
  Answer operator()(const wire::EventRecord& m) const {
    return answer(machine.event_record(host, m.event, m.stream));
  }
  Answer operator()(const wire::EventElapsed& m) const {
    wire::ElapsedReply reply;
    const Outcome outcome = machine.event_elapsed_ms(host, m.begin, m.end, &reply.milliseconds);
    return answer(outcome, reply);
  }

  // ---- work
  Answer operator()(const wire::Launch& m) const {
    const auto id = static_cast<KernelId>(m.kernel);
    if (m.kernel > UINT32_MAX || !rank.kernels.contains(id))
      return code(kCudaInvalidDeviceFunction);
    if (m.params.size() != machine.engine().info(id).param_bytes) return malformed();
    KernelLaunch launch;
    launch.kernel = id;
    launch.grid = array(m.grid);
    launch.block = array(m.block);
    launch.cluster = array(m.cluster);
    launch.dynamic_shared = m.dynamic_shared;
    launch.cooperative = m.cooperative;
    launch.params = m.params;
    launch.stream = m.stream;
    const Outcome outcome = machine.launch(host, std::move(launch));
    if (outcome.error != 0) {
      rank.report.launch_error = machine.explain(host.rank);
      rank.report.launch_code = outcome.error;
      rank.report.launch_kernel = id;
      rank.report.launch_site = host.site;
    }
    return answer(outcome);
  }
  Answer operator()(const wire::HostFunction& m) const {
    return answer(machine.launch_host_function(host, m.stream, m.function, m.argument));
  }
  Answer operator()(const wire::HostFunctionNext& m) const {
    if (host.thread == 0 || (m.done != 0 && rank.host_running.erase(m.done) == 0))
      return malformed();
    if (m.done != 0) machine.host_call_done(m.done);
    Answer a;
    a.silent = true;
    return a;
  }
  Answer operator()(const wire::WriteValue& m) const {
    if (m.bytes != 4 && m.bytes != 8) return malformed();
    StreamValue value;
    value.address = m.address;
    value.value = m.value;
    value.bytes = m.bytes;
    value.stream = m.stream;
    return answer(machine.stream_write_value(host, value));
  }
  Answer operator()(const wire::WaitValue& m) const {
    if ((m.bytes != 4 && m.bytes != 8) || m.compare > wire::WaitValue::Compare::kNor)
      return malformed();
    StreamValue value;
    value.address = m.address;
    value.value = m.value;
    value.bytes = m.bytes;
    value.condition = static_cast<WaitCondition>(m.compare);
    value.stream = m.stream;
    return answer(machine.stream_wait_value(host, value));
  }

  // ---- graphs
  Answer operator()(const wire::CaptureBegin& m) const {
    if (m.mode > 2) return code(kCudaInvalidValue);
    return answer(machine.capture_begin(host, m.stream, static_cast<CaptureMode>(m.mode)));
  }
  Answer operator()(const wire::CaptureEnd& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.capture_end(host, m.stream, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::GraphInfo& m) const {
    wire::GraphReply reply;
    const Outcome outcome = machine.graph_node_count(host, m.graph, &reply.nodes);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::GraphDestroy& m) const {
    return answer(machine.graph_destroy(host, m.handle));
  }
  Answer operator()(const wire::GraphExecDestroy& m) const {
    return answer(machine.graph_exec_destroy(host, m.handle));
  }
  Answer operator()(const wire::GraphInstantiate& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.graph_instantiate(host, m.graph, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::GraphLaunch& m) const {
    return answer(machine.graph_launch(host, m.exec, m.stream));
  }

  // ---- NCCL
  Answer operator()(const wire::UniqueId&) const {
    wire::UniqueIdReply reply;
    reply.id = machine.nccl_unique_id(host);
    return answer({}, reply);
  }
  Answer operator()(const wire::GroupStart&) const {
    return answer(machine.nccl_group_start(host));
  }
  Answer operator()(const wire::GroupEnd&) const { return answer(machine.nccl_group_end(host)); }
  Answer operator()(const wire::CommInit& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.nccl_comm_init(host, m.n_ranks, m.id, m.rank, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::CommSplit& m) const {
    wire::HandleReply reply;
    const Outcome outcome = machine.nccl_comm_split(host, m.comm, m.color, m.key, &reply.handle);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::CommDestroy& m) const {
    return answer(machine.nccl_comm_destroy(host, m.handle));
  }
  Answer operator()(const wire::CommAbort& m) const {
    return answer(machine.nccl_comm_abort(host, m.handle));
  }
  Answer operator()(const wire::CommInfo& m) const {
    const CommInfo* info = machine.nccl_comm_info(host, m.comm);
    if (info == nullptr) return code(kNcclInvalidArgument);
    wire::CommReply reply;
    reply.rank = info->rank;
    reply.n_ranks = info->n_ranks;
    reply.lsa_size = info->lsa_size;
    reply.world.assign(info->world.begin(), info->world.end());
    reply.broken = info->broken;
    return answer({}, reply);
  }
  Answer operator()(const wire::Collective& m) const {
    if (m.kind > wire::CollectiveKind::kRecv || m.dtype > 255 || m.reduction > 255)
      return malformed();
    if (m.dtype > static_cast<uint32_t>(NcclType::kFloat8e5m2) ||
        m.reduction > static_cast<uint32_t>(NcclOp::kAvg)) {
      return code(kNcclInvalidArgument);
    }
    CollectiveRequest request;
    request.kind = static_cast<Collective>(m.kind);
    request.comm = m.comm;
    request.send = m.send;
    request.recv = m.receive;
    request.count = m.count;
    request.type = static_cast<NcclType>(m.dtype);
    request.op = static_cast<NcclOp>(m.reduction);
    request.peer = m.peer;
    request.stream = m.stream;
    request.site = host.site;
    return answer(machine.nccl_collective(host, request));
  }
  Answer operator()(const wire::NcclAllocate& m) const {
    wire::AddressReply reply;
    const Outcome outcome = machine.nccl_mem_alloc(host, m.bytes, &reply.address);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::NcclFree& m) const {
    return answer(machine.nccl_mem_free(host, m.handle));
  }
  Answer operator()(const wire::WindowRegister& m) const {
    if (m.struct_bytes > 4096) return malformed();
    wire::AddressReply reply;
    const Outcome outcome = machine.nccl_window_register(host, m.comm, m.address, m.bytes, m.flags,
                                                         m.struct_bytes, &reply.address);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::WindowDeregister& m) const {
    return answer(machine.nccl_window_deregister(host, m.comm, m.window));
  }
  Answer operator()(const wire::WindowInfo& m) const {
    const WindowInfo* info = machine.nccl_window_info(host, m.window);
    if (info == nullptr) return code(kNcclInvalidArgument);
    wire::WindowReply reply;
    reply.pointer = info->pointer;
    reply.bytes = info->bytes;
    reply.flat_base = info->flat_base;
    reply.stride = info->stride;
    reply.rank = info->rank;
    reply.n_ranks = info->n_ranks;
    reply.lsa_rank = info->lsa_rank;
    reply.id = info->id;
    return answer({}, reply);
  }
  Answer operator()(const wire::DevCommCreate& m) const {
    if (m.struct_bytes > 4096) return malformed();
    wire::AddressReply reply;
    const GinNeeds gin{m.gin, m.gin_signals, m.gin_counters, m.gin_barriers};
    const Outcome outcome = machine.nccl_dev_comm_create(host, m.comm, m.resource_bytes,
                                                         m.struct_bytes, gin, &reply.address);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::GinInfo& m) const {
    const GinInfo* info = machine.nccl_gin_info(host, m.window);
    if (info == nullptr) return code(kNcclInvalidArgument);
    wire::GinReply reply;
    reply.queue_size = info->queue_size;
    reply.signals = info->signals;
    reply.barrier_signal = info->barrier_signal;
    reply.shadows = info->shadows;
    for (uint32_t c = 0; c < info->contexts; ++c) {
      reply.queues.push_back(info->context[c].queues);
      reply.produced.push_back(info->context[c].produced);
      reply.consumed.push_back(info->context[c].consumed);
      reply.counters.push_back(info->context[c].counters);
      reply.signal_words.push_back(info->context[c].signals);
    }
    return answer({}, reply);
  }
  Answer operator()(const wire::DevCommDestroy& m) const {
    return answer(machine.nccl_dev_comm_destroy(host, m.comm, m.window));
  }
  Answer operator()(const wire::AllocateInternal& m) const {
    if (m.bytes == 0 || m.bytes > kMaxInternalBytes) return malformed();
    auto address = machine.allocate_internal(host.rank, m.bytes, "NCCL structures");
    if (!address) return code(kNcclSystemError);
    wire::AddressReply reply;
    reply.address = *address;
    return answer({}, reply);
  }
  Answer operator()(const wire::WriteInternal& m) const {
    const Allocation* a = machine.pointer_info(m.address);
    if (a == nullptr || !a->live || a->kind != Allocation::Kind::kInternal ||
        a->rank != host.rank || m.address < a->begin || m.data.size() > a->bytes ||
        m.address - a->begin > a->bytes - m.data.size()) {
      return malformed();
    }
    return code(machine.write_internal(host.rank, m.address, m.data.data(), m.data.size())
                    ? 0
                    : kNcclInternalError);
  }

  // ---- cuBLAS
  Answer operator()(const wire::Gemm& m) const {
    const auto known = [](uint8_t type) {
      return type == 0 || type == 1 || type == 2 || type == 3 || type == 10 || type == 14;
    };
    if (!known(m.type_a) || !known(m.type_b) || !known(m.type_c)) return code(kCublasNotSupported);
    GemmRequest request;
    request.transpose_a = m.transpose_a;
    request.transpose_b = m.transpose_b;
    request.m = m.m;
    request.n = m.n;
    request.k = m.k;
    request.alpha = m.alpha;
    request.beta = m.beta;
    request.a = m.a;
    request.b = m.b;
    request.c = m.c;
    request.a_type = static_cast<CudaType>(m.type_a);
    request.b_type = static_cast<CudaType>(m.type_b);
    request.c_type = static_cast<CudaType>(m.type_c);
    request.compute_double = m.compute_double;
    request.lda = m.lda;
    request.ldb = m.ldb;
    request.ldc = m.ldc;
    request.stride_a = m.stride_a;
    request.stride_b = m.stride_b;
    request.stride_c = m.stride_c;
    request.batch = m.batch;
    request.alpha_pointer = m.alpha_at;
    request.beta_pointer = m.beta_at;
    request.stream = m.stream;
    return answer(machine.gemm(host, request));
  }

  template <class Message>
  Answer decode(std::span<const uint8_t> body) const {
    Message message;
    return wire::decode(body, message) ? (*this)(message) : malformed();
  }
};

Server::Answer Server::dispatch(Host host, const wire::Header& header,
                                std::span<const uint8_t> body) {
  const Serve serve{{*this, machine_, host, ranks_[static_cast<std::size_t>(host.rank)]}};
  switch (header.op) {
#define SCULLER_OP(message) \
  case wire::message::kOp: return serve.decode<wire::message>(body)
    SCULLER_OP(Hello);
    SCULLER_OP(ReportUnsupported);
    SCULLER_OP(ReportHostAccess);
    SCULLER_OP(LoadModule);
    SCULLER_OP(UnloadModule);
    SCULLER_OP(GetKernel);
    SCULLER_OP(GetGlobal);
    SCULLER_OP(Occupancy);
    SCULLER_OP(Allocate);
    SCULLER_OP(Free);
    SCULLER_OP(PointerInfo);
    SCULLER_OP(MemoryInfo);
    SCULLER_OP(Copy);
    SCULLER_OP(CopyIn);
    SCULLER_OP(CopyOut);
    SCULLER_OP(Fill);
    SCULLER_OP(StreamCreate);
    SCULLER_OP(StreamDestroy);
    SCULLER_OP(StreamQuery);
    SCULLER_OP(StreamSynchronize);
    SCULLER_OP(StreamWaitEvent);
    SCULLER_OP(StreamInfo);
    SCULLER_OP(DeviceSynchronize);
    SCULLER_OP(EventCreate);
    SCULLER_OP(EventDestroy);
    SCULLER_OP(EventRecord);
    SCULLER_OP(EventQuery);
    SCULLER_OP(EventSynchronize);
    SCULLER_OP(EventElapsed);
    SCULLER_OP(Launch);
    SCULLER_OP(HostFunction);
    SCULLER_OP(HostFunctionNext);
    SCULLER_OP(WriteValue);
    SCULLER_OP(WaitValue);
    SCULLER_OP(CaptureBegin);
    SCULLER_OP(CaptureEnd);
    SCULLER_OP(GraphInfo);
    SCULLER_OP(GraphDestroy);
    SCULLER_OP(GraphInstantiate);
    SCULLER_OP(GraphLaunch);
    SCULLER_OP(GraphExecDestroy);
    SCULLER_OP(UniqueId);
    SCULLER_OP(GroupStart);
    SCULLER_OP(GroupEnd);
    SCULLER_OP(CommInit);
    SCULLER_OP(CommSplit);
    SCULLER_OP(CommDestroy);
    SCULLER_OP(CommAbort);
    SCULLER_OP(CommInfo);
    SCULLER_OP(Collective);
    SCULLER_OP(NcclAllocate);
    SCULLER_OP(NcclFree);
    SCULLER_OP(WindowRegister);
    SCULLER_OP(WindowDeregister);
    SCULLER_OP(WindowInfo);
    SCULLER_OP(DevCommCreate);
    SCULLER_OP(DevCommDestroy);
    SCULLER_OP(GinInfo);
    SCULLER_OP(AllocateInternal);
    SCULLER_OP(WriteInternal);
    SCULLER_OP(Gemm);
#undef SCULLER_OP
    case wire::Op::kChannel: break;
  }
  return Serve::malformed();
}

}  // namespace sculler::emu
