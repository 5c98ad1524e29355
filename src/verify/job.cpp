#include "verify/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace sculler::verify {
namespace {

using nlohmann::json;
constexpr std::string_view kOrigin = "job.json";

template <class Value, std::size_t N>
using Names = std::array<std::pair<std::string_view, Value>, N>;

constexpr Names<Target, 3> kTargets{
    {{"cuda", Target::kCuda}, {"emu", Target::kEmu}, {"cpu", Target::kCpu}}};
constexpr Names<Mode, 2> kModes{{{"check", Mode::kCheck}, {"bench", Mode::kBench}}};
constexpr Names<Role, 4> kRoles{{{"input", Role::kInput},
                                 {"output", Role::kOutput},
                                 {"inout", Role::kInOut},
                                 {"scratch", Role::kScratch}}};
constexpr Names<uint32_t, 4> kDtypes{
    {{"bf16", SCULLER_BF16}, {"f16", SCULLER_F16}, {"f32", SCULLER_F32}, {"i32", SCULLER_I32}}};
constexpr Names<uint32_t, 7> kFamilies{{{"normal", SCULLER_NORMAL},
                                        {"uniform", SCULLER_UNIFORM},
                                        {"large_late", SCULLER_LARGE_LATE},
                                        {"constant_rows", SCULLER_CONSTANT_ROWS},
                                        {"negative", SCULLER_NEGATIVE},
                                        {"denormal", SCULLER_DENORMAL},
                                        {"integers", SCULLER_INTEGERS}}};

Error bad(std::string key, std::string message) {
  return Error{ErrorCode::kBadInput, std::move(message), std::string(kOrigin), std::move(key), {}};
}

template <class Value, std::size_t N>
Result<Value> named(const Names<Value, N>& names, const std::string& word, const std::string& key) {
  for (const auto& [name, value] : names)
    if (name == word) return value;
  std::string known;
  for (const auto& [name, value] : names) known += (known.empty() ? "" : ", ") + std::string(name);
  return fail(bad(key, "'" + word + "' is none of " + known));
}

template <class Value, std::size_t N>
std::string_view name_of(const Names<Value, N>& names, Value value) {
  for (const auto& [name, v] : names)
    if (v == value) return name;
  return "?";
}

// Collects the first error, so that a list of reads stays a list.
class Reader {
 public:
  explicit Reader(const json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}
  int64_t integer(std::string_view key, int64_t low, int64_t high) {
    return take(get_int(object_, key, kOrigin, low, high), int64_t{0});
  }
  int64_t integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) {
    return find_member(object_, key) == nullptr ? fallback : integer(key, low, high);
  }
  uint64_t unsigned_or(std::string_view key, uint64_t fallback) {
    const json* member = find_member(object_, key);
    if (member == nullptr) return fallback;
    if (member->is_number_unsigned()) return member->get<uint64_t>();
    return static_cast<uint64_t>(integer(key, 0, std::numeric_limits<int64_t>::max()));
  }
  double number(std::string_view key) { return take(get_number(object_, key, kOrigin), 0.0); }
  double number_or(std::string_view key, double fallback) {
    return find_member(object_, key) == nullptr ? fallback : number(key);
  }
  std::string text(std::string_view key) {
    return take(get_string(object_, key, kOrigin), std::string());
  }
  std::string text_or(std::string_view key, std::string fallback) {
    return find_member(object_, key) == nullptr ? fallback : text(key);
  }
  bool flag_or(std::string_view key, bool fallback) {
    return find_member(object_, key) == nullptr ? fallback
                                                : take(get_bool(object_, key, kOrigin), false);
  }
  template <class T>
  T take(Result<T> result, T fallback) {
    if (result) return *result;
    if (!error_) {
      error_ = result.error();
      if (!prefix_.empty()) error_->key = prefix_ + "." + error_->key;
    }
    return fallback;
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const json& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

Result<BufferSpec> parse_buffer(const json& object, const std::string& where) {
  if (!object.is_object()) return fail(bad(where, "a buffer is an object"));
  Reader in(object, where);
  BufferSpec b;
  b.name = in.text("name");
  b.role = in.take(named(kRoles, in.text("role"), "role"), Role::kInput);
  b.dtype = in.take(named(kDtypes, in.text("dtype"), "dtype"), uint32_t{SCULLER_F32});
  constexpr int64_t kMost = int64_t{1} << 40;
  b.elements = static_cast<uint64_t>(in.integer("elements", 1, kMost));
  b.bytes = static_cast<uint64_t>(in.integer("bytes", 1, kMost));
  b.row_elements = static_cast<uint64_t>(in.integer_or("row_elements", 0, 0, kMost));
  b.replicated = in.text_or("content", "per_rank") == "replicated";
  b.family =
      in.take(named(kFamilies, in.text_or("family", "normal"), "family"), uint32_t{SCULLER_NORMAL});
  if (in.flag_or("positive", false)) b.family |= SCULLER_POSITIVE;
  b.family |= static_cast<uint32_t>(in.integer_or("scale_milli", 0, 0, 60000))
              << SCULLER_SCALE_SHIFT;
  if (in.error()) return fail(*in.error());
  if (b.row_elements == 0) b.row_elements = b.elements;
  if (b.elements % b.row_elements != 0)
    return fail(bad(where + ".row_elements", "does not divide `elements`"));
  if (b.bytes != b.elements * sculler_dtype_bytes(b.dtype))
    return fail(bad(where + ".bytes", "is not `elements` times the size of the dtype"));
  return b;
}

Result<std::vector<IterationSpec>> parse_iterations(const json& list, int n_sets) {
  std::vector<IterationSpec> out;
  if (list.size() > 100'000) return fail(bad("iterations", "more than 100000 iterations"));
  for (const json& entry : list) {
    if (!entry.is_object()) return fail(bad("iterations", "an iteration is an object"));
    Reader in(entry, "iterations[" + std::to_string(out.size()) + "]");
    IterationSpec it;
    it.set = static_cast<int>(in.integer("set", 0, n_sets - 1));
    it.content = static_cast<int>(in.integer_or("content", -1, -1, 1 << 20));
    it.warm_up = in.flag_or("warm_up", false);
    it.delay_before_ns = in.unsigned_or("delay_before_ns", 0);
    it.delay_inside_ns = in.unsigned_or("delay_inside_ns", 0);
    it.delayed_rank = static_cast<int>(in.integer_or("delayed_rank", -1, -1, 15));
    it.cold = in.flag_or("cold", false);
    if (in.error()) return fail(*in.error());
    out.push_back(it);
  }
  return out;
}

json double_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  return value;
}
double double_of(const json& object, std::string_view key) {
  const json* member = find_member(object, key);
  if (member == nullptr) return 0;
  if (member->is_string()) {
    return *member == "nan" ? std::numeric_limits<double>::quiet_NaN()
                            : std::numeric_limits<double>::infinity();
  }
  return member->is_number() ? member->get<double>() : 0;
}

json object_or_empty(const std::string& text) {
  json value = text.empty() ? json::object() : json::parse(text, nullptr, false);
  return value.is_object() ? value : json::object();
}

}  // namespace

std::string_view target_name(Target target) { return name_of(kTargets, target); }

int JobSpec::inputs() const {
  return static_cast<int>(std::count_if(buffers.begin(), buffers.end(), [](const BufferSpec& b) {
    return b.role == Role::kInput || b.role == Role::kInOut;
  }));
}
int JobSpec::outputs() const {
  return static_cast<int>(std::count_if(buffers.begin(), buffers.end(), [](const BufferSpec& b) {
    return b.role == Role::kOutput || b.role == Role::kInOut;
  }));
}

bool Comparison::passes(const Tolerance& tolerance) const {
  if (bad != 0 || unwritten != 0) return false;
  if (!(relative_l2 <= tolerance.relative_l2)) return false;
  return max_abs <= std::max(cap, tolerance.max_abs);
}

Result<JobSpec> parse_job(std::string_view text) {
  auto parsed = parse_json(text, kOrigin, std::size_t{16} << 20);
  if (!parsed) return fail(parsed.error());
  const json& root = *parsed;
  if (!root.is_object()) return fail(bad("", "not an object"));
  Reader in(root);
  JobSpec job;
  in.integer("version", 1, 1);
  job.job = in.text_or("job", "");
  job.target = in.take(named(kTargets, in.text("target"), "target"), Target::kCpu);
  job.mode = in.take(named(kModes, in.text_or("mode", "check"), "mode"), Mode::kCheck);
  job.task = in.text_or("task", "");
  job.n_ranks = static_cast<int>(in.integer("n_ranks", 1, 16));
  job.workload = in.flag_or("workload", job.n_ranks > 1);
  job.n_sets = static_cast<int>(in.integer_or("n_sets", 8, 1, 64));
  job.n_contents = static_cast<int>(in.integer_or("n_contents", 0, 0, 4096));
  if (job.n_contents == 0) job.n_contents = job.n_sets;
  job.seed = in.unsigned_or("seed", 0);
  job.reference = in.text_or("reference", "");
  job.expected = in.text_or("expected", "");
  job.expected_cache = in.text_or("expected_cache", "");
  job.reference_key = in.text_or("reference_key", "");
  job.reference_rows = in.unsigned_or("reference_rows", 16);
  job.shift = static_cast<uint64_t>(in.integer_or("shift", 0, 0, 1 << 20));
  if (in.error()) return fail(*in.error());

  auto problem = get_object(root, "problem", kOrigin);
  if (!problem) return fail(problem.error());
  auto dims = get_array(**problem, "dims", kOrigin);
  if (!dims) return fail(dims.error());
  if ((*dims)->size() > SCULLER_MAX_DIMS)
    return fail(bad("problem.dims", "more than 16 dimensions"));
  job.problem.abi_version = SCULLER_ABI_VERSION;
  for (const json& d : **dims) {
    if (!d.is_number_integer()) return fail(bad("problem.dims", "not an integer"));
    job.problem.dim[job.problem.n_dims++] = d.get<int64_t>();
  }

  auto buffers = get_array(root, "buffers", kOrigin);
  if (!buffers) return fail(buffers.error());
  if ((*buffers)->empty() || (*buffers)->size() > 32)
    return fail(bad("buffers", "1 to 32 buffers"));
  for (const json& entry : **buffers) {
    auto b = parse_buffer(entry, "buffers[" + std::to_string(job.buffers.size()) + "]");
    if (!b) return fail(b.error());
    job.buffers.push_back(std::move(*b));
  }
  if (job.outputs() == 0) return fail(bad("buffers", "no output: nothing could be checked"));

  if (const json* list = find_member(root, "iterations"); list != nullptr && list->is_array()) {
    auto iterations = parse_iterations(*list, job.n_sets);
    if (!iterations) return fail(iterations.error());
    job.iterations = std::move(*iterations);
  }
  if (job.mode == Mode::kCheck && job.iterations.empty())
    return fail(bad("iterations", "none: nothing would be checked"));

  auto tolerance = get_object(root, "tolerance", kOrigin);
  if (!tolerance) return fail(tolerance.error());
  Reader tol(**tolerance, "tolerance");
  job.tolerance.relative_l2 = tol.number("relative_l2");
  job.tolerance.max_abs = tol.number("max_abs");
  if (tol.error()) return fail(*tol.error());
  if (!(job.tolerance.relative_l2 >= 0 && job.tolerance.relative_l2 < 1))
    return fail(bad("tolerance.relative_l2", "not in [0, 1)"));
  if (!(job.tolerance.max_abs >= 0)) return fail(bad("tolerance.max_abs", "negative"));

  if (const json* d = find_member(root, "deadlines_ms"); d != nullptr && d->is_object()) {
    Reader r(*d, "deadlines_ms");
    constexpr int64_t kDay = 86'400'000;
    job.deadlines.start_ms = static_cast<uint64_t>(r.integer_or("start", 20000, 1, kDay));
    job.deadlines.setup_ms = static_cast<uint64_t>(r.integer_or("setup", 20000, 1, kDay));
    job.deadlines.iteration_ms = static_cast<uint64_t>(r.integer_or("iteration", 20000, 1, kDay));
    job.deadlines.teardown_ms = static_cast<uint64_t>(r.integer_or("teardown", 10000, 1, kDay));
    if (r.error()) return fail(*r.error());
  }
  if (const json* c = find_member(root, "clock"); c != nullptr && c->is_object()) {
    Reader r(*c, "clock");
    job.clock.calibrations = static_cast<int>(r.integer_or("calibrations", 8, 0, 1000));
    job.clock.slack_ns = r.unsigned_or("slack_ns", job.clock.slack_ns);
    job.clock.slack_fraction = r.number_or("slack_fraction", job.clock.slack_fraction);
    if (r.error()) return fail(*r.error());
  }
  if (const json* c = find_member(root, "checker"); c != nullptr && c->is_object()) {
    job.checker.poison = bool_or(*c, "poison", true);
    job.checker.every = bool_or(*c, "every", true);
  }
  if (const json* c = find_member(root, "cuda"); c != nullptr && c->is_object()) {
    job.flush_l2 = bool_or(*c, "flush_l2", false);
    if (const json* list = find_member(*c, "libraries"); list != nullptr && list->is_array())
      for (const json& entry : *list)
        if (entry.is_string()) job.cuda_libraries.push_back(entry.get<std::string>());
    if (const json* list = find_member(*c, "devices"); list != nullptr && list->is_array())
      for (const json& entry : *list)
        if (entry.is_number_integer()) job.cuda_devices.push_back(entry.get<int>());
  }
  if (const json* e = find_member(root, "emu"); e != nullptr && e->is_object())
    job.emu_json = dump_json(*e);
  return job;
}

std::string print_job(const JobSpec& job) {
  json root{{"version", 1},
            {"job", job.job},
            {"target", target_name(job.target)},
            {"mode", name_of(kModes, job.mode)},
            {"task", job.task},
            {"n_ranks", job.n_ranks},
            {"workload", job.workload},
            {"n_sets", job.n_sets},
            {"n_contents", job.n_contents},
            {"seed", job.seed},
            {"shift", job.shift},
            {"reference", job.reference},
            {"reference_key", job.reference_key},
            {"reference_rows", job.reference_rows},
            {"expected", job.expected},
            {"expected_cache", job.expected_cache},
            {"tolerance",
             {{"relative_l2", job.tolerance.relative_l2}, {"max_abs", job.tolerance.max_abs}}},
            {"deadlines_ms",
             {{"start", job.deadlines.start_ms},
              {"setup", job.deadlines.setup_ms},
              {"iteration", job.deadlines.iteration_ms},
              {"teardown", job.deadlines.teardown_ms}}},
            {"clock",
             {{"calibrations", job.clock.calibrations},
              {"slack_ns", job.clock.slack_ns},
              {"slack_fraction", job.clock.slack_fraction}}},
            {"checker", {{"poison", job.checker.poison}, {"every", job.checker.every}}},
            {"cuda",
             {{"libraries", job.cuda_libraries},
              {"devices", job.cuda_devices},
              {"flush_l2", job.flush_l2}}}};
  root["problem"]["dims"] =
      std::vector<int64_t>(job.problem.dim, job.problem.dim + job.problem.n_dims);
  root["buffers"] = json::array();
  for (const BufferSpec& b : job.buffers) {
    root["buffers"].push_back({{"name", b.name},
                               {"role", name_of(kRoles, b.role)},
                               {"dtype", name_of(kDtypes, b.dtype)},
                               {"elements", b.elements},
                               {"bytes", b.bytes},
                               {"row_elements", b.row_elements},
                               {"content", b.replicated ? "replicated" : "per_rank"},
                               {"family", name_of(kFamilies, b.family & SCULLER_FAMILY_MASK)}});
    if ((b.family & SCULLER_POSITIVE) != 0) root["buffers"].back()["positive"] = true;
    if (const uint32_t scale = b.family >> SCULLER_SCALE_SHIFT; scale != 0)
      root["buffers"].back()["scale_milli"] = scale;
  }
  root["iterations"] = json::array();
  for (const IterationSpec& it : job.iterations) {
    root["iterations"].push_back({{"set", it.set},
                                  {"content", it.content},
                                  {"warm_up", it.warm_up},
                                  {"delay_before_ns", it.delay_before_ns},
                                  {"delay_inside_ns", it.delay_inside_ns},
                                  {"delayed_rank", it.delayed_rank},
                                  {"cold", it.cold}});
  }
  if (!job.emu_json.empty()) root["emu"] = object_or_empty(job.emu_json);
  return dump_json(root);
}

std::vector<double> usable_latencies(const std::vector<IterationResult>& iterations) {
  std::vector<double> all, agreeing;
  for (const IterationResult& it : iterations) {
    if (it.warm_up) continue;
    all.push_back(static_cast<double>(it.latency_ns));
    if (it.clocks_agree) agreeing.push_back(all.back());
  }
  return agreeing.size() >= 3 && 3 * agreeing.size() >= all.size() ? agreeing : all;
}

std::string print_outcome(const Outcome& outcome) {
  json root{{"status", outcome.status},
            {"message", outcome.message},
            {"advice", outcome.advice},
            {"rank", outcome.rank},
            {"where", outcome.where},
            {"buffer", outcome.buffer},
            {"sync_hash", outcome.sync_hash},
            {"schedule", outcome.schedule},
            {"clock_offset_ns", outcome.clock_offset_ns}};
  root["errors"] = {{"relative_l2", double_json(outcome.errors.relative_l2)},
                    {"max_abs", double_json(outcome.errors.max_abs)},
                    {"cap", double_json(outcome.errors.cap)},
                    {"bad", outcome.errors.bad},
                    {"first_bad", outcome.errors.first_bad},
                    {"unwritten", outcome.errors.unwritten},
                    {"first_unwritten", outcome.errors.first_unwritten}};
  root["iterations"] = json::array();
  for (const IterationResult& it : outcome.iterations) {
    json ranks = json::array();
    for (const RankTimes& r : it.ranks)
      ranks.push_back({{"start_ns", r.start_ns}, {"end_ns", r.end_ns}, {"event_ns", r.event_ns}});
    root["iterations"].push_back({{"set", it.set},
                                  {"content", it.content},
                                  {"warm_up", it.warm_up},
                                  {"latency_ns", it.latency_ns},
                                  {"checker_ns", it.checker_ns},
                                  {"region_ns", it.region_ns},
                                  {"clocks_agree", it.clocks_agree},
                                  {"replayed", it.replayed},
                                  {"ranks", std::move(ranks)}});
  }
  root["findings"] = json::array();
  for (const FindingText& f : outcome.findings) {
    root["findings"].push_back({{"kind", f.kind},
                                {"text", f.text},
                                {"file", f.file},
                                {"line", f.line},
                                {"other_file", f.other_file},
                                {"other_line", f.other_line},
                                {"rank", f.rank}});
  }
  root["counters"] = object_or_empty(outcome.counters_json);
  root["trace"] = object_or_empty(outcome.trace_json);
  if (!outcome.predicted_json.empty()) root["predicted"] = object_or_empty(outcome.predicted_json);
  return dump_json(root);
}

Result<Outcome> parse_outcome(std::string_view text) {
  auto parsed = parse_json(text, "result", std::size_t{16} << 20);
  if (!parsed) return fail(parsed.error());
  const json& root = *parsed;
  auto status =
      root.is_object()
          ? get_string(root, "status", "result")
          : Result<std::string>(fail(ErrorCode::kProtocol, "the result is not an object"));
  if (!status) return fail(status.error());
  Outcome out;
  out.status = *status;
  out.message = string_or(root, "message", "");
  out.advice = string_or(root, "advice", "");
  out.rank = static_cast<int>(int_or(root, "rank", -1));
  out.where = string_or(root, "where", "");
  out.buffer = string_or(root, "buffer", "");
  out.sync_hash = string_or(root, "sync_hash", "");
  out.schedule = string_or(root, "schedule", "");
  out.clock_offset_ns = static_cast<uint64_t>(int_or(root, "clock_offset_ns", 0));
  if (const json* e = find_member(root, "errors"); e != nullptr && e->is_object()) {
    out.errors.relative_l2 = double_of(*e, "relative_l2");
    out.errors.max_abs = double_of(*e, "max_abs");
    out.errors.cap = double_of(*e, "cap");
    out.errors.bad = static_cast<uint64_t>(int_or(*e, "bad", 0));
    out.errors.first_bad = int_or(*e, "first_bad", -1);
    out.errors.unwritten = static_cast<uint64_t>(int_or(*e, "unwritten", 0));
    out.errors.first_unwritten = int_or(*e, "first_unwritten", -1);
  }
  if (const json* list = find_member(root, "iterations"); list != nullptr && list->is_array()) {
    for (const json& entry : *list) {
      if (!entry.is_object()) continue;
      IterationResult it;
      it.set = static_cast<int>(int_or(entry, "set", 0));
      it.content = static_cast<int>(int_or(entry, "content", 0));
      it.warm_up = bool_or(entry, "warm_up", false);
      it.latency_ns = static_cast<uint64_t>(int_or(entry, "latency_ns", 0));
      it.checker_ns = static_cast<uint64_t>(int_or(entry, "checker_ns", 0));
      it.region_ns = static_cast<uint64_t>(int_or(entry, "region_ns", 0));
      it.clocks_agree = bool_or(entry, "clocks_agree", true);
      it.replayed = static_cast<int>(int_or(entry, "replayed", 0));
      if (const json* ranks = find_member(entry, "ranks"); ranks != nullptr && ranks->is_array()) {
        for (const json& r : *ranks) {
          if (!r.is_object()) continue;
          it.ranks.push_back({static_cast<uint64_t>(int_or(r, "start_ns", 0)),
                              static_cast<uint64_t>(int_or(r, "end_ns", 0)),
                              static_cast<uint64_t>(int_or(r, "event_ns", 0))});
        }
      }
      out.iterations.push_back(std::move(it));
    }
  }
  if (const json* list = find_member(root, "findings"); list != nullptr && list->is_array()) {
    for (const json& f : *list) {
      if (!f.is_object()) continue;
      out.findings.push_back(
          {string_or(f, "kind", ""), string_or(f, "text", ""), string_or(f, "file", ""),
           string_or(f, "other_file", ""), static_cast<int>(int_or(f, "line", 0)),
           static_cast<int>(int_or(f, "other_line", 0)), static_cast<int>(int_or(f, "rank", -1))});
    }
  }
  if (const json* c = find_member(root, "counters"); c != nullptr && c->is_object())
    out.counters_json = dump_json(*c);
  if (const json* t = find_member(root, "trace"); t != nullptr && t->is_object())
    out.trace_json = dump_json(*t);
  if (const json* p = find_member(root, "predicted"); p != nullptr && p->is_object())
    out.predicted_json = dump_json(*p);
  return out;
}

}  // namespace sculler::verify
