// A fluid simulation: operations run at speeds that depend on what else runs, and the speeds change
// only when an operation starts or ends.
#include "emu/predict/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "emu/predict/model.h"

namespace sculler::emu {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Item {
  enum class State : uint8_t { kUnissued, kQueued, kFixed, kWork, kMeets, kDone };
  uint32_t id = 0;
  const TraceOp* op = nullptr;
  Demand demand;
  State state = State::kUnissued;
  std::vector<size_t> dependencies;
  size_t before = SIZE_MAX;  // the one before it in its stream
  size_t group = SIZE_MAX;   // collectives, kernels that meet
  double issued = kNever, start = 0, end = kNever;
  double left = 0, speed = 0;  // seconds at full speed
  double until = 0;            // end of the fixed part
};

struct HostThread {
  std::vector<size_t> items;  // in the order of calls, waits included
  size_t next = 0;
  double time = 0;  // when it is free
  double end = 0;
};

class Simulation {
 public:
  Simulation(const Trace& trace, const PredictRequest& request, const Rates& rates)
      : trace_(trace),
        request_(request),
        rates_(rates),
        growth_(growth(request.emulated, request.real)) {}

  Result<Prediction> run();

 private:
  Status select();
  void prepare();
  void issue();
  bool start();
  void speeds();
  void finish(size_t index);
  [[nodiscard]] bool waits(const Item& item) const { return item.op->kind == OpKind::kHostWait; }

  const Trace& trace_;
  const PredictRequest& request_;
  const Rates& rates_;
  Growth growth_;
  std::vector<Item> items_;
  std::vector<HostThread> hosts_;
  std::vector<std::vector<size_t>> groups_;
  double now_ = 0;
};

// Takes each rank's operations of the last iteration.
Status Simulation::select() {
  const auto n = static_cast<size_t>(request_.n_ranks);
  hosts_.resize(n);
  std::vector<size_t> from(n, 0), to(n, trace_.ops.size());
  const auto named = [&](const TraceOp& op, const std::string& label) {
    return op.kind == OpKind::kMark && trace_.names[op.name] == label;
  };
  std::vector<size_t> opened(n, SIZE_MAX);
  for (size_t i = 0; i < trace_.ops.size(); ++i) {
    const TraceOp& op = trace_.ops[i];
    const auto r = static_cast<size_t>(op.rank);
    if (op.rank < 0 || r >= n)
      return fail(ErrorCode::kBadInput, "the trace has more ranks than were asked for");
    if (named(op, request_.begin)) opened[r] = i;
    if (named(op, request_.end) && opened[r] != SIZE_MAX) {
      from[r] = opened[r] + 1;
      to[r] = i;
    }
  }
  for (size_t r = 0; r < n; ++r) {
    // Opened and not ended: the iteration that the trace ends with.
    if (opened[r] != SIZE_MAX && (to[r] == trace_.ops.size() || opened[r] > to[r])) {
      from[r] = opened[r] + 1;
      to[r] = trace_.ops.size();
    }
  }
  if (request_.after_first_wait) {
    for (size_t r = 0; r < n; ++r) {
      for (size_t i = from[r]; i < to[r]; ++i) {
        if (static_cast<size_t>(trace_.ops[i].rank) != r || trace_.ops[i].kind != OpKind::kHostWait)
          continue;
        from[r] = i + 1;
        break;
      }
    }
  }
  std::map<uint32_t, size_t> by_id;
  std::map<std::pair<int, uint32_t>, size_t> last;
  for (size_t i = 0; i < trace_.ops.size(); ++i) {
    const TraceOp& op = trace_.ops[i];
    const auto r = static_cast<size_t>(op.rank);
    if (i < from[r] || i >= to[r] || op.kind == OpKind::kMark) continue;
    const size_t index = items_.size();
    Item item;
    item.id = trace_.base + static_cast<uint32_t>(i);
    item.op = &op;
    by_id[item.id] = index;
    if (op.kind != OpKind::kHostWait) {
      const auto [place, added] = last.try_emplace({op.rank, op.stream}, index);
      if (!added) item.before = std::exchange(place->second, index);
    }
    hosts_[r].items.push_back(index);
    items_.push_back(std::move(item));
  }
  for (Item& item : items_) {
    for (uint32_t d = 0; d < item.op->n_dependencies; ++d) {
      const auto found = by_id.find(trace_.dependencies[item.op->first_dependency + d]);
      if (found != by_id.end()) item.dependencies.push_back(found->second);
    }
  }
  for (size_t r = 0; r < n; ++r) {
    if (hosts_[r].items.empty()) {
      return fail(ErrorCode::kBadInput,
                  "rank " + std::to_string(r) + " did nothing on its device in the iteration");
    }
  }
  return {};
}

void Simulation::prepare() {
  // Counterparts: the n-th launch of a kernel on every rank.
  std::map<std::pair<uint32_t, size_t>, std::vector<size_t>> kernels;
  std::map<std::pair<int, uint32_t>, size_t> counts;
  std::map<uint32_t, std::vector<size_t>> meetings;
  for (size_t i = 0; i < items_.size(); ++i) {
    const TraceOp& op = *items_[i].op;
    if (op.kind == OpKind::kKernel) kernels[{op.name, counts[{op.rank, op.name}]++}].push_back(i);
    if (op.kind == OpKind::kCollective && op.meeting != UINT32_MAX)
      meetings[op.meeting].push_back(i);
  }
  for (auto& [key, same] : kernels) {
    double least = kNever;
    for (const size_t i : same) {
      const TraceOp& op = *items_[i].op;
      const double n = op.grid < trace_.grids.size()
                           ? static_cast<double>(trace_.grids[op.grid].counters.warp_instructions)
                           : 0.0;
      least = std::min(least, n);
    }
    for (const size_t i : same)
      items_[i].demand = demand(trace_, *items_[i].op, least, growth_, rates_);
    const bool all =
        same.size() == hosts_.size() && same.size() > 1 &&
        std::all_of(same.begin(), same.end(), [&](size_t i) { return items_[i].demand.meets; });
    if (all) {
      for (const size_t i : same) items_[i].group = groups_.size();
      groups_.push_back(same);
    }
  }
  for (auto& [meeting, same] : meetings) {
    for (const size_t i : same) items_[i].group = groups_.size();
    groups_.push_back(same);
  }
  for (Item& item : items_) {
    if (item.op->kind != OpKind::kKernel)
      item.demand = demand(trace_, *item.op, 0, growth_, rates_);
    item.left = item.demand.work;
  }
}

// Lets the hosts make the calls that they can make by now.
void Simulation::issue() {
  for (HostThread& host : hosts_) {
    while (host.next < host.items.size()) {
      Item& item = items_[host.items[host.next]];
      if (waits(item)) {
        double ready = host.time;
        bool all = true;
        for (const size_t d : item.dependencies) {
          all = all && items_[d].state == Item::State::kDone;
          if (all) ready = std::max(ready, items_[d].end);
        }
        if (!all) break;
        item.start = host.time;
        host.time = item.end = std::max(now_, ready) + rates_.host.synchronize;
        item.state = Item::State::kDone;
      } else {
        host.time += item.demand.host;
        item.issued = host.time;
        item.state = Item::State::kQueued;
      }
      ++host.next;
    }
  }
}

// When an operation may start; kNever where something before it has not ended.
bool Simulation::start() {
  bool any = false;
  const auto earliest = [&](const Item& item) {
    double at = item.issued + rates_.host.submit;
    if (item.op->from_graph) at = item.issued;
    if (item.before != SIZE_MAX) {
      if (items_[item.before].state != Item::State::kDone) return kNever;
      at = std::max(at, items_[item.before].end +
                            (item.demand.kind == Demand::Kind::kNothing ? 0 : rates_.host.gap));
    }
    for (const size_t d : item.dependencies) {
      if (items_[d].state != Item::State::kDone) return kNever;
      at = std::max(at, items_[d].end + rates_.host.dependency);
    }
    return at;
  };
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (item.state != Item::State::kQueued) continue;
    double at = earliest(item);
    if (item.group != SIZE_MAX && item.op->kind == OpKind::kCollective) {
      for (const size_t other : groups_[item.group]) {
        if (items_[other].state == Item::State::kUnissued) at = kNever;
        else if (items_[other].state == Item::State::kQueued)
          at = std::max(at, earliest(items_[other]));
      }
    }
    if (at == kNever) continue;
    item.state = Item::State::kFixed;
    item.start = std::max(at, item.start);
    item.until = item.start + item.demand.fixed;
    any = true;
  }
  return any;
}

void Simulation::speeds() {
  const size_t n = hosts_.size();
  std::vector<double> big(n, 0), nccl(n, 0), in(n, 0), out(n, 0);
  std::vector<int> copies(n, 0), engines(n, 0);
  const auto running = [&](const Item& item) {
    return item.state == Item::State::kWork ||
           (item.state == Item::State::kFixed && item.start <= now_);
  };
  const auto ports = [&](const Item& item, auto&& each) {
    const Demand& d = item.demand;
    const auto own = static_cast<size_t>(item.op->rank);
    if (d.link <= 0) return;
    const size_t from = d.from >= 0 ? static_cast<size_t>(d.from) : own;
    const size_t to = d.to >= 0 && static_cast<size_t>(d.to) < n ? static_cast<size_t>(d.to) : own;
    each(out[from], in[to]);
  };
  for (const Item& item : items_) {
    if (!running(item)) continue;
    const auto r = static_cast<size_t>(item.op->rank);
    const Demand& d = item.demand;
    if (d.kind == Demand::Kind::kKernel || d.kind == Demand::Kind::kGemm) big[r] += d.sms;
    if (d.kind == Demand::Kind::kNccl) nccl[r] += d.sms;
    if (item.state != Item::State::kWork) continue;
    if (d.kind == Demand::Kind::kPeerCopy) {
      ++copies[r];
      if (d.to >= 0 && static_cast<size_t>(d.to) < n) ++copies[static_cast<size_t>(d.to)];
    }
    if (d.kind == Demand::Kind::kPeerCopy || d.kind == Demand::Kind::kOtherCopy) ++engines[r];
    // A kernel's stores leave through the own port and enter the peers': with all ranks alike, in =
    // out.
    ports(item, [&](double& leaves, double& enters) {
      leaves += d.link;
      enters += d.link;
    });
  }
  for (Item& item : items_) {
    if (item.state != Item::State::kWork) continue;
    const auto r = static_cast<size_t>(item.op->rank);
    const Demand& d = item.demand;
    double speed = 1;
    if (d.kind == Demand::Kind::kKernel || d.kind == Demand::Kind::kGemm) {
      const double there = std::max(1.0, rates_.sms - std::min(nccl[r], 0.5 * rates_.sms));
      speed = std::min(1.0, there / std::max(1.0, big[r]));
      if (copies[r] > 0) speed /= 1 + rates_.copy_interference;
    }
    if (d.kind == Demand::Kind::kNccl && big[r] > rates_.sms / 2.0) speed = rates_.nccl_beside_gemm;
    if (engines[r] > static_cast<int>(rates_.copy_engines) &&
        (d.kind == Demand::Kind::kPeerCopy || d.kind == Demand::Kind::kOtherCopy)) {
      speed *= rates_.copy_engines / static_cast<double>(engines[r]);
    }
    ports(item, [&](double leaves, double enters) {
      speed *= std::min(1.0, rates_.link / std::max({leaves, enters, 1.0}));
    });
    item.speed = std::max(speed, 1e-3);
  }
  // The parts of a collective go at the pace of the slowest.
  for (const auto& group : groups_) {
    double least = kNever;
    for (const size_t i : group) {
      if (items_[i].op->kind == OpKind::kCollective && items_[i].state == Item::State::kWork) {
        least = std::min(least, items_[i].speed);
      }
    }
    for (const size_t i : group) {
      if (items_[i].op->kind == OpKind::kCollective && items_[i].state == Item::State::kWork)
        items_[i].speed = least;
    }
  }
}

void Simulation::finish(size_t index) {
  Item& item = items_[index];
  const bool meets = item.group != SIZE_MAX && item.op->kind == OpKind::kKernel;
  if (!meets) {
    item.state = Item::State::kDone;
    item.end = now_;
    return;
  }
  item.state = Item::State::kMeets;
  const auto& group = groups_[item.group];
  const auto there = [&](size_t i) { return items_[i].state == Item::State::kMeets; };
  if (!std::all_of(group.begin(), group.end(), there)) return;
  for (const size_t i : group) {
    items_[i].state = Item::State::kDone;
    items_[i].end = now_;
  }
}

Result<Prediction> Simulation::run() {
  if (request_.n_ranks < 1 || request_.n_ranks > static_cast<int>(kMaxRanks)) {
    return fail(ErrorCode::kBadInput,
                "a prediction is for 1 to " + std::to_string(kMaxRanks) + " ranks");
  }
  if (const Status status = select(); !status) return fail(status.error());
  prepare();
  const size_t most = 64 * items_.size() + 1024;
  for (size_t step = 0;; ++step) {
    if (step > most) return fail(ErrorCode::kInternal, "the prediction does not come to an end");
    issue();
    if (start()) continue;
    speeds();
    double next = kNever;
    for (const Item& item : items_) {
      if (item.state == Item::State::kFixed)
        next = std::min(next, item.start > now_ ? item.start : item.until);
      if (item.state == Item::State::kWork) next = std::min(next, now_ + item.left / item.speed);
    }
    if (next == kNever) {
      // Kernels that wait for counterparts which never come (a push that nobody answers): they end
      // on their own.
      bool released = false;
      for (Item& item : items_) {
        if (item.state != Item::State::kMeets) continue;
        item.state = Item::State::kDone;
        item.end = now_;
        released = true;
      }
      if (released) continue;
      break;
    }
    next = std::max(next, now_);
    for (Item& item : items_) {
      if (item.state == Item::State::kWork) item.left -= (next - now_) * item.speed;
    }
    now_ = next;
    constexpr double kSoon = 1e-12;
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (item.state == Item::State::kFixed && item.until <= now_ + kSoon) {
        item.state = Item::State::kWork;
        if (item.left <= 0) finish(i);
      } else if (item.state == Item::State::kWork && item.left <= kSoon) {
        finish(i);
      }
    }
  }
  Prediction out;
  for (size_t r = 0; r < hosts_.size(); ++r) {
    double end = hosts_[r].time;
    for (const size_t i : hosts_[r].items) {
      const Item& item = items_[i];
      if (item.state != Item::State::kDone) {
        return fail(ErrorCode::kBadInput,
                    "an operation of rank " + std::to_string(r) +
                        " never starts in the predicted order: " + trace_.names[item.op->name]);
      }
      end = std::max(end, item.end);
      if (!waits(item)) {
        out.ops.push_back(PredictedOp{item.id, static_cast<int>(r), item.op->stream, item.op->kind,
                                      item.start * 1e6, item.end * 1e6, trace_.names[item.op->name],
                                      item.demand.bound});
      }
    }
    const bool synchronised = !hosts_[r].items.empty() && waits(items_[hosts_[r].items.back()]);
    out.per_rank_us.push_back((end + (synchronised ? 0 : rates_.host.synchronize)) * 1e6);
  }
  std::stable_sort(out.ops.begin(), out.ops.end(),
                   [](const PredictedOp& a, const PredictedOp& b) { return a.end_us < b.end_us; });
  out.latency_us = *std::max_element(out.per_rank_us.begin(), out.per_rank_us.end());
  return out;
}

}  // namespace

Result<Prediction> predict(const Trace& trace, const PredictRequest& request, const Rates& rates) {
  return Simulation(trace, request, rates).run();
}

}  // namespace sculler::emu
