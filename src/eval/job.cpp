#include "eval/job.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/weaken.h"

namespace sculler::eval {
namespace {

constexpr std::size_t kMaxLine = std::size_t{16} << 20;
constexpr std::size_t kMaxSource = std::size_t{4} << 20;
constexpr std::size_t kMaxFiles = 16, kMaxDefines = 64;
constexpr int64_t kMaxRanks = 16, kMaxIterations = 64;

constexpr std::array<std::string_view, 7> kStages{"lint",   "compile", "emulate", "run",
                                                  "stress", "bench",   "confirm"};
constexpr std::array<std::string_view, 4> kTargets{"cuda", "emu", "cpu", "external"};
constexpr std::array<std::string_view, 4> kSchedules{"round_robin", "random", "priority",
                                                     "delay_rank"};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

bool is_identifier(std::string_view name) {
  return !name.empty() && name.size() <= 64 && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), is_word);
}

bool is_define_value(std::string_view value) {
  return value.size() <= 64 && std::all_of(value.begin(), value.end(), [](char c) {
           return is_word(c) || c == '.' || c == '+' || c == '-';
         });
}

tl::unexpected<Error> bad(std::string_view origin, std::string key, std::string message,
                          std::string cure) {
  return fail(Error{ErrorCode::kBadInput, std::move(message), std::string(origin), std::move(key),
                    std::move(cure)});
}

std::vector<std::string> names_of(const auto& list) { return {list.begin(), list.end()}; }

Status parse_candidate(const nlohmann::json& object, std::string_view origin, Job& job) {
  auto candidate = get_object(object, "candidate", origin);
  if (!candidate) return fail(candidate.error());
  auto files = get_array(**candidate, "files", origin);
  if (!files) return fail(files.error());
  if ((*files)->empty() || (*files)->size() > kMaxFiles) {
    return bad(origin, "candidate.files", "needs 1 to 16 files", "Send the candidate's source.");
  }
  std::size_t total = 0;
  for (const auto& file : **files) {
    auto name = get_string(file, "name", origin);
    auto text = get_string(file, "text", origin);
    if (!name) return fail(name.error());
    if (!text) return fail(text.error());
    if (!is_file_name(*name)) {
      return bad(origin, "candidate.files.name",
                 "'" + printable(shorten(*name, 80)) + "' is no plain file name",
                 "Use letters, digits, dots and dashes.");
    }
    total += text->size();
    if (total > kMaxSource) {
      return bad(origin, "candidate.files", "the source is larger than 4 MiB", "Send less text.");
    }
    job.files.push_back({std::move(*name), std::move(*text)});
  }
  if (const auto* defines = find_member(**candidate, "defines")) {
    if (!defines->is_object() || defines->size() > kMaxDefines) {
      return bad(origin, "candidate.defines", "must be an object of at most 64 strings",
                 "Send tunables only.");
    }
    for (const auto& [name, value] : defines->items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (!is_identifier(name) || !is_define_value(text)) {
        return bad(origin, "candidate.defines",
                   "'" + printable(shorten(name, 80)) + "' is no name with a plain value",
                   "Use an identifier, and a value of letters, digits, '.', '+', '-'.");
      }
      job.defines.emplace_back(name, text);
    }
  }
  if (const auto* directive = find_member(**candidate, "directive")) {
    if (!directive->is_object()) {
      return bad(origin, "candidate.directive", "must be an object",
                 "Send the five dimensions by name.");
    }
    job.directive = dump_json(*directive);
    job.has_directive = !directive->empty();
  }
  job.parent = string_or(**candidate, "parent", "");
  if (job.parent.size() > kMaxSource) {
    return bad(origin, "candidate.parent", "the source is larger than 4 MiB", "Send less text.");
  }
  return {};
}

Status parse_stages(const nlohmann::json& object, std::string_view origin, Job& job) {
  auto stages = get_array(object, "stages", origin);
  if (!stages) return fail(stages.error());
  for (const auto& item : **stages) {
    auto stage = parse_stage(item.is_string() ? item.get<std::string>() : item.dump());
    if (!stage) {
      Error error = stage.error();
      error.file = origin;
      return fail(std::move(error));
    }
    job.stages.push_back(*stage);
  }
  std::sort(job.stages.begin(), job.stages.end());
  job.stages.erase(std::unique(job.stages.begin(), job.stages.end()), job.stages.end());
  if (job.stages.empty()) return bad(origin, "stages", "is empty", "Name at least one stage.");
  return {};
}

// Optional: "emu":{"schedule":{"kind":"priority","seed":7,"delayed_rank":0,"iterations":10}}.
Status parse_schedule(const nlohmann::json& object, std::string_view origin, Job& job) {
  const auto* emu = find_member(object, "emu");
  const auto* schedule =
      emu != nullptr && emu->is_object() ? find_member(*emu, "schedule") : nullptr;
  if (schedule == nullptr) return {};
  auto kind = get_string(*schedule, "kind", origin);
  if (!kind) return fail(kind.error());
  if (std::find(kSchedules.begin(), kSchedules.end(), *kind) == kSchedules.end()) {
    return bad(origin, "emu.schedule.kind",
               "unknown schedule '" + printable(shorten(*kind, 40)) + "'",
               "Use " + join(names_of(kSchedules), ", ") + ".");
  }
  const auto within = [&](std::string_view key, int64_t most) {
    return static_cast<int>(std::clamp<int64_t>(int_or(*schedule, key, 0), 0, most));
  };
  job.schedule = {std::move(*kind), int_or(*schedule, "seed", 1),
                  within("delayed_rank", job.n_ranks - 1), within("iterations", kMaxIterations)};
  return {};
}

}  // namespace

std::string_view stage_name(Stage stage) { return kStages[static_cast<std::size_t>(stage)]; }
std::string_view target_name(Target target) { return kTargets[static_cast<std::size_t>(target)]; }

Result<Stage> parse_stage(std::string_view name) {
  const auto at = std::find(kStages.begin(), kStages.end(), name);
  if (at != kStages.end()) return static_cast<Stage>(at - kStages.begin());
  return bad("", "stages", "unknown stage '" + printable(shorten(name, 40)) + "'",
             "Use " + join(names_of(kStages), ", ") + ".");
}

Result<Target> parse_target(std::string_view name) {
  const auto at = std::find(kTargets.begin(), kTargets.end(), name);
  if (at != kTargets.end()) return static_cast<Target>(at - kTargets.begin());
  return bad("", "target", "unknown target '" + printable(shorten(name, 40)) + "'",
             "Use " + join(names_of(kTargets), ", ") + ".");
}

bool is_job_id(std::string_view id) {
  return id.size() == 64 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool Job::wants(Stage stage) const {
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}
bool Job::is_cuda_source() const { return !files.empty() && files[0].name.ends_with(".cu"); }

Result<Job> parse_job(std::string_view text, std::string_view origin) {
  auto object = parse_json(text, origin, kMaxLine, 32);
  if (!object) return fail(object.error());
  Job job;
  auto version = get_int(*object, "version", origin);
  if (!version) return fail(version.error());
  if (*version != 1) {
    return fail(Error{ErrorCode::kVersion, "job of version " + std::to_string(*version),
                      std::string(origin), "version",
                      "This evaluator reads version 1: use programs of one release."});
  }
  auto id = get_string(*object, "job", origin);
  if (!id) return fail(id.error());
  if (!is_job_id(*id)) return bad(origin, "job", "is no job id", "Send 64 lower-case hex digits.");
  job.id = std::move(*id);
  auto task = get_string(*object, "task", origin);
  if (!task) return fail(task.error());
  job.task = std::move(*task);
  auto target_text = get_string(*object, "target", origin);
  if (!target_text) return fail(target_text.error());
  auto target = parse_target(*target_text);
  if (!target) return fail(target.error());
  job.target = *target;
  auto ranks = get_int(*object, "n_ranks", origin, 1, kMaxRanks);
  if (!ranks) return fail(ranks.error());
  job.n_ranks = static_cast<int>(*ranks);
  if (find_member(*object, "nodes") != nullptr) {
    auto nodes = get_int(*object, "nodes", origin, 1, job.n_ranks);
    if (!nodes) return fail(nodes.error());
    job.nodes = static_cast<int>(*nodes);
    if (job.n_ranks % job.nodes != 0)
      return bad(origin, "nodes", "does not divide n_ranks", "Give each node as many ranks.");
    if (job.nodes > 1 && job.target != Target::kEmu)
      return bad(origin, "nodes", "are emulated only", "Use the target emu, or leave the key out.");
  }
  auto size = get_string(*object, "size", origin);
  if (!size) return fail(size.error());
  job.size = std::move(*size);
  job.seed = static_cast<uint64_t>(int_or(*object, "seed", 1));
  job.profile = string_or(*object, "profile", "");
  job.adapter = string_or(*object, "adapter", "");
  if ((job.target == Target::kExternal) == job.adapter.empty())
    return bad(origin, "adapter", "belongs to the target external, which needs it",
               "Name the path of an adapter.toml, or leave the key out.");
  job.predict_size = string_or(*object, "predict_size", "");
  job.baseline_of = string_or(*object, "baseline_of", "");
  if (const auto* compare = find_member(*object, "compare")) {
    if (!compare->is_array() || compare->size() > 16) {
      return bad(origin, "compare", "must be a list of baselines", "Name baselines of the task.");
    }
    job.compare_all = false;
    for (const auto& name : *compare) {
      if (!name.is_string())
        return bad(origin, "compare", "must hold names", "Name baselines of the task.");
      job.compare.push_back(name.get<std::string>());
    }
  }
  job.limit_s = std::clamp<int64_t>(int_or(*object, "limit_s", 0), 0, 3600);
  job.checker = string_or(*object, "checker", "");
  if (!job.checker.empty() && !is_weak_checker(job.checker))
    return bad(origin, "checker", "unknown checker '" + printable(shorten(job.checker, 40)) + "'",
               "Use naive, races, poison or delays, or leave it out.");
  if (auto done = parse_candidate(*object, origin, job); !done) return fail(done.error());
  if (auto done = parse_stages(*object, origin, job); !done) return fail(done.error());
  if (auto done = parse_schedule(*object, origin, job); !done) return fail(done.error());
  if (const auto* emu = find_member(*object, "emu"); emu != nullptr && emu->is_object())
    job.operations = bool_or(*emu, "operations", false);
  return job;
}

std::string print_job(const Job& job) {
  nlohmann::json files = nlohmann::json::array(), stages = nlohmann::json::array();
  for (const auto& file : job.files) files.push_back({{"name", file.name}, {"text", file.text}});
  for (const Stage stage : job.stages) stages.push_back(stage_name(stage));
  nlohmann::json defines = nlohmann::json::object();
  for (const auto& [name, value] : job.defines) defines[name] = value;
  nlohmann::json object{{"version", 1},
                        {"job", job.id},
                        {"task", job.task},
                        {"target", target_name(job.target)},
                        {"profile", job.profile},
                        {"n_ranks", job.n_ranks},
                        {"candidate",
                         {{"files", files},
                          {"defines", defines},
                          {"directive", nlohmann::json::parse(job.directive)}}},
                        {"size", job.size},
                        {"seed", static_cast<int64_t>(job.seed)},
                        {"stages", stages},
                        {"predict_size", job.predict_size}};
  if (!job.parent.empty()) object["candidate"]["parent"] = job.parent;
  if (!job.baseline_of.empty()) object["baseline_of"] = job.baseline_of;
  if (!job.compare_all) object["compare"] = job.compare;
  if (!job.adapter.empty()) object["adapter"] = job.adapter;
  if (job.nodes > 1) object["nodes"] = job.nodes;
  if (job.limit_s > 0) object["limit_s"] = job.limit_s;
  if (!job.checker.empty()) object["checker"] = job.checker;
  if (!job.schedule.kind.empty()) {
    object["emu"]["schedule"] = {{"kind", job.schedule.kind},
                                 {"seed", job.schedule.seed},
                                 {"delayed_rank", job.schedule.delayed_rank},
                                 {"iterations", job.schedule.iterations}};
  }
  if (job.operations) object["emu"]["operations"] = true;
  return dump_json(object);
}

}  // namespace sculler::eval
