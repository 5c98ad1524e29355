#include "eval/spool.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/job.h"

namespace sculler::eval {

std::string Spool::path(const std::string& job_id) const {
  return join_path(folder_, job_id + ".json");
}

Status Spool::open() {
  if (folder_.empty()) return {};
  return files_.mkdirs(folder_);
}

std::optional<std::string> Spool::find(const std::string& job_id) const {
  if (folder_.empty() || !is_job_id(job_id)) return std::nullopt;
  auto text = files_.read(path(job_id), uint64_t{16} << 20);
  if (!text) return std::nullopt;
  auto verdict = parse_json(*text, path(job_id));
  if (!verdict || !verdict->is_object() || string_or(*verdict, "job", "") != job_id)
    return std::nullopt;
  // The evaluator or the machine failed, not the candidate: asked again, it is tried again.
  if (string_or(*verdict, "status", "") == "INTERNAL") return std::nullopt;
  return std::string(trim(*text));
}

Status Spool::write(const std::string& job_id, const std::string& line) {
  if (folder_.empty()) return {};
  if (!is_job_id(job_id)) return fail(ErrorCode::kBadInput, "no job id: " + printable(job_id));
  return files_.write_atomic(path(job_id), line + "\n");
}

}  // namespace sculler::eval
