#include "analyze/headroom.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "analyze/transfers.h"

namespace sculler::analyze {
namespace {

enum Unit : unsigned char { kComputing, kCommunicating, kCopying, kUnits };

std::optional<Unit> unit_of(const Iteration& it, const Operation& op) {
  if (!op.timed()) return std::nullopt;
  if (communicates(it, op)) return kCommunicating;
  if (computes(it, op)) return kComputing;
  if (op.kind == "copy" || op.kind == "memset") return kCopying;
  return std::nullopt;
}

struct Busy {
  double sum = 0, covered = 0;
};
// Of a rank's operations of one unit.
Busy busy(const Iteration& it, int rank, Unit unit) {
  std::vector<std::pair<double, double>> spans;
  for (const Operation& op : it.operations)
    if (op.rank == rank && unit_of(it, op) == unit) spans.emplace_back(op.start_us, op.end_us);
  std::sort(spans.begin(), spans.end());
  Busy out;
  double end = 0;
  for (const auto& [from, to] : spans) {
    out.sum += to - from;
    out.covered += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return out;
}

// A list schedule of the operations' steps. Operations that met run their steps together.
class Schedule {
 public:
  Schedule(const Iteration& it, const std::vector<Edge>& edges) {
    // Operations of a unit that ran beside each other were slower for it: together they take what
    // the unit was busy.
    std::map<std::pair<int, Unit>, double> scale;
    for (int rank = 0; rank < it.n_ranks; ++rank) {
      for (const Unit unit : {kComputing, kCommunicating, kCopying}) {
        const Busy b = busy(it, rank, unit);
        scale[{rank, unit}] = b.sum > 0 ? b.covered / b.sum : 1;
      }
    }
    std::map<int64_t, std::size_t> of_meeting;
    std::vector<std::size_t> of_op(it.operations.size(), SIZE_MAX);  // SIZE_MAX: takes no time
    std::vector<std::size_t> order(it.operations.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return it.operations[a].start_us < it.operations[b].start_us;
    });
    for (const std::size_t i : order) {
      const Operation& op = it.operations[i];
      const auto unit = unit_of(it, op);
      if (!unit) continue;
      std::size_t job = jobs_.size();
      if (op.meeting >= 0) job = of_meeting.try_emplace(op.meeting, job).first->second;
      if (job == jobs_.size()) jobs_.emplace_back();
      of_op[i] = job;
      jobs_[job].step = std::max(jobs_[job].step, op.duration() * scale[{op.rank, *unit}] / kSteps);
      jobs_[job].uses.emplace_back(op.rank, *unit);
    }
    for (const Edge& e : edges) {
      if (e.kind != Edge::Kind::kFlow) continue;
      const std::size_t from = of_op[e.from], to = of_op[e.to];
      if (from == SIZE_MAX || to == SIZE_MAX || from == to) continue;
      const Operation &a = it.operations[e.from], &b = it.operations[e.to];
      // Kernels that exchange data while both run are one piece of work.
      if (a.rank != b.rank && a.start_us >= b.start_us) continue;
      jobs_[to].needs.push_back({from, needs(a, b, e.bytes)});
    }
  }

  // µs; nothing where the steps wait for each other in a ring.
  std::optional<double> run() {
    std::map<std::pair<int, Unit>, double> free;
    std::size_t left = jobs_.size() * kSteps;
    double last = 0;
    for (; left > 0; --left) {
      Job* next = nullptr;
      double at = std::numeric_limits<double>::infinity();
      for (Job& job : jobs_) {
        if (job.done == kSteps) continue;
        double start = job.done > 0 ? job.ends[static_cast<std::size_t>(job.done) - 1] : 0;
        bool can = true;
        for (const Need& need : job.needs) {
          const Job& before = jobs_[need.job];
          const double share = need.share[static_cast<std::size_t>(job.done)];
          const int steps = std::min(kSteps, static_cast<int>(share * kSteps + 1 - 1e-9));
          if (steps == 0) continue;
          can = can && before.done >= steps;
          if (can) start = std::max(start, before.ends[static_cast<std::size_t>(steps) - 1]);
        }
        if (!can) continue;
        for (const auto& use : job.uses) start = std::max(start, free[use]);
        if (start < at) {
          at = start;
          next = &job;
        }
      }
      if (next == nullptr) return std::nullopt;
      const double end = at + next->step;
      next->ends[static_cast<std::size_t>(next->done++)] = end;
      for (const auto& use : next->uses) free[use] = end;
      last = std::max(last, end);
    }
    return last;
  }

 private:
  struct Need {
    std::size_t job = 0;
    std::vector<double> share;  // of it, for each step
  };
  struct Job {
    double step = 0;
    std::vector<std::pair<int, Unit>> uses;
    std::vector<Need> needs;
    int done = 0;
    std::array<double, kSteps> ends{};
  };
  std::vector<Job> jobs_;  // in the order of their predicted starts
};

std::vector<std::size_t> critical_path(const Iteration& it, const std::vector<Edge>& edges,
                                       std::size_t last) {
  // What an operation waited for: of those that end before it begins, the one that ends last.
  // Collectives wait for what their counterparts wait for.
  std::vector<std::size_t> out{last};
  std::vector<bool> seen(it.operations.size(), false);
  seen[last] = true;
  for (;;) {
    const Operation& op = it.operations[out.back()];
    const auto mine = [&](std::size_t i) {
      return i == out.back() || (op.meeting >= 0 && it.operations[i].meeting == op.meeting);
    };
    std::optional<std::size_t> before;
    for (const Edge& e : edges) {
      const Operation& from = it.operations[e.from];
      if (!mine(e.to) || mine(e.from) || seen[e.from] || !from.timed()) continue;
      if (from.end_us > op.start_us + 0.01) continue;
      if (!before || from.end_us > it.operations[*before].end_us) before = e.from;
    }
    if (!before) break;
    seen[*before] = true;
    out.push_back(*before);
  }
  std::reverse(out.begin(), out.end());
  // Events take no time of their own.
  std::erase_if(out, [&](std::size_t i) { return !unit_of(it, it.operations[i]); });
  return out;
}

}  // namespace

std::optional<Headroom> find_headroom(const Iteration& it, const std::vector<Edge>& edges) {
  Headroom out;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < it.operations.size(); ++i) {
    const Operation& op = it.operations[i];
    if (op.timed() && (!last || op.end_us > it.operations[*last].end_us)) last = i;
  }
  if (!last || it.operations[*last].end_us <= 0) return std::nullopt;
  out.rank = it.operations[*last].rank;
  out.now = it.operations[*last].end_us;
  out.computes = busy(it, out.rank, kComputing).covered;
  out.communicates = busy(it, out.rank, kCommunicating).covered;
  for (int rank = 0; rank < it.n_ranks; ++rank) {
    for (const Unit unit : {kComputing, kCommunicating})
      out.bound = std::max(out.bound, busy(it, rank, unit).covered);
  }
  out.pieces = std::clamp(Schedule(it, edges).run().value_or(out.now), out.bound,
                          std::max(out.bound, out.now));
  out.critical = critical_path(it, edges, *last);
  return out;
}

}  // namespace sculler::analyze
