// Requests of the wire as calls of the device layer. Fields are checked here for shape (sizes,
// enumerations, ownership of kernels and internal memory); what they mean is checked by the device
// layer.
// This part: connection, modules, memory and copies; dispatch.cpp has the rest.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "emu/server/server.h"

namespace sculler::emu {
inline constexpr uint64_t kMaxInternalBytes = 1 << 20;
inline constexpr uint64_t kMaxRows = 1 << 24;

inline std::string bounded(std::string text, std::size_t limit = 400) {
  if (text.size() > limit) text.resize(limit);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
  }
  return text;
}
inline std::array<uint32_t, 3> array(const wire::Dim3& d) { return {d.x, d.y, d.z}; }

struct Server::ServeMemory {
  Server& server;
  Machine& machine;
  Host host;
  Rank& rank;

  template <class Reply>
  static Answer answer(const Outcome& outcome, const Reply& reply) {
    Answer a;
    a.outcome = outcome;
    a.body = wire::encode(reply);
    return a;
  }
  static Answer answer(const Outcome& outcome) { return answer(outcome, wire::Empty{}); }
  static Answer code(int error) { return answer(Outcome{error, 0}); }
  static Answer malformed() {
    Answer a;
    a.malformed = true;
    return a;
  }

  // ---- connection
  Answer operator()(const wire::Hello& m) const {
    if (rank.hello || m.version != wire::kVersion) return malformed();
    rank.hello = true;
    const DeviceProperties& p = machine.properties();
    wire::HelloReply reply;
    reply.rank = host.rank;
    reply.n_ranks = static_cast<int32_t>(server.ranks_.size());
    reply.multicast_allowed = server.config_.multicast_allowed;
    reply.memory_bytes = p.limits.memory_bytes;
    reply.total_memory = p.total_memory;
    reply.major = p.major;
    reply.minor = p.minor;
    reply.l2_bytes = p.l2_bytes;
    reply.clock_khz = p.clock_khz;
    reply.memory_clock_khz = p.memory_clock_khz;
    reply.memory_bus_bits = p.memory_bus_bits;
    reply.copy_engines = p.copy_engines;
    reply.sms = p.limits.sms;
    reply.shared_per_sm = p.limits.shared_per_sm;
    reply.shared_per_block = p.limits.shared_per_block;
    reply.registers_per_sm = p.limits.registers_per_sm;
    reply.warps_per_sm = p.limits.warps_per_sm;
    reply.blocks_per_sm = p.limits.blocks_per_sm;
    reply.shared_reserved = p.limits.shared_reserved;
    reply.threads_per_block = p.limits.threads_per_block;
    reply.device_name = p.name;
    Answer a = answer({}, reply);
    a.fd = machine.memory().host_fd(host.rank);
    return a;
  }
  Answer operator()(const wire::ReportUnsupported& m) const {
    if (rank.report.unsupported.size() < 16) {
      std::string text = bounded(m.what, 120);
      if (!m.why.empty()) text += ": " + bounded(m.why);
      rank.report.unsupported.push_back(std::move(text));
    }
    return code(0);
  }
  Answer operator()(const wire::ReportHostAccess& m) const {
    rank.report.host_access = std::string("host ") + (m.is_write ? "write" : "read") +
                              " of device memory at " + machine.memory().describe(m.address) +
                              " (" + bounded(m.where, 200) + "): copy it with cudaMemcpy";
    return code(0);
  }

  // ---- modules
  Answer operator()(const wire::LoadModule& m) const {
    ModuleId id = 0;
    const Outcome outcome = machine.load_module(host, m.ptx, &id);
    note(outcome, "");
    wire::ModuleReply reply;
    reply.module = id;
    return answer(outcome, reply);
  }
  Answer operator()(const wire::UnloadModule& m) const {
    if (m.module > UINT32_MAX) return malformed();
    return answer(machine.unload_module(host, static_cast<ModuleId>(m.module)));
  }
  Answer operator()(const wire::GetKernel& m) const {
    if (m.module > UINT32_MAX) return malformed();
    KernelId id = 0;
    const Outcome outcome = machine.get_kernel(host, static_cast<ModuleId>(m.module), m.name, &id);
    note(outcome, m.name);
    if (outcome.error != 0) return answer(outcome);
    rank.kernels.insert(id);
    const KernelInfo& info = machine.engine().info(id);
    wire::KernelReply reply;
    reply.kernel = id;
    for (const KernelInfo::Param& param : info.params) {
      reply.param_offsets.push_back(param.offset);
      reply.param_bytes.push_back(param.bytes);
    }
    reply.all_param_bytes = info.param_bytes;
    reply.registers = info.registers;
    reply.static_shared = info.static_shared;
    reply.local_bytes = info.local_bytes;
    reply.max_threads = info.max_threads;
    reply.cluster = info.cluster;
    return answer(outcome, reply);
  }
  // What the engine does not know is a verdict, not just an error that the program may ignore.
  void note(const Outcome& outcome, const std::string& kernel) const {
    if (outcome.error != kCudaNotSupported || rank.report.unsupported.size() >= 16) return;
    std::string text = machine.explain(host.rank);
    if (text.empty()) text = "kernel " + bounded(kernel);
    rank.report.unsupported.push_back(std::move(text));
  }
  Answer operator()(const wire::GetGlobal& m) const {
    if (m.module > UINT32_MAX) return malformed();
    wire::GlobalReply reply;
    const Outcome outcome = machine.get_global(host, static_cast<ModuleId>(m.module), m.name,
                                               &reply.address, &reply.bytes);
    return answer(outcome, reply);
  }
  Answer operator()(const wire::Occupancy& m) const {
    const auto id = static_cast<KernelId>(m.kernel);
    if (m.kernel > UINT32_MAX || !rank.kernels.contains(id))
      return code(kCudaInvalidResourceHandle);
    wire::OccupancyReply reply;
    reply.blocks_per_sm =
        machine.engine().max_active_blocks_per_sm(id, m.threads, m.dynamic_shared);
    return answer({}, reply);
  }

  // ---- memory
  Answer operator()(const wire::Allocate& m) const {
    wire::AddressReply reply;
    Outcome outcome;
    switch (m.kind) {
      case wire::MemoryKind::kDevice:
        outcome = m.ordered ? machine.malloc_async(host, m.bytes, m.stream, &reply.address)
                            : machine.malloc(host, m.bytes, &reply.address);
        break;
      case wire::MemoryKind::kPinned:
        outcome = machine.malloc_host(host, m.bytes, false, &reply.address);
        break;
      case wire::MemoryKind::kManaged:
        outcome = machine.malloc_host(host, m.bytes, true, &reply.address);
        break;
      default: return malformed();
    }
    return answer(outcome, reply);
  }
  Answer operator()(const wire::Free& m) const {
    if (m.ordered) return answer(machine.free_async(host, m.address, m.stream));
    const Allocation* allocation = machine.pointer_info(m.address);
    const bool on_host = allocation != nullptr && (allocation->kind == Allocation::Kind::kPinned ||
                                                   allocation->kind == Allocation::Kind::kManaged);
    return answer(on_host ? machine.free_host(host, m.address) : machine.free(host, m.address));
  }
  Answer operator()(const wire::PointerInfo& m) const {
    wire::PointerReply reply;
    const Allocation* a = machine.pointer_info(m.address);
    if (a != nullptr && a->live && (a->rank == host.rank || a->peer_accessible)) {
      reply.rank = a->rank;
      reply.begin = a->begin;
      reply.bytes = a->bytes;
      switch (a->kind) {
        case Allocation::Kind::kPinned: reply.kind = wire::MemoryKind::kPinned; break;
        case Allocation::Kind::kManaged: reply.kind = wire::MemoryKind::kManaged; break;
        case Allocation::Kind::kNccl: reply.kind = wire::MemoryKind::kNccl; break;
        default: reply.kind = wire::MemoryKind::kDevice; break;
      }
    }
    return answer({}, reply);
  }
  Answer operator()(const wire::MemoryInfo&) const {
    wire::MemoryReply reply;
    const Outcome outcome = machine.memory_info(host, &reply.free_bytes, &reply.total_bytes);
    return answer(outcome, reply);
  }

  // ---- copies
  Answer operator()(const wire::Copy& m) const {
    if (m.height > kMaxRows) return malformed();
    CopyRequest request;
    request.destination = m.to;
    request.source = m.from;
    request.width = m.width;
    request.height = m.height;
    request.destination_pitch = m.to_pitch;
    request.source_pitch = m.from_pitch;
    request.stream = m.stream;
    request.blocking = m.blocking;
    return answer(machine.copy(host, std::move(request)));
  }
  Answer operator()(const wire::CopyIn& m) const {
    if (m.height == 0 || m.data.size() > wire::kChunkBytes || m.width > wire::kChunkBytes ||
        m.data.size() / m.height != m.width || m.data.size() % m.height != 0) {
      return malformed();
    }
    CopyRequest request;
    request.destination = m.to;
    request.destination_pitch = m.to_pitch;
    request.width = m.width;
    request.height = m.height;
    request.host_source = m.data;
    request.stream = m.stream;
    request.blocking = m.blocking;
    return answer(machine.copy(host, std::move(request)));
  }
  Answer operator()(const wire::CopyOut& m) const {
    if (m.height == 0 || m.width > wire::kChunkBytes || m.height > wire::kChunkBytes ||
        m.width * m.height > wire::kChunkBytes) {
      return malformed();
    }
    CopyRequest request;
    request.source = m.from;
    request.source_pitch = m.from_pitch;
    request.width = m.width;
    request.height = m.height;
    request.host_destination = true;
    request.stream = m.stream;
    request.blocking = true;
    Answer a = answer(machine.copy(host, std::move(request)));
    a.wants_data = true;
    return a;
  }
  Answer operator()(const wire::Fill& m) const {
    if (m.height > kMaxRows ||
        (m.element_bytes != 1 && m.element_bytes != 2 && m.element_bytes != 4))
      return malformed();
    MemsetRequest request;
    request.destination = m.to;
    request.width = m.width;
    request.height = m.height;
    request.pitch = m.pitch;
    request.value = m.value;
    request.value_bytes = m.element_bytes;
    request.stream = m.stream;
    request.blocking = m.blocking;
    return answer(machine.set(host, request));
  }
};

}  // namespace sculler::emu
