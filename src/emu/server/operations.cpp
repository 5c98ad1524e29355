#include "emu/server/operations.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "emu/server/report.h"

namespace sculler::emu {

namespace {

// Together they keep the text below a megabyte.
constexpr size_t kMostOperations = 512, kMostCalls = 512, kMostRanges = 48, kMostInAll = 3000;
constexpr size_t kMostName = 120;
constexpr uint64_t kParts = 8;  // of a range

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kKernel: return "kernel";
    case OpKind::kCopy: return "copy";
    case OpKind::kMemset: return "memset";
    case OpKind::kHostFunction: return "host_function";
    case OpKind::kEventRecord: return "event_record";
    case OpKind::kEventWait: return "event_wait";
    case OpKind::kWriteValue: return "write_value";
    case OpKind::kWaitValue: return "wait_value";
    case OpKind::kCollective: return "collective";
    case OpKind::kGemm: return "gemm";
    case OpKind::kGraphLaunch: return "graph_launch";
    case OpKind::kFree: return "free";
    case OpKind::kHostWait: return "host_wait";
    case OpKind::kMark: return "mark";
  }
  return "kernel";
}

struct Run {
  Address begin = 0, end = 0;
  bool sparse = false;  // not every byte between begin and end
};

const Footprint::Side& side_of(const Footprint::Page& page, bool written) {
  return written ? page.written : page.read;
}

// Maximal runs of touched bytes, each within one allocation; beyond kMostRanges neighbours are
// joined over their gaps.
std::vector<Run> runs_of(const Footprint::Operation& op, bool written, const Memory& memory) {
  std::vector<Run> out;
  for (const auto& [number, page] : op.pages) {
    const auto& bits = side_of(page, written).bytes;
    if (bits.none()) continue;
    for (uint64_t i = 0; i < Footprint::kPageBytes; ++i) {
      if (!bits.test(i)) continue;
      uint64_t end = i;
      while (end < Footprint::kPageBytes && bits.test(end)) ++end;
      const Address begin = number * Footprint::kPageBytes + i;
      if (out.empty() || out.back().end != begin ||
          memory.find(out.back().begin) != memory.find(begin))
        out.push_back({begin, begin, false});
      out.back().end = begin + (end - i);
      i = end;
    }
  }
  while (out.size() > kMostRanges) {
    std::vector<Run> merged;
    for (size_t i = 0; i < out.size(); ++i) {
      Run run = out[i];
      if (i + 1 < out.size() && memory.find(run.begin) == memory.find(out[i + 1].begin)) {
        const Run& next = out[++i];
        run.sparse = run.sparse || next.sparse || next.begin != run.end;
        run.end = next.end;
      }
      merged.push_back(run);
    }
    if (merged.size() == out.size()) {  // one for each allocation
      out.resize(kMostRanges);
      break;
    }
    out = std::move(merged);
  }
  return out;
}

// Memory of the harness or of a library: how ranks find each other, not data.
bool hidden(const Allocation& a) {
  return a.kind == Allocation::Kind::kInternal || a.name == "resources of a device communicator";
}

class Writer {
 public:
  Writer(Machine& machine, const Footprint& footprint, const Prediction* predicted)
      : machine_(machine),
        memory_(machine.memory()),
        trace_(machine.trace()),
        footprint_(footprint) {
    if (predicted == nullptr) return;
    for (const PredictedOp& op : predicted->ops) times_[op.op] = &op;
  }

  std::string write(const std::string& untimed);

 private:
  nlohmann::json operation(uint32_t id, const TraceOp& op);
  void ranges(const Footprint::Operation& op, bool written, nlohmann::json& out);
  nlohmann::json parts(const Footprint::Operation& op, bool written, const Run& run,
                       CodeRef* first) const;
  nlohmann::json call(const TraceCall& call);
  // {"space","begin","end"}; nothing where it lies in no allocation, or in a hidden one.
  std::optional<nlohmann::json> place(Address begin, Address end);

  Machine& machine_;
  const Memory& memory_;
  const Trace& trace_;
  const Footprint& footprint_;
  std::map<uint32_t, const PredictedOp*> times_;
  nlohmann::json spaces_ = nlohmann::json::array();
  std::map<const Allocation*, size_t> numbers_;
  size_t n_ranges_ = 0, n_calls_ = 0;
  bool truncated_ = false;
};

std::optional<nlohmann::json> Writer::place(Address begin, Address end) {
  const Allocation* a = memory_.find(begin);
  if (a == nullptr || hidden(*a) || begin < a->begin || end - a->begin > a->bytes)
    return std::nullopt;
  const auto [space, added] = numbers_.try_emplace(a, spaces_.size());
  if (added)
    spaces_.push_back({{"rank", a->rank},
                       {"name", readable(a->name).substr(0, kMostName)},
                       {"bytes", a->bytes},
                       {"address", a->begin}});
  return nlohmann::json{
      {"space", space->second}, {"begin", begin - a->begin}, {"end", end - a->begin}};
}

// Of kParts equal parts, in whole grains, or of as many grains as there are: first and last block,
// first and last step. Empty where no kernel touched the range.
nlohmann::json Writer::parts(const Footprint::Operation& op, bool written, const Run& run,
                             CodeRef* first) const {
  constexpr uint64_t kGrain = Footprint::kGrainBytes;
  const uint64_t from = run.begin / kGrain, grains = (run.end - 1) / kGrain - from + 1;
  const uint64_t n = std::min(kParts, grains);
  std::vector<Footprint::Grain> merged(n);
  for (uint64_t g = 0; g < grains; ++g) {
    const auto page = op.pages.find((from + g) / Footprint::kGrains);
    if (page == op.pages.end()) continue;
    const Footprint::Grain& grain =
        side_of(page->second, written).grains[(from + g) % Footprint::kGrains];
    if (first->function == 0) *first = grain.code;
    Footprint::Grain& part = merged[g * n / grains];
    part.first_block = std::min(part.first_block, grain.first_block);
    part.last_block = std::max(part.last_block, grain.last_block);
    part.first_step = std::min(part.first_step, grain.first_step);
    part.last_step = std::max(part.last_step, grain.last_step);
  }
  nlohmann::json out = nlohmann::json::array();
  for (const Footprint::Grain& part : merged) {
    if (part.first_block == UINT32_MAX) return nlohmann::json::array();
    out.push_back({part.first_block, part.last_block, part.first_step, part.last_step});
  }
  return out;
}

void Writer::ranges(const Footprint::Operation& op, bool written, nlohmann::json& out) {
  for (const Run& run : runs_of(op, written, memory_)) {
    auto range = place(run.begin, run.end);
    if (!range) continue;
    if (++n_ranges_ > kMostInAll) {
      truncated_ = true;
      return;
    }
    if (run.sparse) (*range)["sparse"] = true;
    CodeRef first{};
    if (auto all = parts(op, written, run, &first); !all.empty())
      (*range)["parts"] = std::move(all);
    if (const std::string at = place_of(machine_, first); !at.empty()) (*range)["at"] = at;
    out[written ? "writes" : "reads"].push_back(std::move(*range));
  }
}

nlohmann::json Writer::call(const TraceCall& call) {
  nlohmann::json out{{"name", name(call.kind)}, {"bytes", call.bytes}};
  const std::vector<int>& members = trace_.members[call.members];
  if (call.peer >= 0) out["peer"] = call.peer;
  if (call.kind != Collective::kSend && call.kind != Collective::kRecv) out["members"] = members;
  if (const std::string at = place_of(machine_, host_code(call.site)); !at.empty()) out["at"] = at;
  const uint64_t n = members.size();
  const uint64_t sent = call.bytes * (call.kind == Collective::kReduceScatter ? n : 1);
  const uint64_t received = call.bytes * (call.kind == Collective::kAllGather ? n : 1);
  if (call.kind != Collective::kRecv && sent > 0) {
    if (auto range = place(call.send, call.send + sent)) out["send"] = std::move(*range);
  }
  if (call.kind != Collective::kSend && received > 0) {
    if (auto range = place(call.recv, call.recv + received)) out["recv"] = std::move(*range);
  }
  return out;
}

nlohmann::json Writer::operation(uint32_t id, const TraceOp& op) {
  nlohmann::json one{{"id", id},
                     {"rank", op.rank},
                     {"stream", op.stream == UINT32_MAX ? -1 : static_cast<int64_t>(op.stream)},
                     {"kind", kind_name(op.kind)},
                     {"name", readable(trace_.names[op.name]).substr(0, kMostName)},
                     {"bytes", op.bytes},
                     {"flops", op.flops}};
  if (op.meeting != UINT32_MAX) one["meeting"] = op.meeting;
  if (op.from_graph) one["from_graph"] = true;
  if (op.grid != UINT32_MAX) one["blocks"] = trace_.grids[op.grid].counters.blocks;
  for (uint32_t d = 0; d < op.n_dependencies; ++d) {
    const uint32_t before = trace_.dependencies[op.first_dependency + d];
    if (before >= trace_.base) one["after"].push_back(before);
  }
  if (const auto time = times_.find(id); time != times_.end()) {
    one["start_us"] = time->second->start_us;
    one["end_us"] = time->second->end_us;
    if (!time->second->bound.empty()) one["bound"] = time->second->bound;
  }
  for (uint32_t c = 0; c < op.n_calls; ++c) {
    if (++n_calls_ > kMostCalls) {
      truncated_ = true;
      break;
    }
    one["calls"].push_back(call(trace_.calls[op.first_call + c]));
  }
  const auto found = footprint_.operations().find(id);
  if (found == footprint_.operations().end()) return one;
  one["started"] = found->second.started;
  if (found->second.steps > 0) one["steps"] = found->second.steps;
  if (const std::string at = place_of(machine_, found->second.site); !at.empty()) one["at"] = at;
  for (const bool written : {false, true}) ranges(found->second, written, one);
  return one;
}

std::string Writer::write(const std::string& untimed) {
  nlohmann::json operations = nlohmann::json::array();
  truncated_ = footprint_.truncated() || trace_.ops.size() > kMostOperations;
  for (size_t i = 0; i < trace_.ops.size() && i < kMostOperations; ++i)
    operations.push_back(operation(trace_.base + static_cast<uint32_t>(i), trace_.ops[i]));
  nlohmann::json out{{"spaces", std::move(spaces_)},
                     {"operations", std::move(operations)},
                     {"truncated", truncated_}};
  if (!untimed.empty()) out["untimed"] = untimed;
  return dump_json(out);
}

}  // namespace

std::string operations_json(Machine& machine, const Footprint& footprint,
                            const Prediction* predicted, const std::string& untimed) {
  return Writer(machine, footprint, predicted).write(untimed);
}

}  // namespace sculler::emu
