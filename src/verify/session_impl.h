// The steps of a session; for the session's own sources only.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "verify/clock_judge.h"
#include "verify/describe.h"
#include "verify/recognition.h"
#include "verify/session.h"

namespace sculler::verify {

using rank::FaultCode;
using rank::Kind;
using rank::Message;

inline constexpr std::size_t kUniqueIdBytes = 128;  // sizeof(ncclUniqueId)
inline constexpr uint64_t kMillisecond = 1'000'000;

inline std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

struct Session::Impl {
  // What a rank may send next.
  enum class Phase : uint8_t {
    kHello,     // nothing came yet
    kStarting,  // Hello came; UniqueId and Pool may follow
    kPooled,    // all of its buffers are here; silent until Run or Setup
    kSettingUp,
    kReady,    // silent until Run or Teardown
    kOpening,  // Run was sent
    kOpened,
    kEnqueued,
    kCapturing,
    kTearingDown,
    kGone,  // Bye came
  };
  struct RankState {
    Phase phase = Phase::kHello;
    std::vector<bool> pooled;  // set * buffers + buffer
    std::size_t pools = 0;
    RankClock clock;
  };

  Impl(const JobSpec& j, Ranks& r, Device& d)
      : job(j),
        ranks(r),
        device(d),
        judges{ClockJudge(j.clock), ClockJudge(j.clock)},
        recognition(j.n_contents),
        random(j.seed, "draw"),
        states(static_cast<std::size_t>(j.n_ranks)),
        held(static_cast<std::size_t>(j.n_sets), -1),
        verified(static_cast<std::size_t>(j.n_sets), false) {
    for (RankState& s : states)
      s.pooled.assign(static_cast<std::size_t>(j.n_sets) * j.buffers.size(), false);
    outcome.status = status::kPassed;
  }

  const JobSpec& job;
  Ranks& ranks;
  Device& device;
  ClockJudge judges[2];  // hot, cold: flushing takes its time before the region opens
  Recognition recognition;
  Random random;
  Outcome outcome;
  std::vector<RankState> states;
  std::vector<int> held;       // content of each set
  std::vector<bool> verified;  // its outputs are there, compared, and of that content
  bool failed = false;
  bool candidate_loaded = false;
  int iteration = 0;  // next iteration number; empty runs count -1, -2, ...
  int running = 0;    // the one that runs now
  int last_set = -1, last_content = -1;
  bool have_id = false;
  Message id{};

  RankState& state(int r) { return states[static_cast<std::size_t>(r)]; }

  bool stop(const char* what, int r, std::string message, std::string advice) {
    if (failed) return false;
    failed = true;
    outcome.status = what;
    outcome.rank = r;
    outcome.message = std::move(message);
    outcome.advice = std::move(advice);
    return false;
  }
  bool internal(const Error& error) {
    return stop(status::kInternal, -1, error.text(),
                "this is not the candidate's doing: see the message");
  }
  // Before the candidate is loaded only our own program can have sent it.
  bool violation(int r, const std::string& text) {
    if (!candidate_loaded) {
      return stop(status::kInternal, r, rank_text(r) + ": " + text,
                  "sculler-rank and the checker are of two builds");
    }
    return stop(
        status::kCheat, r,
        rank_text(r) + ": " + text + " (rule 2: only sculler-rank speaks on the control socket)",
        "leave the harness's descriptors alone and return from sculler_run");
  }

  bool send(int r, const Message& message) {
    if (auto sent = ranks.send(r, message); !sent) {
      return stop(candidate_loaded ? status::kCrash : status::kInternal, r,
                  rank_text(r) + " does not listen any more: " + sent.error().message,
                  "the rank process ended or stopped reading its control socket");
    }
    return true;
  }
  bool send_all(const Message& message) {
    for (int r = 0; r < job.n_ranks; ++r)
      if (!send(r, message)) return false;
    return true;
  }
  static Message make(Kind kind, int a = 0, int b = 0) {
    Message m;
    m.kind = kind;
    m.a = a;
    m.b = b;
    return m;
  }

  // Takes events until `done` or the deadline. `handle` judges one message.
  bool collect(uint64_t deadline_ms, const char* step, const char* late,
               const std::function<bool(Ranks::Event&)>& handle, Phase until) {
    const uint64_t deadline = device.now_ns() + deadline_ms * kMillisecond;
    const auto arrived = [&] {
      return std::all_of(states.begin(), states.end(),
                         [&](const RankState& s) { return s.phase == until; });
    };
    while (!arrived()) {
      Ranks::Event event = ranks.receive(deadline);
      const bool known = event.rank >= 0 && event.rank < job.n_ranks;
      switch (event.kind) {
        case Ranks::Event::Kind::kMessage:
          if (!known)
            return stop(status::kInternal, -1, "a message of no rank",
                        "this is a defect of the checker");
          // A flood may keep the socket full for ever.
          if (event.received_ns > deadline) return missed(step, late, deadline_ms, until);
          if (event.message.kind == Kind::kFault) return fault(event);
          if (!handle(event)) return false;
          break;
        case Ranks::Event::Kind::kClosed:
          if (known && state(event.rank).phase == Phase::kGone) break;
          return stop(candidate_loaded ? status::kCrash : status::kInternal, event.rank,
                      rank_text(event.rank) + " ended during " + step,
                      candidate_loaded ? "look for a host crash, abort or exit in the candidate"
                                       : "see the output of sculler-rank");
        case Ranks::Event::Kind::kMalformed:
          return violation(event.rank, std::string("sent a malformed packet during ") + step);
        case Ranks::Event::Kind::kTimeout: return missed(step, late, deadline_ms, until);
        case Ranks::Event::Kind::kStopped: return stopped(event);
      }
    }
    return true;
  }

  bool missed(const char* step, const char* late, uint64_t deadline_ms, Phase until) {
    std::string who;
    int first = -1;
    for (int r = 0; r < job.n_ranks; ++r) {
      if (state(r).phase == until) continue;
      who += (who.empty() ? "" : ", ") + rank_text(r);
      if (first < 0) first = r;
    }
    return stop(late, first,
                who + " did not finish " + step + " within " + std::to_string(deadline_ms) + " ms",
                "look for a wait that nothing ends: a signal never sent, a barrier that a rank "
                "skips, an endless loop");
  }

  bool stopped(Ranks::Event& event) {
    if (failed) return false;
    failed = true;
    auto iterations = std::move(outcome.iterations);
    if (event.outcome) outcome = std::move(*event.outcome);
    else outcome.status = status::kInternal;
    if (outcome.iterations.empty()) outcome.iterations = std::move(iterations);
    return false;
  }

  bool fault(const Ranks::Event& event) {
    const int r = event.rank;
    const int number = event.message.b;
    const std::string text = rank_text(r) + ": " + rank::text_of(event.message);
    const auto code = static_cast<FaultCode>(event.message.a);
    if (!candidate_loaded)
      return stop(status::kInternal, r, text, "the rank could not start: see the message");
    if (number == SCULLER_UNSUPPORTED_PROBLEM &&
        (code == FaultCode::kSetup || code == FaultCode::kRun))
      return stop(status::kUnsupported, r, text,
                  "support every size that the task's `requires` allows");
    if (number == SCULLER_OUT_OF_MEMORY && (code == FaultCode::kSetup || code == FaultCode::kRun))
      return stop(status::kOom, r, text, "allocate less in sculler_setup");
    switch (code) {
      case FaultCode::kOutOfMemory:
        return stop(status::kOom, r, text, "allocate less in sculler_setup");
      case FaultCode::kUnsupported:
        return stop(status::kUnsupported, r, text,
                    "use calls and instructions that this target knows");
      default:
        return stop(status::kLaunchError, r, text,
                    "check every return code, launch configuration and pointer");
    }
  }

  // ---- start ----

  bool on_start(Ranks::Event& event) {
    const int r = event.rank;
    RankState& s = state(r);
    const Message& m = event.message;
    switch (m.kind) {
      case Kind::kHello: {
        if (s.phase != Phase::kHello) return violation(r, "said Hello twice");
        if (m.a != static_cast<int32_t>(rank::kProtocolVersion))
          return violation(r, "speaks protocol version " + std::to_string(m.a));
        s.phase = Phase::kStarting;
        return send(r, make(Kind::kWelcome, r)) && (!have_id || send(r, id));
      }
      case Kind::kUniqueId:
        if (!job.workload || r != 0 || have_id || s.phase != Phase::kStarting ||
            m.text_bytes != kUniqueIdBytes)
          return violation(r, "sent a UniqueId that nobody asked for");
        have_id = true;
        id = m;
        id.kind = Kind::kSetUniqueId;
        for (int q = 0; q < job.n_ranks; ++q)
          if (state(q).phase != Phase::kHello && !send(q, id)) return false;
        return true;
      case Kind::kPool: return on_pool(event);
      default:
        return violation(
            r, "sent message " + std::to_string(static_cast<uint32_t>(m.kind)) + " before Setup");
    }
  }

  bool on_pool(Ranks::Event& event) {
    const int r = event.rank;
    RankState& s = state(r);
    const Message& m = event.message;
    if (s.phase != Phase::kStarting || (job.workload && !have_id))
      return violation(r, "sent Pool too early or too late");
    if (m.a < 0 || m.a >= job.n_sets || m.b < 0 ||
        static_cast<std::size_t>(m.b) >= job.buffers.size())
      return violation(r, "announced a buffer that the job does not have");
    const auto index =
        static_cast<std::size_t>(m.a) * job.buffers.size() + static_cast<std::size_t>(m.b);
    if (s.pooled[index]) return violation(r, "announced a buffer twice");
    if (auto adopted = device.adopt(r, m.a, m.b, m.u[0], m.u[1], std::move(event.fd)); !adopted)
      return internal(adopted.error());
    s.pooled[index] = true;
    if (++s.pools == s.pooled.size()) s.phase = Phase::kPooled;
    return true;
  }

  bool fill(int r, int set, int content) {
    for (std::size_t b = 0; b < job.buffers.size(); ++b) {
      const Role role = job.buffers[b].role;
      if (role != Role::kInput && role != Role::kInOut) continue;
      if (auto filled = device.fill(r, set, static_cast<int>(b), content); !filled)
        return internal(filled.error());
    }
    return true;
  }

  bool open() {
    if (!collect(
            job.deadlines.start_ms, "starting", status::kInternal,
            [&](Ranks::Event& e) { return on_start(e); }, Phase::kPooled)) {
      return false;
    }
    // What setup may see is never used by an iteration.
    for (int r = 0; r < job.n_ranks; ++r) {
      for (int set = 0; set < job.n_sets; ++set) {
        if (!fill(r, set, job.n_contents + set % 2)) return false;
        if (auto done = device.poison_outputs(r, set); !done) return internal(done.error());
      }
    }
    if (auto settled = device.settle(); !settled) return internal(settled.error());
    // Beforehand, so that nothing but the inputs sets these iterations apart.
    for (int k = 0; job.mode == Mode::kBench && k < Recognition::kFresh; ++k)
      if (auto ready = device.prepare(recognition.first_content() + k); !ready)
        return internal(ready.error());
    if (device.real_time()) {
      // Cold iterations come from `go N cold`, or are all of them.
      int number = 0;
      for (const bool cold : {false, true}) {
        if (cold && job.mode != Mode::kBench && !job.flush_l2) continue;
        IterationSpec spec;
        spec.cold = cold;
        for (int k = 0; k < job.clock.calibrations; ++k)
          if (!empty_run(--number, spec)) return false;
      }
      outcome.clock_offset_ns = judge_of(IterationSpec{}).typical_offset_ns();
    }
    candidate_loaded = true;
    for (RankState& s : states) s.phase = Phase::kSettingUp;
    if (!send_all(make(Kind::kSetup))) return false;
    return collect(
        job.deadlines.setup_ms, "sculler_setup", status::kTimeout,
        [&](Ranks::Event& e) {
          if (e.message.kind != Kind::kReady || state(e.rank).phase != Phase::kSettingUp)
            return violation(e.rank, "sent a message out of turn during setup");
          state(e.rank).phase = Phase::kReady;
          return true;
        },
        Phase::kReady);
  }

  // ---- iterations ----

  bool on_run(Ranks::Event& event, Phase after) {
    const int r = event.rank;
    RankState& s = state(r);
    const Message& m = event.message;
    const auto wrong = [&](const char* name) {
      return violation(r, std::string("sent ") + name + " out of turn or for another iteration");
    };
    switch (m.kind) {
      case Kind::kOpened:
        if (s.phase != Phase::kOpening || m.a != running) return wrong("Opened");
        s.phase = Phase::kOpened;
        s.clock.announced_ns = m.u[0];
        s.clock.opened_received_ns = event.received_ns;
        return true;
      case Kind::kEnqueued:
        if (s.phase != Phase::kOpened || m.a != running) return wrong("Enqueued");
        s.phase = Phase::kEnqueued;
        return true;
      case Kind::kDone:
        if (s.phase != Phase::kEnqueued || m.a != running) return wrong("Done");
        s.phase = after;
        s.clock.start_ns = m.u[0];
        s.clock.end_ns = m.u[1];
        s.clock.event_ns = m.u[2];
        s.clock.done_received_ns = event.received_ns;
        return true;
      default: return wrong(("message " + std::to_string(static_cast<uint32_t>(m.kind))).c_str());
    }
  }

  // Sends Run and waits for every Done. `sent` is read before the first packet leaves.
  bool run_region(int number, const IterationSpec& spec, uint64_t flags, Phase after,
                  uint64_t& sent) {
    running = number;
    for (RankState& s : states) {
      s.phase = Phase::kOpening;
      s.clock = {};
    }
    std::vector<Message> runs;
    for (int r = 0; r < job.n_ranks; ++r) {
      Message m = make(Kind::kRun, number, spec.set);
      m.u[0] = flags;
      if (spec.warm_up) m.u[0] |= rank::kWarmUp;
      if (is_cold(spec)) m.u[0] |= rank::kFlushL2;
      const auto delay = [&](uint64_t bound) -> uint64_t {
        if (bound == 0) return 0;
        if (spec.delayed_rank < 0) return random.below(bound + 1);
        return spec.delayed_rank == r ? bound : 0;
      };
      m.u[1] = delay(spec.delay_before_ns);
      m.u[2] = delay(spec.delay_inside_ns);
      runs.push_back(m);
    }
    if (number >= 0) device.region_opens(number, spec.set);
    sent = device.now_ns();
    for (int r = 0; r < job.n_ranks; ++r)
      if (!send(r, runs[static_cast<std::size_t>(r)])) return false;
    const std::string step = number < 0 ? "an empty run" : "iteration " + std::to_string(number);
    const char* late = !candidate_loaded    ? status::kInternal
                       : device.real_time() ? status::kHang
                                            : status::kTimeout;
    return collect(
        job.deadlines.iteration_ms, step.c_str(), late,
        [&](Ranks::Event& e) { return on_run(e, after); }, after);
  }

  [[nodiscard]] std::vector<RankClock> clocks() const {
    std::vector<RankClock> out;
    for (const RankState& s : states) out.push_back(s.clock);
    return out;
  }

  [[nodiscard]] bool is_cold(const IterationSpec& spec) const { return spec.cold || job.flush_l2; }
  ClockJudge& judge_of(const IterationSpec& spec) { return judges[is_cold(spec) ? 1 : 0]; }

  bool empty_run(int number, const IterationSpec& spec) {
    // The same rest between runs as in iterations: ranks that have gone to sleep answer later.
    for (int r = 0; r < job.n_ranks; ++r) {
      if (!fill(r, 0, job.n_contents)) return false;
      if (auto done = device.poison_outputs(r, 0); !done) return internal(done.error());
      if (auto same = device.changed_inputs(r, 0, job.n_contents); !same)
        return internal(same.error());
    }
    if (auto settled = device.settle(); !settled) return internal(settled.error());
    uint64_t sent = 0;
    if (!run_region(number, spec, rank::kCalibrate, Phase::kPooled, sent)) return false;
    int r = -1;
    if (auto why = ClockJudge::impossible(sent, clocks(), r)) return violation(r, *why);
    judge_of(spec).calibrate(sent, clocks());
    return true;
  }

  // Inputs filled afresh, outputs poisoned; not settled yet.
  bool arm(const IterationSpec& spec);
  // The region that just ended, by the ranks' clocks and the checker's.
  bool judge_region(const IterationSpec& spec, uint64_t sent, IterationResult& result);
  bool keep(const IterationSpec& spec, IterationResult result);
  bool iterate(IterationSpec spec);
  // False where the job ended; `refused`: there is no graph.
  bool capture(int number, uint64_t mask, bool& refused);
  bool iterate_replayed();
  bool compare(int set, int content, int number);
  void blame(int r, int set, int buffer, int64_t element, bool unwritten, int content);
  // Another set that ran on the same content, at other addresses: its outputs must agree.
  bool repeats(int set, int content, int number);
  bool incorrect(int r, const BufferSpec& buffer, const Comparison& c, int number);

  // ---- drawing ----

  int draw_content(int set) {
    const int n = job.n_contents;
    const int old = held[static_cast<std::size_t>(set)];
    for (int attempt = 0; attempt < 64; ++attempt) {
      const int c = static_cast<int>(random.below(static_cast<uint64_t>(n)));
      if (c != old && (c != last_content || n <= 2)) return c;
    }
    return n > 1 ? (std::max(old, 0) + 1) % n : 0;
  }

  IterationSpec draw(bool warm_up) {
    // Warm-ups never touch the sets that are timed.
    const int n = job.n_sets;
    const int warm = n >= 4 ? std::max(1, n / 4) : n > 1 ? 1 : 0;
    const int first = warm_up || warm == 0 ? 0 : warm;
    const int count = warm == 0 ? n : warm_up ? warm : n - warm;
    IterationSpec spec;
    spec.warm_up = warm_up;
    do {
      spec.set = first + static_cast<int>(random.below(static_cast<uint64_t>(count)));
    } while (count > 1 && spec.set == last_set);
    if (!warm_up) spec.content = recognition.next_content();
    if (spec.content < 0) spec.content = draw_content(spec.set);
    return spec;
  }

  bool close() {
    if (failed) return false;
    for (RankState& s : states) s.phase = Phase::kTearingDown;
    if (!send_all(make(Kind::kTeardown))) return false;
    const bool good = collect(
        job.deadlines.teardown_ms, "sculler_teardown", status::kHang,
        [&](Ranks::Event& e) {
          if (e.message.kind != Kind::kBye || state(e.rank).phase != Phase::kTearingDown)
            return violation(e.rank, "sent a message out of turn during teardown");
          state(e.rank).phase = Phase::kGone;
          return true;
        },
        Phase::kGone);
    // A rank that is gone already has nothing left to do.
    for (int r = 0; r < job.n_ranks; ++r) (void)ranks.send(r, make(Kind::kQuit));
    if (good) {
      outcome.message = std::to_string(outcome.iterations.size()) + " iterations on " +
                        std::to_string(job.n_ranks) + " ranks, every element compared";
    }
    return good;
  }
};

}  // namespace sculler::verify
