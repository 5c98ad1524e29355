// Allocation, copies, memsets, and the trusted side's hands on device memory.
#include <cstring>

#include "emu/device/state.h"

namespace sculler::emu {

namespace {

constexpr uint64_t kMaxRows = uint64_t{1} << 24;

uint64_t span(uint64_t width, uint64_t height, uint64_t pitch) {
  return height == 0 || width == 0 ? 0 : (height - 1) * pitch + width;
}

}  // namespace

bool Machine::Impl::touch(int rank_index, ActorId actor, Access access, Address begin,
                          uint64_t bytes, std::string_view what, uint32_t site,
                          std::string* error) {
  if (bytes == 0) return true;
  const Memory& memory = engine.memory();
  if (const Finding* finding = memory.check(rank_index, begin, bytes)) {
    const bool store = access == Access::kStore;
    *error = std::string(what.empty() ? "a stream operation" : what) + " of rank " +
             std::to_string(rank_index) + (store ? " writes " : " reads ") + std::to_string(bytes) +
             " bytes at " + memory.describe(begin) + ": " +
             (finding->place.empty() ? std::string("not accessible") : finding->place);
    if (observer != nullptr) {
      Finding copy = *finding;
      copy.now.what = std::string(what);
      copy.now.code = host_code(site);
      copy.now.access = access;
      observer->finding(std::move(copy));
    }
    return false;
  }
  if (observer != nullptr && !what.empty())
    observer->range(RangeAccess{actor, access, begin, bytes, host_code(site), what});
  return true;
}

bool Machine::Impl::run_copy(Op& op, CopyRequest& request, std::string* error) {
  constexpr std::string_view kWhat = "cudaMemcpyAsync";
  const uint64_t source_pitch = request.host_source ? request.width : request.source_pitch;
  const uint64_t destination_pitch =
      request.host_destination ? request.width : request.destination_pitch;
  const bool one_range = (source_pitch == request.width || request.height == 1) &&
                         (destination_pitch == request.width || request.height == 1);
  const uint64_t rows = one_range ? 1 : request.height;
  const uint64_t width = one_range ? request.width * request.height : request.width;
  for (uint64_t row = 0; row < rows && !request.host_source; ++row) {
    if (!touch(op.rank, op.stream->actor, Access::kLoad, request.source + row * source_pitch, width,
               kWhat, op.site, error)) {
      return false;
    }
  }
  for (uint64_t row = 0; row < rows && !request.host_destination; ++row) {
    if (!touch(op.rank, op.stream->actor, Access::kStore,
               request.destination + row * destination_pitch, width, kWhat, op.site, error)) {
      return false;
    }
  }
  if (request.host_destination) op.result.resize(request.width * request.height);
  const auto* source = request.host_source ? request.host_source->data()
                                           : static_cast<const uint8_t*>(pointer(request.source));
  auto* destination = request.host_destination
                          ? op.result.data()
                          : static_cast<uint8_t*>(pointer(request.destination));
  for (uint64_t row = 0; row < rows && width > 0; ++row) {
    std::memmove(destination + row * destination_pitch, source + row * source_pitch, width);
  }
  if (!request.host_destination && rows == 1) signal(op, request.destination, width);
  return true;
}

bool Machine::Impl::run_memset(const Op& op, const MemsetRequest& request, std::string* error) {
  const uint64_t rows = request.pitch == request.width ? 1 : request.height;
  const uint64_t width = rows == 1 ? request.width * request.height : request.width;
  for (uint64_t row = 0; row < rows; ++row) {
    const Address begin = request.destination + row * request.pitch;
    if (!touch(op.rank, op.stream->actor, Access::kStore, begin, width, "cudaMemsetAsync", op.site,
               error))
      return false;
    auto* to = static_cast<uint8_t*>(pointer(begin));
    if (request.value_bytes == 1) {
      if (width > 0) std::memset(to, static_cast<int>(request.value & 0xff), width);
    } else {
      for (uint64_t i = 0; i + request.value_bytes <= width; i += request.value_bytes) {
        std::memcpy(to + i, &request.value, request.value_bytes);
      }
    }
  }
  return true;
}

// ---- Machine: allocation

namespace {

int allocation_code(const Error& error) {
  return error.code == ErrorCode::kBadInput ? kCudaInvalidValue : kCudaMemoryAllocation;
}

}  // namespace

Outcome Machine::malloc(Host host, uint64_t bytes, Address* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (bytes == 0) {
    *out = 0;
    return {};
  }
  const auto address = memory().allocate(host.rank, bytes, Allocation::Kind::kDevice, "cudaMalloc");
  if (!address)
    return {impl_->explain(r, allocation_code(address.error()), address.error().text()), 0};
  *out = *address;
  return {};
}

Outcome Machine::malloc_async(Host host, uint64_t bytes, StreamHandle stream_handle, Address* out) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, stream_handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return {
        impl_->explain(r, kCudaNotSupported, "memory nodes in captured graphs are not emulated"),
        0};
  }
  return malloc(host, bytes, out);
}

namespace {

// The live allocation that begins at `address` and may be freed by `rank` through a call for
// `kinds`.
const Allocation* freeable(const Memory& memory, int rank, Address address,
                           std::initializer_list<Allocation::Kind> kinds) {
  const Allocation* found = memory.find(address);
  if (found == nullptr || !found->live || found->begin != address || found->rank != rank)
    return nullptr;
  return std::find(kinds.begin(), kinds.end(), found->kind) != kinds.end() ? found : nullptr;
}

}  // namespace

Outcome Machine::free(Host host, Address address) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (address == 0) return {};
  if (freeable(memory(), host.rank, address,
               {Allocation::Kind::kDevice, Allocation::Kind::kManaged}) == nullptr) {
    return {impl_->explain(r, kCudaInvalidValue,
                           "cudaFree of " + memory().describe(address) +
                               ", which is no live allocation of cudaMalloc"),
            0};
  }
  std::vector<TokenRef> tokens;
  for (auto& [handle, stream] : r.streams) {
    if (stream->operations > 0) tokens.push_back(impl_->mark(*stream));
  }
  Impl* impl = impl_.get();
  return impl_->wait_for(host, std::move(tokens), "cudaFree", [impl, host, address] {
    const Status status = impl->engine.memory().release(host.rank, address);
    return status ? kCudaSuccess
                  : impl->explain(impl->rank(host), kCudaInvalidValue, status.error().text());
  });
}

Outcome Machine::free_async(Host host, Address address, StreamHandle stream) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (address == 0) return {};
  if (freeable(memory(), host.rank, address, {Allocation::Kind::kDevice}) == nullptr) {
    return {
        impl_->explain(r, kCudaInvalidValue, "cudaFreeAsync of what is no live device allocation"),
        0};
  }
  return {impl_->enqueue(host, impl_->find_stream(host, stream), FreeWork{address},
                         impl_->named(OpKind::kFree, "cudaFreeAsync")),
          0};
}

Outcome Machine::malloc_host(Host host, uint64_t bytes, bool managed, Address* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (bytes == 0) return {impl_->explain(r, kCudaInvalidValue, "host allocation of 0 bytes"), 0};
  // Pinned memory is zeroed by the operating system, and the host may write it unseen: it counts as
  // initialised.
  const auto address = memory().allocate(
      host.rank, bytes, managed ? Allocation::Kind::kManaged : Allocation::Kind::kPinned,
      managed ? "cudaMallocManaged" : "cudaMallocHost", true);
  if (!address)
    return {impl_->explain(r, allocation_code(address.error()), address.error().text()), 0};
  *out = *address;
  return {};
}

Outcome Machine::free_host(Host host, Address address) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if (address == 0) return {};
  if (freeable(memory(), host.rank, address, {Allocation::Kind::kPinned}) == nullptr) {
    return {
        impl_->explain(r, kCudaInvalidValue, "cudaFreeHost of what is no live pinned allocation"),
        0};
  }
  std::vector<TokenRef> tokens;
  for (auto& [handle, stream] : r.streams) {
    if (stream->operations > 0) tokens.push_back(impl_->mark(*stream));
  }
  Impl* impl = impl_.get();
  return impl_->wait_for(host, std::move(tokens), "cudaFreeHost", [impl, host, address] {
    const Status status = impl->engine.memory().release(host.rank, address);
    return status ? kCudaSuccess
                  : impl->explain(impl->rank(host), kCudaInvalidValue, status.error().text());
  });
}

Outcome Machine::memory_info(Host host, uint64_t* free_bytes, uint64_t* total_bytes) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  *total_bytes = config().device.total_memory;
  *free_bytes = std::min(config().engine.limits.memory_bytes, config().device.total_memory);
  return {};
}

const Allocation* Machine::pointer_info(Address address) const {
  const Allocation* found = impl_->engine.memory().find(address);
  return found != nullptr && found->live ? found : nullptr;
}

// ---- Machine: copies

Outcome Machine::copy(Host host, CopyRequest request) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const auto refuse = [&](int code, std::string why) {
    return Outcome{impl_->explain(r, code, std::move(why)), 0};
  };
  if (request.destination_pitch == 0) request.destination_pitch = request.width;
  if (request.source_pitch == 0) request.source_pitch = request.width;
  if (request.height > 1 &&
      (request.destination_pitch < request.width || request.source_pitch < request.width)) {
    return refuse(kCudaInvalidPitchValue, "cudaMemcpy2D: a pitch is smaller than the width");
  }
  if (request.width > kRankStride || request.height > kMaxRows ||
      request.destination_pitch > kRankStride || request.source_pitch > kRankStride) {
    return refuse(kCudaInvalidValue, "copy larger than the device's memory");
  }
  const uint64_t bytes = request.width * request.height;
  if (request.host_source && request.host_source->size() != bytes) {
    return refuse(kCudaInvalidValue, "copy from the host with the wrong number of bytes");
  }
  if (request.host_source && request.host_destination) {
    return refuse(kCudaInvalidMemcpyDirection,
                  "a copy between pageable buffers is the client's own");
  }
  if (request.host_destination && bytes > (uint64_t{1} << 32)) {
    return refuse(kCudaInvalidValue, "copy to the host of more than 4 GiB");
  }
  const Allocation* source = request.host_source ? nullptr : pointer_info(request.source);
  const Allocation* destination =
      request.host_destination ? nullptr : pointer_info(request.destination);
  const auto inside = [](const Allocation* a, Address begin, uint64_t n) {
    return a != nullptr && begin >= a->begin && n <= a->bytes && begin - a->begin <= a->bytes - n;
  };
  if (bytes > 0 && !request.host_source &&
      !inside(source, request.source, span(request.width, request.height, request.source_pitch))) {
    return refuse(kCudaInvalidValue, "cudaMemcpy reads outside of an allocation: " +
                                         memory().describe(request.source));
  }
  if (bytes > 0 && !request.host_destination &&
      !inside(destination, request.destination,
              span(request.width, request.height, request.destination_pitch))) {
    return refuse(kCudaInvalidValue, "cudaMemcpy writes outside of an allocation: " +
                                         memory().describe(request.destination));
  }
  const auto on_host = [](const Allocation* a) {
    return a == nullptr || a->kind == Allocation::Kind::kPinned ||
           a->kind == Allocation::Kind::kManaged;
  };
  TraceOp trace_op = impl_->named(OpKind::kCopy, "cudaMemcpyAsync");
  trace_op.bytes = bytes;
  if (bytes > 0 && (on_host(source) || on_host(destination))) {
    trace_op.route = CopyRoute::kHost;
    trace_op.hbm_bytes = bytes;
  } else if (source != nullptr && destination != nullptr && source->rank != destination->rank) {
    trace_op.route = CopyRoute::kPeer;
    trace_op.hbm_bytes = bytes;
    trace_op.peer =
        static_cast<int16_t>(source->rank == host.rank ? destination->rank : source->rank);
  } else {
    trace_op.hbm_bytes = 2 * bytes;
  }
  // Device-to-device copies never block the host; a copy to pageable memory always does.
  const bool wait =
      request.host_destination || (request.blocking && (on_host(source) || on_host(destination)));
  StreamState* stream = impl_->find_stream(host, request.stream);
  if (wait && stream != nullptr && stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return refuse(kCudaStreamCaptureUnsupported, "a copy that blocks the host cannot be captured");
  }
  Op* op = nullptr;
  const int code = impl_->enqueue(host, stream, CopyWork{std::move(request)}, trace_op, {}, &op);
  if (code != 0 || !wait) return {code, 0};
  op->ticket = impl_->add_ticket(host, "cudaMemcpy on stream " + std::to_string(stream->index));
  TraceOp host_wait = impl_->named(OpKind::kHostWait, "cudaMemcpy");
  host_wait.rank = static_cast<int16_t>(host.rank);
  host_wait.stream = UINT32_MAX;
  host_wait.done = true;
  impl_->trace_op(host_wait, {impl_->mark(*stream)});
  return {0, op->ticket};
}

Outcome Machine::set(Host host, const MemsetRequest& asked) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  MemsetRequest request = asked;
  const auto refuse = [&](int code, std::string why) {
    return Outcome{impl_->explain(r, code, std::move(why)), 0};
  };
  if (request.pitch == 0) request.pitch = request.width;
  if (request.height > 1 && request.pitch < request.width) {
    return refuse(kCudaInvalidPitchValue, "cudaMemset2D: the pitch is smaller than the width");
  }
  if (request.value_bytes != 1 && request.value_bytes != 2 && request.value_bytes != 4) {
    return refuse(kCudaInvalidValue, "memset values are 1, 2 or 4 bytes");
  }
  const uint64_t unit = request.value_bytes;
  if (request.width > kRankStride || request.height > kMaxRows || request.pitch > kRankStride ||
      request.width % unit != 0 || request.destination % unit != 0) {
    return refuse(kCudaInvalidValue, "memset with a bad size or alignment");
  }
  const uint64_t extent = span(request.width, request.height, request.pitch);
  const Allocation* destination = pointer_info(request.destination);
  if (extent > 0 && (destination == nullptr || extent > destination->bytes ||
                     request.destination - destination->begin > destination->bytes - extent)) {
    return refuse(kCudaInvalidValue, "cudaMemset writes outside of an allocation: " +
                                         memory().describe(request.destination));
  }
  TraceOp trace_op = impl_->named(OpKind::kMemset, "cudaMemsetAsync");
  trace_op.bytes = trace_op.hbm_bytes = request.width * request.height;
  return {
      impl_->enqueue(host, impl_->find_stream(host, request.stream), MemsetWork{request}, trace_op),
      0};
}

// ---- Machine: the trusted side

bool Machine::harness_touch(int rank, Access access, Address address, uint64_t n) {
  const Allocation* found = pointer_info(address);
  if (found == nullptr || n > found->bytes || address - found->begin > found->bytes - n)
    return false;
  RankState& r = impl_->ranks.at(static_cast<size_t>(rank));
  if (impl_->observer != nullptr && n > 0) {
    impl_->observer->range(RangeAccess{r.host, access, address, n, {}, "the harness"});
    r.snapshot = nullptr;
  }
  return true;
}

bool Machine::harness_write(int rank, Address address, const void* bytes, uint64_t n) {
  if (!harness_touch(rank, Access::kStore, address, n)) return false;
  std::memcpy(pointer(address), bytes, n);
  return true;
}

bool Machine::harness_read(int rank, Address address, void* bytes, uint64_t n) {
  if (!harness_touch(rank, Access::kLoad, address, n)) return false;
  std::memcpy(bytes, pointer(address), n);
  return true;
}

bool Machine::write_internal(int rank, Address address, const void* bytes, uint64_t n) {
  const Allocation* found = pointer_info(address);
  if (found == nullptr || found->kind != Allocation::Kind::kInternal || found->rank != rank ||
      n > found->bytes || address - found->begin > found->bytes - n) {
    return false;
  }
  // Allocated zeroed, so it counts as initialised; kernels only read it. No access is reported.
  std::memcpy(pointer(address), bytes, n);
  return true;
}

Result<Address> Machine::allocate_internal(int rank, uint64_t bytes, std::string name) {
  return memory().allocate(rank, bytes, Allocation::Kind::kInternal, std::move(name), true);
}

void Machine::harness_join() {
  for (size_t i = 1; i < impl_->ranks.size(); ++i)
    impl_->edge(impl_->ranks[i - 1].host, impl_->ranks[i].host);
  for (size_t i = 0; i + 1 < impl_->ranks.size(); ++i)
    impl_->edge(impl_->ranks.back().host, impl_->ranks[i].host);
  double latest = 0;
  for (const RankState& r : impl_->ranks) latest = std::max(latest, r.time);
  for (RankState& r : impl_->ranks) {
    r.snapshot = nullptr;
    r.time = latest;
  }
}

}  // namespace sculler::emu
