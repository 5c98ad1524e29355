// Timing through an adapter: the evaluator decides who runs when, over which inputs and how often,
// compares what is left in the outputs, and judges the adapter's times.
#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "eval/external_job.h"

namespace sculler::eval {
namespace {

constexpr double kTurnUs = 50'000;  // long enough for the evaluator's clock to tell programs apart
constexpr int kLeast = 3, kMost = 512;

class Contest {
 public:
  Contest(ExternalSession& session, const ExternalContest& contest, const BenchPlan& plan,
          Clock& clock)
      : session_(session),
        contest_(contest),
        plan_(plan),
        clock_(clock),
        random_(plan.seed, "order") {
    names_ = contest.programs;
  }

  ExternalBench run() {
    begin_ns_ = clock_.now_ns();
    for (int part = 0; part < std::max(1, plan_.stop.parts); ++part) {
      if (part > 0) clock_.sleep_ns(plan_.stop.pause_ms * 1'000'000);
      if (!contest_.refresh(part)) return lost();
      if (part == 0 && !warm_up()) return lost();
      if (!play(plan_.seed + static_cast<uint64_t>(part))) return lost();
      if (settled() || elapsed_ms() > static_cast<double>(plan_.most_ms)) break;
    }
    for (int round = 0; contest_.cold && round < plan_.cold_rounds; ++round) {
      if (!play_round(true)) return lost();
    }
    judge();
    out_.good = true;
    out_.own_clock_us = median(std::move(own_us_));
    return std::move(out_);
  }

 private:
  ExternalBench lost() {
    out_.fault = session_.fault();
    return std::move(out_);
  }
  [[nodiscard]] double elapsed_ms() const {
    return static_cast<double>(clock_.now_ns() - begin_ns_) / 1e6;
  }

  // Sets in a drawn order, never the same twice in a row.
  std::vector<int> order(int n) {
    std::vector<int> out;
    for (int i = 0; i < n; ++i) {
      int set = static_cast<int>(random_.below(static_cast<uint64_t>(contest_.n_sets)));
      if (!out.empty() && set == out.back()) set = (set + 1) % contest_.n_sets;
      out.push_back(set);
    }
    return out;
  }

  // Every program once on every set, all outputs compared: who is wrong is not timed.
  bool warm_up() {
    double slowest = 0;
    for (std::size_t p = 0; p < names_.size();) {
      std::vector<int> all;
      for (int set = 0; set < contest_.n_sets; ++set) all.push_back(set);
      std::vector<double> us;
      double wall_us = 0;
      bool good = session_.benchmark(names_[p], all, false, us, wall_us);
      for (const int set : all) good = good && session_.check_outputs(names_[p], set);
      if (good) {
        slowest = std::max(slowest, median(std::move(us)));
        ++p;
        continue;
      }
      if (!drop(p)) return false;
    }
    iterations_ =
        static_cast<int>(std::clamp(kTurnUs / std::max(slowest, 1e-3), static_cast<double>(kLeast),
                                    static_cast<double>(kMost)));
    return true;
  }

  // A baseline that fails leaves; false where it was the candidate, or where the adapter is gone.
  bool drop(std::size_t p) {
    const ExternalFault fault = session_.fault();
    if (p == 0 || fault.status != "INCORRECT") return false;
    out_.outcome.failed[names_[p]] = fault.status + ": " + fault.message;
    names_.erase(names_.begin() + static_cast<std::ptrdiff_t>(p));
    return true;
  }

  bool play_round(bool cold) {
    std::map<std::string, std::pair<double, double>> turns;  // by adapter's clock and by our own
    auto turn_order = names_;
    if (reversed_) std::reverse(turn_order.begin(), turn_order.end());
    reversed_ = !reversed_;
    for (const auto& name : turn_order) {
      const auto sets = order(iterations_);
      std::vector<double> us;
      double wall_us = 0;
      if (!session_.benchmark(name, sets, cold, us, wall_us)) return false;
      // Asked for after the turn, so that nobody knows before which outputs will be seen.
      if (random_.below(4) == 0 && !session_.check_outputs(name, sets.back())) return false;
      auto& into = (cold ? out_.outcome.cold_us : out_.outcome.samples_us)[name];
      into.insert(into.end(), us.begin(), us.end());
      if (name == contest_.programs[0] && !cold)
        own_us_.push_back(wall_us / static_cast<double>(us.size()));
      turns[name] = {median(std::move(us)), wall_us};
      if (!cold) out_.outcome.rounds_us[name].push_back(turns[name].first);
    }
    const auto own = turns[contest_.programs[0]];
    for (const auto& [name, other] : turns) {
      if (name == contest_.programs[0]) continue;
      (cold ? cold_ratios_ : log_ratios_)[name].push_back(std::log(other.first / own.first));
      if (!cold) own_ratios_[name].push_back(std::log(other.second / own.second));
    }
    return true;
  }

  bool play(uint64_t seed) {
    log_ratios_.clear();
    own_ratios_.clear();
    const int last = plan_.stop.looks.empty() ? plan_.rounds : plan_.stop.looks.back();
    std::map<std::string, bool> decided;
    for (const auto& [name, parts] : parts_) decided[name] = parts_settled(parts, plan_.stop);
    for (int round = 1; round <= std::max(last, plan_.rounds); ++round) {
      if (!play_round(false)) return false;
      if (names_.size() < 2 && round >= plan_.rounds) break;
      bool all = names_.size() > 1;
      for (std::size_t p = 1; p < names_.size(); ++p) {
        const auto& series = log_ratios_[names_[p]];
        if (!decided[names_[p]] && plan_.stop.is_look(static_cast<int>(series.size())))
          decided[names_[p]] = compare_series(series, plan_.stop, seed).decided;
        all = all && decided[names_[p]];
      }
      if (all) break;
      if (elapsed_ms() > static_cast<double>(plan_.most_ms)) {
        out_.outcome.notes.push_back("measuring ended after " + std::to_string(round) +
                                     " rounds, by time");
        break;
      }
    }
    for (const auto& [name, series] : log_ratios_) {
      auto& parts = parts_[name];
      if (series.empty() || parts_settled(parts, plan_.stop)) continue;
      Comparison c = compare_series(series, plan_.stop, seed);
      if (c.call == "FASTER" && midmean(own_ratios_[name]) <= 0) {
        c.call = "AMBIGUOUS";
        out_.outcome.notes.push_back(
            "against " + name +
            ": faster by the adapter's clock only; the evaluator's own does not show it, so it is "
            "not called");
      }
      parts.push_back(std::move(c));
    }
    return true;
  }

  [[nodiscard]] bool settled() const {
    return std::all_of(names_.begin() + 1, names_.end(), [this](const std::string& name) {
      const auto at = parts_.find(name);
      return at != parts_.end() && parts_settled(at->second, plan_.stop);
    });
  }

  void judge() {
    for (const auto& [name, parts] : parts_) {
      if (!parts.empty()) out_.outcome.comparison[name] = combine_parts(parts, plan_.stop);
    }
    for (const auto& [name, series] : cold_ratios_) {
      const Interval log = series_interval(series, plan_.seed, 0.95);
      out_.outcome.cold_ratio[name] = {std::exp(log.median), std::exp(log.low), std::exp(log.high)};
    }
    out_.outcome.wall_ms = elapsed_ms();
  }

  ExternalSession& session_;
  const ExternalContest& contest_;
  const BenchPlan& plan_;
  Clock& clock_;
  Random random_;
  std::vector<std::string> names_;
  ExternalBench out_;
  int iterations_ = kLeast;
  bool reversed_ = false;
  int64_t begin_ns_ = 0;
  std::vector<double> own_us_;
  std::map<std::string, std::vector<double>> log_ratios_, own_ratios_, cold_ratios_;
  std::map<std::string, std::vector<Comparison>> parts_;
};

}  // namespace

ExternalBench bench_external(ExternalSession& session, const ExternalContest& contest,
                             const BenchPlan& plan, Clock& clock) {
  return Contest(session, contest, plan, clock).run();
}

}  // namespace sculler::eval
