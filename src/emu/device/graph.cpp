// Stream capture and graphs. A launched graph becomes ordinary operations: a begin in the launching
// stream, chains of nodes in streams of the graph's own, an end in the launching stream that waits
// for all chains.
#include "emu/device/state.h"

namespace sculler::emu {

namespace {

// What cannot be a node, or null.
const char* not_a_node(const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work)) {
    if (copy->request.host_destination) return "a copy to pageable memory cannot be captured";
  }
  if (std::holds_alternative<FreeWork>(work))
    return "memory nodes in captured graphs are not emulated";
  return nullptr;
}

}  // namespace

int Machine::Impl::capture_work(Host host, StreamState& stream, Work work, const TraceOp& record,
                                const std::vector<uint32_t>& more) {
  RankState& r = rank(host);
  Capture& capture = *stream.capture;
  if (capture.invalidated)
    return explain(r, kCudaStreamCaptureInvalidated, "the capture was invalidated before");
  if (const char* why = not_a_node(work)) {
    capture.invalidated = true;
    return explain(r, kCudaStreamCaptureUnsupported, why);
  }
  if (std::holds_alternative<WaitWork>(work))
    return kCudaSuccess;  // its dependencies were merged already
  GraphNode node{std::move(work), host.site, record, {}, stream.capture_tail};
  if (record.grid != UINT32_MAX && record.grid < trace.grids.size())
    node.grid = trace.grids[record.grid];
  for (const uint32_t extra : more) {
    if (std::find(node.dependencies.begin(), node.dependencies.end(), extra) ==
        node.dependencies.end()) {
      node.dependencies.push_back(extra);
    }
  }
  const auto id = static_cast<uint32_t>(capture.graph->nodes.size());
  capture.graph->nodes.push_back(std::move(node));
  stream.capture_tail = {id};
  return kCudaSuccess;
}

Outcome Machine::capture_begin(Host host, StreamHandle handle, CaptureMode mode) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (stream == r.legacy) {
    return {impl_->explain(r, kCudaStreamCaptureUnsupported,
                           "the legacy default stream cannot be captured; create a stream"),
            0};
  }
  if (stream->capture != nullptr) {
    return {impl_->explain(r, kCudaInvalidValue, "the stream is being captured already"), 0};
  }
  auto capture = std::make_shared<Capture>();
  capture->id = impl_->next_capture++;
  capture->mode = mode;
  capture->thread = host.thread;
  capture->origin = stream;
  capture->graph = std::make_shared<Graph>();
  capture->streams.insert(stream);
  stream->capture = std::move(capture);
  stream->capture_tail.clear();
  ++r.captures;
  return {};
}

Outcome Machine::capture_end(Host host, StreamHandle handle, GraphHandle* out) {
  RankState& r = impl_->rank(host);
  *out = 0;
  StreamState* stream = impl_->find_stream(host, handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  if (stream->capture == nullptr) {
    return {impl_->explain(r, kCudaInvalidValue,
                           "cudaStreamEndCapture on a stream that is not being captured"),
            0};
  }
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) {
    capture->invalidated = true;
    return {impl_->explain(r, kCudaStreamCaptureUnmatched, "the capture began in another stream"),
            0};
  }
  if (capture->mode != CaptureMode::kRelaxed && capture->thread != host.thread) {
    return {impl_->explain(r, kCudaStreamCaptureWrongThread, "the capture began in another thread"),
            0};
  }
  int code = kCudaSuccess;
  if (capture->invalidated) {
    code = impl_->explain(r, kCudaStreamCaptureInvalidated,
                          "the capture was invalidated by an earlier call");
  } else {
    // Every node must lie before the end of the origin stream.
    std::vector<bool> joined(capture->graph->nodes.size(), false);
    std::vector<uint32_t> todo = stream->capture_tail;
    while (!todo.empty()) {
      const uint32_t node = todo.back();
      todo.pop_back();
      if (joined[node]) continue;
      joined[node] = true;
      const auto& before = capture->graph->nodes[node].dependencies;
      todo.insert(todo.end(), before.begin(), before.end());
    }
    if (std::find(joined.begin(), joined.end(), false) != joined.end()) {
      code = impl_->explain(r, kCudaStreamCaptureUnjoined,
                            "work of another stream was not joined to the captured stream: record "
                            "an event there and let "
                            "the captured stream wait for it");
    }
  }
  for (StreamState* member : capture->streams) {
    member->capture = nullptr;
    member->capture_tail.clear();
    --r.captures;
  }
  if (code != 0) return {code, 0};
  *out = impl_->handle();
  r.graphs.emplace(*out, capture->graph);
  return {};
}

Outcome Machine::graph_node_count(Host host, GraphHandle handle, uint64_t* out) {
  RankState& r = impl_->rank(host);
  const auto found = r.graphs.find(handle);
  if (found == r.graphs.end()) return {impl_->explain(r, kCudaInvalidValue, "no such graph"), 0};
  *out = found->second->nodes.size();
  return {};
}

Outcome Machine::graph_destroy(Host host, GraphHandle handle) {
  RankState& r = impl_->rank(host);
  if (r.graphs.erase(handle) == 0)
    return {impl_->explain(r, kCudaInvalidValue, "no such graph"), 0};
  return {};
}

Outcome Machine::graph_instantiate(Host host, GraphHandle handle, GraphExecHandle* out) {
  RankState& r = impl_->rank(host);
  if (r.sticky != 0) return {r.sticky, 0};
  const auto found = r.graphs.find(handle);
  if (found == r.graphs.end()) return {impl_->explain(r, kCudaInvalidValue, "no such graph"), 0};
  auto exec = std::make_unique<GraphExec>();
  exec->graph = found->second;
  // Chains: a node goes on where one of its predecessors is the last of a chain.
  std::vector<uint32_t> last;
  for (uint32_t i = 0; i < exec->graph->nodes.size(); ++i) {
    const auto& before = exec->graph->nodes[i].dependencies;
    const auto chain = std::find_if(last.begin(), last.end(), [&](uint32_t node) {
      return std::find(before.begin(), before.end(), node) != before.end();
    });
    exec->branch.push_back(static_cast<uint32_t>(chain - last.begin()));
    if (chain == last.end()) last.push_back(i);
    else *chain = i;
  }
  for (size_t i = 0; i < last.size(); ++i) {
    StreamState* stream = impl_->add_stream(r, kStreamNonBlocking, 0);
    stream->internal = true;
    exec->streams.push_back(stream);
  }
  *out = impl_->handle();
  r.execs.emplace(*out, std::move(exec));
  return {};
}

Outcome Machine::graph_exec_destroy(Host host, GraphExecHandle handle) {
  RankState& r = impl_->rank(host);
  const auto found = r.execs.find(handle);
  if (found == r.execs.end())
    return {impl_->explain(r, kCudaInvalidValue, "no such executable graph"), 0};
  for (StreamState* stream : found->second->streams) stream->destroyed = true;
  r.execs.erase(found);
  return {};
}

Outcome Machine::graph_launch(Host host, GraphExecHandle handle, StreamHandle stream_handle) {
  RankState& r = impl_->rank(host);
  StreamState* stream = impl_->find_stream(host, stream_handle);
  if (const int code = impl_->check_usable(r, stream); code != 0) return {code, 0};
  const auto found = r.execs.find(handle);
  if (found == r.execs.end())
    return {impl_->explain(r, kCudaInvalidValue, "no such executable graph"), 0};
  if (stream->capture != nullptr) {
    stream->capture->invalidated = true;
    return {impl_->explain(r, kCudaStreamCaptureUnsupported, "child graphs are not emulated"), 0};
  }
  GraphExec& exec = *found->second;
  if (const int code = impl_->enqueue(host, stream, WaitWork{},
                                      impl_->named(OpKind::kGraphLaunch, "cudaGraphLaunch"));
      code != 0) {
    return {code, 0};
  }
  const TokenRef begin = impl_->mark(*stream);
  const auto& nodes = exec.graph->nodes;
  // A node whose successor lies in another chain is marked right after it was put into its stream.
  std::vector<bool> crossed(nodes.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const uint32_t before : nodes[i].dependencies) {
      if (exec.branch[before] != exec.branch[i]) crossed[before] = true;
    }
  }
  std::vector<TokenRef> marks(nodes.size());
  std::vector<bool> begun(exec.streams.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const uint32_t branch = exec.branch[i];
    StreamState* chain = exec.streams[branch];
    std::vector<TokenRef> dependencies;
    if (!begun[branch]) dependencies.push_back(begin);
    begun[branch] = true;
    for (const uint32_t before : nodes[i].dependencies) {
      if (exec.branch[before] != branch) dependencies.push_back(marks[before]);
    }
    TraceOp record = nodes[i].trace;
    record.from_graph = true;
    if (record.grid != UINT32_MAX && impl_->config.keep_trace) {
      TraceGrid grid = nodes[i].grid;
      grid.counters = {};
      record.grid = static_cast<uint32_t>(impl_->trace.grids.size());
      impl_->trace.grids.push_back(grid);
    }
    Op* op = nullptr;
    const int code =
        impl_->enqueue(host, chain, nodes[i].work, record, std::move(dependencies), &op);
    if (code != 0) return {code, 0};
    op->site = nodes[i].site;
    if (auto* nccl = std::get_if<NcclWork>(&op->work)) impl_->number(*op, *nccl);
    if (crossed[i]) marks[i] = impl_->mark(*chain);
  }
  std::vector<TokenRef> ends;
  for (StreamState* chain : exec.streams) ends.push_back(impl_->mark(*chain));
  TraceOp record = impl_->named(OpKind::kEventWait, "end of graph");
  record.from_graph = true;
  return {impl_->enqueue(host, stream, WaitWork{}, record, std::move(ends)), 0};
}

}  // namespace sculler::emu
