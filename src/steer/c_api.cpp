// The C interface over Buffer: a lock a handle, no exception leaves.
#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "sculler/steer.h"
#include "steer/controller.h"
#include "steer/trace.h"

using namespace sculler;
using namespace sculler::steer;

struct sculler_steer {
  std::mutex mutex;
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<TraceRecorder> recorder;
  Status recorded;  // why the recording ended early, where it did
  std::unique_ptr<Controller> controller;
  uint32_t epoch = 0;
};

namespace {

thread_local std::string last_error;

sculler_steer_status failed(const Error& error) {
  last_error = error.text();
  switch (error.code) {
    case ErrorCode::kUsage: return SCULLER_STEER_USAGE;
    case ErrorCode::kBadInput: return SCULLER_STEER_BAD_INPUT;
    case ErrorCode::kIo:
    case ErrorCode::kDiskFull:
    case ErrorCode::kNotFound: return SCULLER_STEER_IO;
    default: return SCULLER_STEER_INTERNAL;
  }
}

// `what` returns a Status, under the handle's lock.
template <class F>
sculler_steer_status guarded(sculler_steer* steer, F&& what) {
  if (steer == nullptr) return failed({ErrorCode::kUsage, "no handle"});
  try {
    const std::lock_guard lock(steer->mutex);
    const Status ok = what(*steer->buffer);
    if (!ok) return failed(ok.error());
    last_error.clear();
    return SCULLER_STEER_OK;
  } catch (const std::exception& e) { return failed({ErrorCode::kInternal, e.what()}); }
}

std::span<const uint64_t> span_of(const uint64_t* ids, uint64_t n) {
  return ids == nullptr ? std::span<const uint64_t>() : std::span<const uint64_t>(ids, n);
}

Status check_given(const uint64_t* ids, uint64_t n) {
  if (ids != nullptr || n == 0) return {};
  return fail(ErrorCode::kUsage, "no ids, but a number of them");
}

Status fill(const Result<const Plan*>& made, sculler_steer_plan* out) {
  if (!made) return fail(made.error());
  if (out == nullptr) return {};
  const Plan& plan = **made;
  out->ids = plan.ids();
  out->slot = plan.slot().data();
  out->n_missed = plan.missed().size();
  out->missed = plan.missed().data();
  out->into = plan.into().data();
  out->n_extra = plan.extra().size();
  out->extra = plan.extra().data();
  out->extra_slot = plan.extra_slot().data();
  out->evicted = plan.evicted();
  return {};
}

sculler_steer_counts counts_of(const Counts& c) {
  return {c.minibatches, c.ids, c.hits, c.fetched, c.extra, c.admitted, c.evicted};
}

}  // namespace

int sculler_steer_version(void) { return SCULLER_STEER_VERSION; }
const char* sculler_steer_error(void) { return last_error.c_str(); }

sculler_steer* sculler_steer_open(const sculler_steer_settings* given, char* error,
                                  size_t error_bytes) {
  const auto refuse = [&](const Error& why) -> sculler_steer* {
    failed(why);
    if (error != nullptr && error_bytes > 0) {
      const size_t n = std::min(error_bytes - 1, last_error.size());
      std::memcpy(error, last_error.data(), n);
      error[n] = 0;
    }
    return nullptr;
  };
  if (given == nullptr || given->size != sizeof(sculler_steer_settings))
    return refuse({ErrorCode::kUsage,
                   "settings of another version of sculler/steer.h",
                   {},
                   "size",
                   "Set size to sizeof(sculler_steer_settings)."});
  try {
    BufferSettings settings;
    settings.capacity = given->capacity;
    if (given->policy != nullptr) settings.policy = given->policy;
    settings.row_bytes = given->row_bytes;
    settings.max_tracked = given->max_tracked;
    if (given->window != 0) settings.window = given->window;
    if (given->max_rows != 0) settings.knobs.rows = given->max_rows;
    settings.knobs.decay = given->decay;
    auto buffer = Buffer::make(settings);
    if (!buffer) return refuse(buffer.error());
    auto steer = std::make_unique<sculler_steer>();
    steer->buffer = std::move(*buffer);
    last_error.clear();
    return steer.release();
  } catch (const std::exception& e) { return refuse({ErrorCode::kInternal, e.what()}); }
}

void sculler_steer_close(sculler_steer* steer) {
  if (steer == nullptr) return;
  if (steer->recorder) (void)sculler_steer_record_end(steer);
  delete steer;
}

sculler_steer_status sculler_steer_minibatch(sculler_steer* steer, const uint64_t* ids, uint64_t n,
                                             sculler_steer_plan* plan) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (auto ok = check_given(ids, n); !ok) return ok;
    if (steer->controller) steer->controller->step(b, steer->epoch);
    if (auto ok = fill(b.minibatch(span_of(ids, n)), plan); !ok) return ok;
    if (!steer->recorder) return {};
    steer->recorded = steer->recorder->minibatch(span_of(ids, n), steer->epoch);
    // A full disk ends the recording, record_end says so; the plan is made and must be executed.
    if (!steer->recorded) steer->recorder.reset();
    return {};
  });
}
sculler_steer_status sculler_steer_preload(sculler_steer* steer, const uint64_t* ids, uint64_t n,
                                           sculler_steer_plan* plan) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (auto ok = check_given(ids, n); !ok) return ok;
    return fill(b.preload(span_of(ids, n)), plan);
  });
}
sculler_steer_status sculler_steer_schedule(sculler_steer* steer, const uint64_t* ids, uint64_t n) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (auto ok = check_given(ids, n); !ok) return ok;
    return b.schedule(span_of(ids, n));
  });
}
sculler_steer_status sculler_steer_invalidate(sculler_steer* steer, const uint64_t* ids,
                                              uint64_t n) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (auto ok = check_given(ids, n); !ok) return ok;
    b.invalidate(span_of(ids, n));
    return {};
  });
}
sculler_steer_status sculler_steer_gather(sculler_steer* steer, void* rows) {
  return guarded(steer, [&](Buffer& b) { return b.gather(rows); });
}
sculler_steer_status sculler_steer_store(sculler_steer* steer, const void* missed,
                                         const void* extra) {
  return guarded(steer, [&](Buffer& b) { return b.store(missed, extra); });
}
sculler_steer_status sculler_steer_set_policy(sculler_steer* steer, const char* policy) {
  return guarded(steer, [&](Buffer& b) { return b.set_policy(policy == nullptr ? "" : policy); });
}
sculler_steer_status sculler_steer_set_limit(sculler_steer* steer, uint64_t rows) {
  return guarded(steer, [&](Buffer& b) {
    b.set_limit(rows);
    return Status();
  });
}
sculler_steer_status sculler_steer_set_knobs(sculler_steer* steer, double decay,
                                             uint64_t max_rows) {
  return guarded(steer, [&](Buffer& b) -> Status {
    return b.set_knobs({decay, max_rows == 0 ? UINT64_MAX : max_rows});
  });
}
sculler_steer_status sculler_steer_replace(sculler_steer* steer) {
  return guarded(steer, [&](Buffer& b) {
    b.replace();
    return Status();
  });
}
sculler_steer_status sculler_steer_get_state(sculler_steer* steer, sculler_steer_state* state) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (state == nullptr) return fail(ErrorCode::kUsage, "no state to fill");
    *state = {counts_of(b.metrics().total()),
              counts_of(b.metrics().window()),
              b.capacity(),
              b.limit(),
              b.used(),
              b.bytes(),
              b.lookahead()};
    return {};
  });
}

sculler_steer_status sculler_steer_record(sculler_steer* steer, const char* path, uint64_t halo,
                                          uint64_t n, const uint64_t* candidates,
                                          const uint64_t* degree, const float* vip) {
  return guarded(steer, [&](Buffer&) -> Status {
    if (path == nullptr) return fail(ErrorCode::kUsage, "no path to record to");
    if (n > 0 && (candidates == nullptr || degree == nullptr))
      return fail(ErrorCode::kUsage, "candidates without ids or degrees");
    TraceHead head;
    head.halo = halo;
    for (uint64_t i = 0; i < n; ++i) {
      const float p = vip == nullptr ? 0.0F : vip[i];
      if (candidates[i] > kMaxId || !(p >= 0 && p <= 1))
        return fail(ErrorCode::kBadInput, "a candidate's id or probability is out of range");
      head.candidates.push_back({candidates[i], degree[i], p});
    }
    auto made = TraceRecorder::create(path, head);
    if (!made) return fail(made.error());
    steer->recorder = std::move(*made);
    steer->recorded = {};
    return {};
  });
}
sculler_steer_status sculler_steer_record_end(sculler_steer* steer) {
  return guarded(steer, [&](Buffer&) -> Status {
    if (!steer->recorded) {
      Status failed = steer->recorded;
      steer->recorded = {};
      return failed;
    }
    if (!steer->recorder) return fail(ErrorCode::kUsage, "nothing is recorded");
    const auto recorder = std::move(steer->recorder);
    return recorder->close();
  });
}
sculler_steer_status sculler_steer_set_epoch(sculler_steer* steer, uint32_t epoch) {
  return guarded(steer, [&](Buffer&) {
    steer->epoch = epoch;
    return Status();
  });
}

namespace {

// The callback as a maker's source of answers.
AskText asking(sculler_steer_ask ask, void* user) {
  return [ask, user](const std::string& text) -> Result<std::string> {
    std::string answer(size_t{1} << 14, 0);
    if (ask(user, text.c_str(), answer.data(), answer.size()) != 0)
      return fail(ErrorCode::kModel, "no answer");
    const auto end = answer.find('\0');
    if (end == std::string::npos) return fail(ErrorCode::kModel, "an answer without an end");
    answer.resize(end);
    return answer;
  };
}

}  // namespace

sculler_steer_status sculler_steer_control(sculler_steer* steer,
                                           const sculler_steer_control_settings* given) {
  return guarded(steer, [&](Buffer& b) -> Status {
    if (given == nullptr || given->size != sizeof(sculler_steer_control_settings))
      return fail(ErrorCode::kUsage, "settings of another version of sculler/steer.h",
                  "Set size to sizeof(sculler_steer_control_settings).");
    if ((given->maker == nullptr) == (given->ask == nullptr))
      return fail(ErrorCode::kUsage, "either a maker or a function to ask must be given");
    if (given->mode > SCULLER_STEER_DEADLINE) return fail(ErrorCode::kUsage, "no such mode");
    std::unique_ptr<DecisionMaker> maker;
    if (given->maker != nullptr) {
      auto made = make_maker(given->maker);
      if (!made) return fail(made.error());
      maker = std::move(*made);
    } else {
      maker = make_asking(asking(given->ask, given->user));
    }
    ControllerSettings settings;
    settings.mode = static_cast<Mode>(given->mode);
    if (given->deadline_ms != 0) settings.deadline_ms = given->deadline_ms;
    if (given->every != 0) settings.every = given->every;
    if (given->expire != 0) settings.expire = given->expire;
    if (given->history != 0) settings.history = std::min<uint64_t>(given->history, 1000);
    settings.window = b.window();
    steer->controller = std::make_unique<Controller>(
        std::move(maker), settings, std::make_unique<ThreadRunner>(), real_clock());
    RunFacts facts;
    if (given->graph != nullptr) facts.graph = given->graph;
    facts.nodes = given->nodes;
    facts.edges = given->edges;
    facts.remote = given->remote;
    facts.epochs = given->epochs;
    facts.minibatches = given->minibatches;
    steer->controller->set_facts(facts);
    return {};
  });
}
sculler_steer_status sculler_steer_get_control(sculler_steer* steer,
                                               sculler_steer_control_counts* counts) {
  return guarded(steer, [&](Buffer&) -> Status {
    if (counts == nullptr) return fail(ErrorCode::kUsage, "no counts to fill");
    if (!steer->controller) return fail(ErrorCode::kUsage, "there is no control");
    const ControlCounts c = steer->controller->counts();
    *counts = {c.asked,          c.applied,    c.unchanged,       c.expired,
               c.invalid,        c.seconds,    c.slowest_seconds, c.waited_seconds,
               c.pass.decisions, c.pass.right, c.pass.stagnant};
    return {};
  });
}
const char* sculler_steer_answer_schema(void) { return answer_schema().data(); }

int sculler_steer_policy_name(uint64_t i, const char** name, const char** parameter,
                              const char** what) {
  const auto names = policy_names();
  if (i >= names.size()) return 0;
  if (name != nullptr) *name = names[i].name;
  if (parameter != nullptr) *parameter = names[i].parameter;
  if (what != nullptr) *what = names[i].what;
  return 1;
}
