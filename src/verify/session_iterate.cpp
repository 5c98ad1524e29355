// Iterations of a session: fill, run, judge the clocks, compare.
#include "verify/session_impl.h"

namespace sculler::verify {

bool Session::Impl::arm(const IterationSpec& spec) {
  if (auto ready = device.prepare(spec.content); !ready) return internal(ready.error());
  for (int r = 0; r < job.n_ranks; ++r) {
    if (!fill(r, spec.set, spec.content)) return false;
    if (!job.checker.poison) continue;
    if (auto done = device.poison_outputs(r, spec.set); !done) return internal(done.error());
  }
  held[static_cast<std::size_t>(spec.set)] = spec.content;
  verified[static_cast<std::size_t>(spec.set)] = false;
  last_set = spec.set;
  last_content = spec.content;
  return true;
}

bool Session::Impl::judge_region(const IterationSpec& spec, uint64_t sent,
                                 IterationResult& result) {
  if (!device.real_time()) {
    result.latency_ns = device.virtual_latency_ns();
    return true;
  }
  int r = -1;
  if (auto why = ClockJudge::impossible(sent, clocks(), r)) {
    return stop(status::kCheat, r,
                rank_text(r) + " " + *why + " (rule 2: the checker's clock decides)",
                "leave the harness's clocks and messages alone");
  }
  judge_of(spec).crowd(device.crowd());
  judge_of(spec).judge(sent, spec.delay_before_ns + spec.delay_inside_ns > 0, clocks(), result);
  return true;
}

bool Session::Impl::keep(const IterationSpec& spec, IterationResult result) {
  outcome.iterations.push_back(std::move(result));
  if (auto why = judge_of(spec).systematic()) {
    return stop(status::kCheat, -1, *why + " (rule 2: the checker's clock decides)",
                "do all work between sculler_run and the completion of its stream");
  }
  return true;
}

bool Session::Impl::iterate(IterationSpec spec) {
  if (failed) return false;
  if (spec.content < 0) spec.content = draw_content(spec.set);
  if (!arm(spec)) return false;
  if (auto settled = device.settle(); !settled) return internal(settled.error());

  uint64_t sent = 0;
  const int number = iteration++;
  if (!run_region(number, spec, 0, Phase::kReady, sent)) return false;

  IterationResult result;
  result.set = spec.set;
  result.content = spec.content;
  result.warm_up = spec.warm_up;
  if (!judge_region(spec, sent, result)) return false;
  // A race says more than the wrong numbers that it may lead to.
  if (auto finding = device.region_closed(number)) {
    auto iterations = std::move(outcome.iterations);
    failed = true;
    outcome = std::move(*finding);
    outcome.iterations = std::move(iterations);
    return false;
  }
  const bool last = static_cast<std::size_t>(number) + 1 >= job.iterations.size();
  if ((job.checker.every || last) && !compare(spec.set, spec.content, number)) return false;
  if (job.checker.every && job.mode == Mode::kCheck && !repeats(spec.set, spec.content, number))
    return false;
  verified[static_cast<std::size_t>(spec.set)] = true;
  if (!spec.cold) recognition.add(result);
  if (auto why = recognition.finding())
    return stop(status::kCheat, -1, *why + " (rule 4: inputs are fresh)", "compute every run");
  return keep(spec, std::move(result));
}

bool Session::Impl::capture(int number, uint64_t mask, bool& refused) {
  for (RankState& s : states) s.phase = Phase::kCapturing;
  Message order = make(Kind::kCapture, number);
  order.u[0] = mask;
  if (!send_all(order)) return false;
  refused = false;
  return collect(
      job.deadlines.iteration_ms, "capturing a graph", status::kHang,
      [&](Ranks::Event& e) {
        if (e.message.kind != Kind::kCaptured || state(e.rank).phase != Phase::kCapturing ||
            e.message.a != number)
          return violation(e.rank, "sent a message out of turn during a capture");
        refused = refused || e.message.b != 0;
        state(e.rank).phase = Phase::kReady;
        return true;
      },
      Phase::kReady);
}

bool Session::Impl::iterate_replayed() {
  if (failed) return false;
  // Inputs are filled after the capture: what a candidate computes during it is of old inputs.
  std::vector<IterationSpec> specs;
  uint64_t mask = 0;
  const int n = job.n_sets, warm = n >= 4 ? std::max(1, n / 4) : n > 1 ? 1 : 0;
  for (int set = warm; set < n; ++set) {
    mask |= uint64_t{1} << set;
    IterationSpec spec;
    spec.set = set;
    specs.push_back(spec);
  }
  const int number = iteration++;
  bool refused = false;
  if (!capture(number, mask, refused)) return false;
  if (refused) return iterate(draw(false));
  for (IterationSpec& spec : specs) {
    spec.content = draw_content(spec.set);
    if (!arm(spec)) return false;
  }
  if (auto settled = device.settle(); !settled) return internal(settled.error());
  uint64_t sent = 0;
  if (!run_region(number, specs.front(), rank::kReplay, Phase::kReady, sent)) return false;
  IterationResult result;
  result.set = specs.front().set;
  result.content = specs.front().content;
  if (!judge_region(specs.front(), sent, result)) return false;
  const auto runs = static_cast<uint64_t>(specs.size());
  result.replayed = static_cast<int>(runs);
  result.latency_ns /= runs;
  const uint64_t offset = std::min(result.region_ns, outcome.clock_offset_ns);
  result.region_ns = offset + (result.region_ns - offset) / runs;
  for (RankTimes& r : result.ranks) r = {r.start_ns / runs, r.end_ns / runs, r.event_ns / runs};
  for (const IterationSpec& spec : specs)
    if (!compare(spec.set, spec.content, number)) return false;
  return keep(specs.front(), std::move(result));
}

bool Session::Impl::compare(int set, int content, int number) {
  for (int r = 0; r < job.n_ranks; ++r) {
    for (std::size_t b = 0; b < job.buffers.size(); ++b) {
      const BufferSpec& buffer = job.buffers[b];
      if (buffer.role != Role::kOutput && buffer.role != Role::kInOut) continue;
      auto compared = device.compare(r, set, static_cast<int>(b), content);
      if (!compared) return internal(compared.error());
      const Comparison& c = *compared;
      const bool passes = c.passes(job.tolerance);
      if (!passes || !(c.relative_l2 <= outcome.errors.relative_l2)) {
        outcome.errors = c;
        outcome.buffer = buffer.name;
      }
      if (passes) continue;
      incorrect(r, buffer, c, number);
      const bool unwritten = c.unwritten != 0;
      const int64_t element = unwritten ? c.first_unwritten : c.bad != 0 ? c.first_bad : c.worst;
      blame(r, set, static_cast<int>(b), element, unwritten, content);
      return false;
    }
    auto changed = device.changed_inputs(r, set, content);
    if (!changed) return internal(changed.error());
    if (*changed != 0) {
      stop(status::kIncorrect, r,
           rank_text(r) + ", iteration " + std::to_string(number) + ": " +
               std::to_string(*changed) + " input elements were changed",
           "inputs are read-only: write to outputs or to memory of your own");
      blame(r, set, -1, -1, false, content);
      return false;
    }
  }
  return true;
}

void Session::Impl::blame(int r, int set, int buffer, int64_t element, bool unwritten,
                          int content) {
  auto found = device.blame(r, set, buffer, element, unwritten, content);
  if (!found) return;
  outcome.where = std::move(found->where);
  if (!found->message.empty()) outcome.message += "; " + found->message;
  if (!found->advice.empty()) outcome.advice = std::move(found->advice);
}

bool Session::Impl::repeats(int set, int content, int number) {
  int other = -1;
  for (int s = 0; s < job.n_sets; ++s) {
    const auto i = static_cast<std::size_t>(s);
    if (s != set && held[i] == content && verified[i]) other = s;
  }
  for (int r = 0; other >= 0 && r < job.n_ranks; ++r) {
    for (std::size_t b = 0; b < job.buffers.size(); ++b) {
      const BufferSpec& buffer = job.buffers[b];
      if (buffer.role != Role::kOutput) continue;
      auto compared = device.repeat(r, set, other, static_cast<int>(b), content);
      if (!compared) return internal(compared.error());
      if (compared->passes(job.tolerance)) continue;
      return stop(status::kIncorrect, r,
                  rank_text(r) + ", iteration " + std::to_string(number) +
                      ": two runs on one input differ in " + buffer.name + ": " +
                      std::to_string(compared->bad) + " elements, first " +
                      position(buffer, compared->first_bad) + ", relative L2 " +
                      figure(compared->relative_l2),
                  "look for a race, or for state that a run leaves to the next one");
    }
  }
  return true;
}

bool Session::Impl::incorrect(int r, const BufferSpec& buffer, const Comparison& c, int number) {
  auto complaint = describe_incorrect(
      buffer, c, job.tolerance, rank_text(r) + ", iteration " + std::to_string(number) + ": ");
  return stop(status::kIncorrect, r, std::move(complaint.message), std::move(complaint.advice));
}

}  // namespace sculler::verify
