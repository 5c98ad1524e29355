// Streams, events, host threads and the order between them.
#include "emu/device/state.h"

namespace sculler::emu {

StreamState* Machine::Impl::add_stream(RankState& rank, uint32_t flags, int priority) {
  auto stream = std::make_unique<StreamState>();
  stream->handle = handle();
  stream->index = rank.next_stream++;
  stream->rank = rank.rank;
  stream->flags = flags;
  stream->priority = priority;
  stream->actor = observer != nullptr ? observer->add_stream(rank.rank) : 0;
  stream->pool = std::make_shared<ActorPool>(ActorPool{observer, rank.rank, {}});
  stream->draw = random.next();
  StreamState* raw = stream.get();
  rank.streams.emplace(raw->handle, std::move(stream));
  return raw;
}

StreamState* Machine::Impl::find_stream(Host host, StreamHandle handle) {
  RankState& r = rank(host);
  if (handle == kStreamDefault || handle == kStreamLegacy) return r.legacy;
  if (handle == kStreamPerThread) {
    const auto found = r.per_thread.find(host.thread);
    if (found != r.per_thread.end()) handle = found->second;
    else {
      StreamState* created = add_stream(r, 0, 0);
      r.per_thread.emplace(host.thread, created->handle);
      return created;
    }
  }
  const auto found = r.streams.find(handle);
  if (found == r.streams.end() || found->second->destroyed || found->second->internal)
    return nullptr;
  return found->second.get();
}

int Machine::Impl::explain(RankState& rank, int code, std::string why) {
  rank.message = std::move(why);
  return code;
}

TokenRef Machine::Impl::host_token(RankState& rank) {
  if (rank.snapshot == nullptr) {
    rank.snapshot = std::make_shared<Token>(rank.host_pool);
    rank.snapshot->done = true;
    edge(rank.host, rank.snapshot->actor);
  }
  return rank.snapshot;
}

void Machine::Impl::host_acquires(RankState& rank, const Token& token) {
  edge(token.actor, rank.host);
  rank.time = std::max(rank.time, token.time);
  rank.snapshot = nullptr;
}

TokenRef Machine::Impl::mark(StreamState& stream) {
  if (stream.tail != nullptr) return stream.tail;
  auto token = std::make_shared<Token>(stream.pool);
  token->trace = stream.last_trace;
  token->stream = stream.index;
  token->rank = stream.rank;
  token->time = stream.time;
  if (stream.queue.empty()) {
    token->done = true;
    edge(stream.actor, token->actor);
  } else if (stream.queue.back()->ends == nullptr) {
    stream.queue.back()->ends = token;
  } else {
    token = stream.queue.back()->ends;
  }
  stream.tail = token;
  return token;
}

int Machine::Impl::check_usable(RankState& rank, StreamState* stream) {
  if (rank.sticky != 0) return rank.sticky;
  if (stream == nullptr) {
    return explain(rank, kCudaInvalidResourceHandle,
                   "the stream does not exist on this rank or was destroyed");
  }
  return kCudaSuccess;
}

Op* Machine::Impl::push(StreamState& stream, Work work, std::vector<TokenRef> dependencies) {
  auto op = std::make_unique<Op>();
  op->id = next_op++;
  op->rank = stream.rank;
  op->stream = &stream;
  op->work = std::move(work);
  op->dependencies = std::move(dependencies);
  Op* raw = op.get();
  stream.queue.push_back(std::move(op));
  stream.tail = nullptr;
  ++stream.operations;
  stalled = false;
  return raw;
}

int Machine::Impl::enqueue(Host host, StreamState* stream, Work work, TraceOp trace_record,
                           std::vector<TokenRef> dependencies, Op** out) {
  RankState& r = rank(host);
  if (out != nullptr) *out = nullptr;
  if (const int code = check_usable(r, stream); code != 0) return code;
  if (stream->capture != nullptr)
    return capture_work(host, *stream, std::move(work), trace_record, {});
  if (r.captures > 0 && stream == r.legacy) {
    for (auto& [handle, other] : r.streams) {
      if (other->capture != nullptr && other->blocking() &&
          other->capture->mode != CaptureMode::kRelaxed) {
        other->capture->invalidated = true;
        return explain(r, kCudaStreamCaptureImplicit,
                       "work on the legacy default stream would depend on a stream that is being "
                       "captured; use another "
                       "stream");
      }
    }
  }
  // The legacy default stream and the blocking streams wait for each other.
  if (stream == r.legacy) {
    for (auto& [handle, other] : r.streams) {
      if (other.get() == stream || !other->blocking() || other->capture != nullptr) continue;
      if (other->legacy_seen == other->operations) continue;
      other->legacy_seen = other->operations;
      dependencies.push_back(mark(*other));
    }
  } else if (stream->blocking() && r.legacy->operations > 0 && !stream->internal) {
    const TokenRef token = mark(*r.legacy);
    if (stream->joined_legacy != token) dependencies.push_back(token);
    stream->joined_legacy = token;
  }
  if (const auto* nccl = std::get_if<NcclWork>(&work)) trace_calls(trace_record, *nccl);
  trace_record.rank = static_cast<int16_t>(host.rank);
  trace_record.stream = stream->index;
  trace_record.stream_priority = static_cast<int8_t>(std::clamp(stream->priority, -100, 100));
  const uint32_t id = trace_op(trace_record, dependencies);
  r.time += trace_record.kind == OpKind::kKernel || trace_record.kind == OpKind::kGemm ||
                    trace_record.kind == OpKind::kCollective
                ? config.rates.launch_s
                : config.rates.launch_s / 4;
  Op* op = push(*stream, std::move(work), std::move(dependencies));
  op->host = host_token(r);
  op->site = host.site;
  op->start = r.time;
  op->trace = id;
  stream->last_trace = id;
  if (out != nullptr) *out = op;
  return kCudaSuccess;
}

Ticket Machine::Impl::add_ticket(Host host, std::string what) {
  const Ticket ticket = next_ticket++;
  TicketState& state = tickets[ticket];
  state.host = host;
  state.what = std::move(what);
  return ticket;
}

void Machine::Impl::complete(Ticket ticket, int error, std::vector<uint8_t> data) {
  const auto found = tickets.find(ticket);
  if (found == tickets.end()) return;
  completions.push_back(Completion{ticket, found->second.host, error, std::move(data)});
  tickets.erase(found);
}

Outcome Machine::Impl::wait_for(Host host, std::vector<TokenRef> tokens, std::string what,
                                std::function<int()> then) {
  RankState& r = rank(host);
  {
    TraceOp op = named(OpKind::kHostWait, what);
    op.rank = static_cast<int16_t>(host.rank);
    op.stream = UINT32_MAX;
    op.done = true;
    trace_op(op, tokens);
  }
  const bool all =
      std::all_of(tokens.begin(), tokens.end(), [](const TokenRef& t) { return t->done; });
  if (all) {
    for (const TokenRef& token : tokens) host_acquires(r, *token);
    return Outcome{then ? then() : 0, 0};
  }
  const Ticket ticket = add_ticket(host, std::move(what));
  tickets[ticket].waits = std::move(tokens);
  tickets[ticket].then = std::move(then);
  return Outcome{0, ticket};
}

void Machine::Impl::check_tickets(int rank_index) {
  std::vector<Ticket> over;
  for (auto& [ticket, state] : tickets) {
    if (state.host.rank != rank_index || state.waits.empty()) continue;
    if (std::all_of(state.waits.begin(), state.waits.end(),
                    [](const TokenRef& t) { return t->done; })) {
      over.push_back(ticket);
    }
  }
  for (const Ticket ticket : over) {
    TicketState& state = tickets.at(ticket);
    for (const TokenRef& token : state.waits) host_acquires(rank(state.host), *token);
    const auto then = std::move(state.then);
    const int ok = state.ok;
    complete(ticket, then ? then() : ok);
  }
}

// ---- Machine: streams

Outcome Machine::stream_create(Host host, uint32_t flags, int priority, StreamHandle* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  if ((flags & ~kStreamNonBlocking) != 0) {
    return {impl_->explain(r, kCudaInvalidValue, "unknown stream flags"), 0};
  }
  *out = impl_->add_stream(r, flags, std::clamp(priority, -5, 0))->handle;
  return {};
}

Outcome Machine::stream_destroy(Host host, StreamHandle handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = handle <= kStreamPerThread ? nullptr : impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (stream->capture != nullptr) stream->capture->invalidated = true;
  stream->destroyed = true;
  return {};
}

Outcome Machine::stream_info(Host host, StreamHandle handle, StreamInfo* out) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  *out = StreamInfo{stream->flags, stream->priority, CaptureStatus::kNone, 0};
  if (stream->capture != nullptr) {
    out->capture =
        stream->capture->invalidated ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
    out->capture_id = stream->capture->id;
  }
  return {};
}

namespace {

// Synchronising with a captured stream is an error that spoils the capture.
int forbid_captured(StreamState& stream) {
  if (stream.capture == nullptr) return kCudaSuccess;
  stream.capture->invalidated = true;
  return kCudaStreamCaptureUnsupported;
}

}  // namespace

Outcome Machine::stream_query(Host host, StreamHandle handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (const int code = forbid_captured(*stream); code != 0) return {code, 0};
  const TokenRef token = impl_->mark(*stream);
  if (!token->done) return {kCudaNotReady, 0};
  impl_->host_acquires(r, *token);
  return {};
}

Outcome Machine::stream_synchronize(Host host, StreamHandle handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (const int code = forbid_captured(*stream); code != 0) {
    return {impl_->explain(r, code, "cudaStreamSynchronize on a stream that is being captured"), 0};
  }
  std::vector<TokenRef> tokens{impl_->mark(*stream)};
  if (stream == r.legacy) {
    for (auto& [other_handle, other] : r.streams) {
      if (other.get() != stream && other->blocking() && !other->queue.empty())
        tokens.push_back(impl_->mark(*other));
    }
  }
  return impl_->wait_for(host, std::move(tokens),
                         "cudaStreamSynchronize on stream " + std::to_string(stream->index));
}

Outcome Machine::device_synchronize(Host host) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  std::vector<TokenRef> tokens;
  for (auto& [handle, stream] : r.streams) {
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      return {impl_->explain(r, kCudaStreamCaptureUnsupported,
                             "cudaDeviceSynchronize while a stream is being captured"),
              0};
    }
    if (stream->operations > 0) tokens.push_back(impl_->mark(*stream));
  }
  return impl_->wait_for(host, std::move(tokens), "cudaDeviceSynchronize");
}

Outcome Machine::launch_host_function(Host host, StreamHandle handle, uint64_t function,
                                      uint64_t argument) {
  return {impl_->enqueue(host, impl_->find_stream(host, handle), HostWork{function, argument},
                         impl_->named(OpKind::kHostFunction, "cudaLaunchHostFunc")),
          0};
}

Outcome Machine::stream_write_value(Host host, const StreamValue& value) {
  RankState& r = impl_->rank(host);
  if ((value.bytes != 4 && value.bytes != 8) || value.address % value.bytes != 0) {
    return {impl_->explain(r, kCudaInvalidValue,
                           "stream values are 4 or 8 bytes, aligned to their size"),
            0};
  }
  return {impl_->enqueue(host, impl_->find_stream(host, value.stream), WriteValueWork{value},
                         impl_->named(OpKind::kWriteValue, "cuStreamWriteValue")),
          0};
}

Outcome Machine::stream_wait_value(Host host, const StreamValue& value) {
  RankState& r = impl_->rank(host);
  if ((value.bytes != 4 && value.bytes != 8) || value.address % value.bytes != 0) {
    return {impl_->explain(r, kCudaInvalidValue,
                           "stream values are 4 or 8 bytes, aligned to their size"),
            0};
  }
  return {impl_->enqueue(host, impl_->find_stream(host, value.stream), WaitValueWork{value},
                         impl_->named(OpKind::kWaitValue, "cuStreamWaitValue")),
          0};
}

// ---- Machine: events

namespace {

EventState* find_event(RankState& rank, EventHandle handle) {
  const auto found = rank.events.find(handle);
  return found == rank.events.end() ? nullptr : found->second.get();
}
constexpr const char* kNoEvent = "the event does not exist on this rank or was destroyed";

}  // namespace

Outcome Machine::event_create(Host host, uint32_t flags, EventHandle* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  auto event = std::make_unique<EventState>();
  event->handle = impl_->handle();
  event->flags = flags;
  *out = event->handle;
  r.events.emplace(event->handle, std::move(event));
  return {};
}

Outcome Machine::event_destroy(Host host, EventHandle handle) {
  RankState& r = impl_->rank(host);
  if (r.events.erase(handle) == 0)
    return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  return {};
}

Outcome Machine::event_record(Host host, EventHandle handle, StreamHandle stream_handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, stream_handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  EventState* event = find_event(r, handle);
  if (event == nullptr) return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  if (stream->capture != nullptr) {
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_tail;
    event->token = nullptr;
    return {};
  }
  event->capture = nullptr;
  event->capture_nodes.clear();
  auto token = std::make_shared<Token>(stream->pool);
  token->stream = stream->index;
  token->rank = stream->rank;
  const int code = impl_->enqueue(host, stream, RecordWork{token},
                                  impl_->named(OpKind::kEventRecord, "cudaEventRecord"));
  token->trace = stream->last_trace;
  if (code == 0) event->token = std::move(token);
  return {code, 0};
}

Outcome Machine::stream_wait_event(Host host, StreamHandle stream_handle, EventHandle handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, stream_handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  EventState* event = find_event(r, handle);
  if (event == nullptr) return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  if (event->capture != nullptr) {
    if (stream->capture != nullptr && stream->capture != event->capture) {
      stream->capture->invalidated = event->capture->invalidated = true;
      return {impl_->explain(r, kCudaStreamCaptureMerge, "the event belongs to another capture"),
              0};
    }
    if (stream->capture == nullptr) {
      if (!stream->queue.empty() && stream == r.legacy) {
        return {impl_->explain(r, kCudaStreamCaptureImplicit,
                               "the legacy default stream cannot join a capture"),
                0};
      }
      stream->capture = event->capture;
      stream->capture_tail.clear();
      event->capture->streams.insert(stream);
      ++r.captures;
    }
    for (const uint32_t node : event->capture_nodes) {
      if (std::find(stream->capture_tail.begin(), stream->capture_tail.end(), node) ==
          stream->capture_tail.end()) {
        stream->capture_tail.push_back(node);
      }
    }
    return {};
  }
  if (stream->capture != nullptr) {
    if (event->token == nullptr) return {};
    stream->capture->invalidated = true;
    return {impl_->explain(
                r, kCudaStreamCaptureIsolation,
                "a captured stream waits for an event that was recorded outside of the capture"),
            0};
  }
  std::vector<TokenRef> dependencies;
  if (event->token != nullptr) dependencies.push_back(event->token);
  return {impl_->enqueue(host, stream, WaitWork{},
                         impl_->named(OpKind::kEventWait, "cudaStreamWaitEvent"),
                         std::move(dependencies)),
          0};
}

Outcome Machine::event_query(Host host, EventHandle handle) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const EventState* event = find_event(r, handle);
  if (event == nullptr) return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  if (event->capture != nullptr)
    return {impl_->explain(r, kCudaCapturedEvent, "the event is being captured"), 0};
  if (event->token == nullptr) return {};
  if (!event->token->done) return {kCudaNotReady, 0};
  impl_->host_acquires(r, *event->token);
  return {};
}

Outcome Machine::event_synchronize(Host host, EventHandle handle) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const EventState* event = find_event(r, handle);
  if (event == nullptr) return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  if (event->capture != nullptr) {
    event->capture->invalidated = true;
    return {impl_->explain(r, kCudaCapturedEvent,
                           "cudaEventSynchronize on an event that is being captured"),
            0};
  }
  if (event->token == nullptr) return {};
  return impl_->wait_for(
      host, {event->token},
      "cudaEventSynchronize on an event of stream " + std::to_string(event->token->stream));
}

Outcome Machine::event_elapsed_ms(Host host, EventHandle start, EventHandle end, float* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const EventState* first = find_event(r, start);
  const EventState* last = find_event(r, end);
  if (first == nullptr || last == nullptr)
    return {impl_->explain(r, kCudaInvalidResourceHandle, kNoEvent), 0};
  if (((first->flags | last->flags) & kEventDisableTiming) != 0 || first->token == nullptr ||
      last->token == nullptr) {
    return {impl_->explain(r, kCudaInvalidResourceHandle,
                           "an event was made without timing or has never been recorded"),
            0};
  }
  if (!first->token->done || !last->token->done) return {kCudaNotReady, 0};
  *out = static_cast<float>((last->token->time - first->token->time) * 1e3);
  return {};
}

}  // namespace sculler::emu
