// Why nothing goes on: each rank's blocked threads, the heads of its streams and what they wait
// for.
#include "emu/device/state.h"

namespace sculler::emu {

namespace {

std::string hex(uint64_t value) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value & 15]);
  while ((value >>= 4) != 0);
  return "0x" + text;
}

const char* name(WarpState::Wait wait) {
  switch (wait) {
    case WarpState::Wait::kRunning: return "running";
    case WarpState::Wait::kBarrier: return "at a barrier";
    case WarpState::Wait::kSpin: return "spinning";
    case WarpState::Wait::kGridSync: return "at a grid barrier";
    case WarpState::Wait::kNotResident: return "not resident";
    case WarpState::Wait::kMbarrier: return "at an mbarrier";
    case WarpState::Wait::kCluster: return "at the barrier of its cluster";
  }
  return "";
}

}  // namespace

std::string Machine::Impl::describe(const Op& op) const {
  struct Visitor {
    const Impl& impl;
    std::string operator()(const KernelWork& work) const {
      return "kernel " + impl.engine.info(work.request.kernel).name;
    }
    std::string operator()(const CopyWork&) const { return "cudaMemcpyAsync"; }
    std::string operator()(const MemsetWork&) const { return "cudaMemsetAsync"; }
    std::string operator()(const RecordWork&) const { return "cudaEventRecord"; }
    std::string operator()(const WaitWork&) const { return "cudaStreamWaitEvent"; }
    std::string operator()(const HostWork&) const { return "cudaLaunchHostFunc"; }
    std::string operator()(const WriteValueWork&) const { return "cuStreamWriteValue"; }
    std::string operator()(const WaitValueWork&) const { return "cuStreamWaitValue"; }
    std::string operator()(const GemmWork&) const { return "cublasGemmEx"; }
    std::string operator()(const FreeWork&) const { return "cudaFreeAsync"; }
    std::string operator()(const NcclWork& work) const {
      if (work.tasks.size() != 1)
        return "an NCCL group of " + std::to_string(work.tasks.size()) + " calls";
      const NcclTask& task = work.tasks.front();
      std::string text = emu::name(task.request.kind);
      if (task.request.kind == Collective::kSend)
        return text + " to rank " + std::to_string(task.request.peer);
      if (task.request.kind == Collective::kRecv)
        return text + " from rank " + std::to_string(task.request.peer);
      return text + " (call " + std::to_string(task.sequence + 1) + " of communicator " +
             std::to_string(work.member->comm->id) + ")";
    }
  };
  return std::visit(Visitor{*this}, op.work);
}

// Of a group the first call that is not over.
uint32_t Machine::Impl::site_of(const Op& op) {
  if (const auto* work = std::get_if<NcclWork>(&op.work)) {
    for (const NcclTask& task : work->tasks) {
      if (!task.done && task.request.site != 0) return task.request.site;
    }
  }
  return op.site;
}

std::string Machine::Impl::why_waiting(const Op& op) const {
  if (!op.running) {
    for (const TokenRef& token : op.dependencies) {
      if (!token->done) return "waits for earlier work of stream " + std::to_string(token->stream);
    }
    if (op.after != nullptr && !op.after->done) {
      return "waits for the communicator's earlier call in stream " +
             std::to_string(op.after->stream);
    }
    if (const auto* wait = std::get_if<WaitValueWork>(&op.work)) {
      uint64_t now = 0;
      for (uint32_t i = 0; i < wait->value.bytes; ++i) {
        now |= uint64_t{static_cast<const uint8_t*>(pointer(wait->value.address))[i]} << (8 * i);
      }
      return "waits for " + hex(wait->value.value) + " at " +
             const_cast<Engine&>(engine).memory().describe(wait->value.address) + ", which holds " +
             hex(now);
    }
    return "can start";
  }
  if (std::holds_alternative<KernelWork>(op.work)) return "runs, see its warps";
  if (std::holds_alternative<HostWork>(op.work)) return "waits for the rank to run the function";
  const auto* work = std::get_if<NcclWork>(&op.work);
  if (work == nullptr) return "runs";
  const Communicator& comm = *work->member->comm;
  // What a rank is at instead.
  const auto absent = [&](size_t i) {
    const int world = comm.world[i];
    const RankState& r = ranks[static_cast<size_t>(world)];
    std::string text = "rank " + std::to_string(world);
    if (r.gone) return text + ", whose process ended";
    if (r.sticky != 0) return text + ", whose context is broken (" + r.message + ")";
    bool any = false;
    for (const auto& [handle, stream] : r.streams) {
      for (const auto& queued : stream->queue) {
        const auto* other = std::get_if<NcclWork>(&queued->work);
        if (other == nullptr || other->member->comm.get() != &comm || queued->running) continue;
        text += any ? " and " : ", which has ";
        text += describe(*queued) + " in stream " + std::to_string(stream->index) + " behind " +
                describe(*stream->queue.front());
        any = true;
        break;
      }
    }
    return any ? text : text + ", which has not called it";
  };
  for (const NcclTask& task : work->tasks) {
    if (task.done) continue;
    std::string text = std::string(emu::name(task.request.kind)) + " waits for ";
    if (task.request.kind == Collective::kSend || task.request.kind == Collective::kRecv) {
      return text + absent(static_cast<size_t>(task.request.peer)) +
             (task.request.kind == Collective::kSend ? ": no matching ncclRecv"
                                                     : ": no matching ncclSend");
    }
    const auto found = comm.collectives.find(task.sequence);
    if (found == comm.collectives.end()) continue;
    bool first = true;
    for (size_t i = 0; i < found->second.size(); ++i) {
      if (found->second[i].op != nullptr) continue;
      text += (first ? "" : "; ") + absent(i);
      first = false;
    }
    return text;
  }
  return "runs";
}

DeadlockReport Machine::deadlock() const {
  DeadlockReport report;
  const auto broken = [&](const RankState& r) { return r.sticky != 0 || r.gone; };
  for (const RankState& r : impl_->ranks) {
    DeadlockReport::Rank out;
    out.rank = r.rank;
    for (const auto& [ticket, state] : impl_->tickets) {
      if (state.host.rank != r.rank) continue;
      out.hosts.push_back(state.what);
      out.host_code.push_back(host_code(state.host.site));
    }
    for (const auto& [handle, stream] : r.streams) {
      if (stream->queue.empty()) continue;
      const Op& head = *stream->queue.front();
      out.streams.push_back(DeadlockReport::Stream{
          stream->index, impl_->describe(head), impl_->why_waiting(head),
          static_cast<uint32_t>(stream->queue.size()), host_code(Impl::site_of(head))});
    }
    report.text += "rank " + std::to_string(r.rank) + ":";
    if (broken(r)) report.text += " broken: " + r.message;
    for (const std::string& host : out.hosts) report.text += " host waits in " + host + ";";
    if (out.hosts.empty() && !broken(r)) report.text += " host is not blocked;";
    if (out.streams.empty()) report.text += " its streams are empty";
    report.text += "\n";
    for (const DeadlockReport::Stream& stream : out.streams) {
      report.text += "  stream " + std::to_string(stream.index) + " (" +
                     std::to_string(stream.queued) + " queued): " + stream.head + ": " +
                     stream.why + "\n";
    }
    report.ranks.push_back(std::move(out));
  }
  report.warps = impl_->engine.warps();
  // Warps that wait at the same place for the same reason are one line.
  struct Line {
    std::string text;
    uint64_t count = 0;
    uint32_t block = 0;
  };
  std::vector<Line> lines;
  std::map<std::string, size_t> known;
  for (const WarpState& warp : report.warps) {
    std::string text = short_name(warp.kernel) + ": " + name(warp.wait);
    if (warp.wait != WarpState::Wait::kNotResident) {
      const Location place = impl_->engine.locate(warp.code);
      if (!place.file.empty()) text += " at " + place.file + ":" + std::to_string(place.line);
    }
    if (warp.wait == WarpState::Wait::kSpin) {
      text += " on " + impl_->engine.memory().describe(warp.address) + ", which holds " +
              hex(warp.value);
    }
    if (warp.wait == WarpState::Wait::kBarrier || warp.wait == WarpState::Wait::kMbarrier ||
        warp.wait == WarpState::Wait::kCluster) {
      text += " " + std::to_string(warp.barrier) + ", " + std::to_string(warp.arrived) + " of " +
              std::to_string(warp.expected) + " arrived";
    }
    text = "  rank " + std::to_string(warp.rank) + " " + text;
    const auto [found, added] = known.try_emplace(text, lines.size());
    if (added) lines.push_back(Line{text, 0, warp.block});
    ++lines[found->second].count;
  }
  constexpr size_t kMostLines = 40;
  for (size_t i = 0; i < lines.size() && i < kMostLines; ++i) {
    report.text += lines[i].text + " (" + std::to_string(lines[i].count) +
                   " warps, first in block " + std::to_string(lines[i].block) + ")\n";
  }
  if (lines.size() > kMostLines)
    report.text += "  and " + std::to_string(lines.size() - kMostLines) + " more\n";
  return report;
}

}  // namespace sculler::emu
