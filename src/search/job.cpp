#include "search/job.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace sculler::search {

std::string job_id(const JobFrame& frame, const Candidate& candidate) {
  Sha256 hash;
  hash.field("sculler job 1")
      .field(frame.task_sha256)
      .field(frame.target)
      .field(frame.profile_sha256);
  hash.field(std::to_string(frame.n_ranks))
      .field(frame.size)
      .field(frame.predict_size)
      .field(join(frame.stages, " "));
  hash.field(std::to_string(frame.seed))
      .field(candidate.source->sha256)
      .field(source::print(candidate.defines));
  hash.field(candidate.baseline ? candidate.source->name : std::string());
  if (!candidate.baseline && !frame.compare.empty()) hash.field(join(frame.compare, " "));
  if (frame.nodes > 1) hash.field("nodes " + std::to_string(frame.nodes));
  if (frame.operations) hash.field("operations");
  return hash.hex();
}

std::string job_line(const JobFrame& frame, const Candidate& candidate, std::string_view id) {
  nlohmann::json defines = nlohmann::json::object();
  for (const auto& [name, value] : candidate.defines) defines[name] = value;
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : candidate.source->files)
    files.push_back({{"name", file.name}, {"text", file.text}});
  nlohmann::json job{{"version", 1},
                     {"job", id},
                     {"task", frame.task},
                     {"target", frame.target},
                     {"profile", frame.profile},
                     {"n_ranks", frame.n_ranks},
                     {"candidate",
                      {{"files", std::move(files)},
                       {"defines", std::move(defines)},
                       {"directive", candidate.source->has_directive
                                         ? directive::to_json(candidate.source->directive)
                                         : nlohmann::json::object()}}},
                     {"size", frame.size},
                     {"seed", frame.seed},
                     {"stages", frame.stages},
                     {"predict_size", frame.predict_size}};
  // The adapter stands in the frame's profile: it is what the target is.
  if (frame.target == "external") {
    job["adapter"] = frame.profile;
    job["profile"] = "";
  }
  if (frame.nodes > 1) job["nodes"] = frame.nodes;
  if (candidate.baseline) job["baseline_of"] = candidate.source->name;
  else if (!frame.compare.empty()) job["compare"] = frame.compare;
  if (frame.operations) job["emu"]["operations"] = true;
  return dump_json(job);
}

std::vector<std::string> search_stages(std::string_view target) {
  if (target == "emu") return {"lint", "compile", "emulate"};
  if (target == "cpu" || target == "external") return {"lint", "compile", "run", "bench"};
  return {"lint", "compile", "emulate", "run", "bench"};
}

std::vector<std::string> confirm_stages(std::string_view target) {
  if (target == "emu") return {"lint", "compile", "emulate", "stress", "confirm"};
  if (target == "cpu" || target == "external")
    return {"lint", "compile", "run", "stress", "bench", "confirm"};
  return {"lint", "compile", "emulate", "run", "stress", "bench", "confirm"};
}

}  // namespace sculler::search
