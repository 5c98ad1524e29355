#include "eval/artifacts.h"

#include <algorithm>

#include "base/files.h"
#include "base/sha256.h"
#include "eval/noise.h"
#include "eval/stress_ptx.h"
#include "source/bundle.h"

namespace sculler::eval {
namespace {

CompileOutcome carried(const std::string& path) {
  CompileOutcome outcome;
  auto bytes = real_files().read(path, uint64_t{1} << 30);
  if (!bytes) {
    outcome.status = "INTERNAL";
    outcome.message = "a carried artifact cannot be read: " + bytes.error().text();
    return outcome;
  }
  outcome.ok = true;
  outcome.cached = true;
  outcome.artifact = path;
  outcome.sha256 = sha256_hex(*bytes);
  return outcome;
}

// Headers that lie directly in the task's folder: what candidates may include beside the ABI.
void add_task_headers(const task::Task& task, std::vector<SourceFile>& files) {
  auto names = real_files().list(task.folder);
  if (!names) return;
  for (const auto& name : *names) {
    if (!name.ends_with(".h") && !name.ends_with(".cuh")) continue;
    const bool taken = std::any_of(files.begin(), files.end(),
                                   [&](const SourceFile& f) { return f.name == name; });
    if (taken) continue;
    if (auto text = real_files().read(task.folder + "/" + name, uint64_t{4} << 20))
      files.push_back({name, *text});
  }
}

}  // namespace

std::string source_hash(const Job& job) {
  Sha256 hash;
  for (const auto& file : job.files) hash.field(file.name).field(file.text);
  for (const auto& [name, value] : job.defines) hash.field(name).field(value);
  return hash.hex();
}

CompileRequest Artifacts::source_request(const Job& job, const task::Task& task,
                                         const std::string& arch, bool cubin) const {
  CompileRequest r;
  r.files = job.files;
  const bool cuda = job.is_cuda_source();
  r.language = cuda ? CompileRequest::Language::kCuda : CompileRequest::Language::kCpp;
  // One name for all, so that names which compilers derive from it do not tell candidates apart.
  r.files[0].name = cuda ? "candidate.cu" : "candidate.cpp";
  add_task_headers(task, r.files);
  r.defines = job.defines;
  r.include_folders = {share_ + "/include"};
  r.arch = arch;
  r.cubin = cubin;
  r.native = !cuda;
  for (const auto& file : job.files) {
    r.needs_cutlass = r.needs_cutlass || source_requires(file.text, "cutlass");
    r.needs_openblas = r.needs_openblas || source_requires(file.text, "openblas");
  }
  r.timeout_ms = static_cast<int64_t>(task.timeouts.compile_s * 1000);
  return r;
}

CompileOutcome Artifacts::candidate(const Job& job, const task::Task& task, const std::string& arch,
                                    bool cubin) {
  if (!job.carried.candidate.empty()) return carried(job.carried.candidate);
  return compiler_.compile(source_request(job, task, arch, cubin));
}

CompileOutcome Artifacts::baseline(const Job& job, const task::Task& task, const std::string& name,
                                   const std::string& arch, bool cubin) {
  if (const auto at = job.carried.baselines.find(name); at != job.carried.baselines.end())
    return carried(at->second);
  CompileOutcome outcome;
  outcome.status = "INTERNAL";
  const std::string relative = task.baseline_path(name, target_name(job.target));
  if (relative.empty()) {
    outcome.message = "task " + task.name + " has no baseline '" + name + "'";
    return outcome;
  }
  const std::string path = task.folder + "/" + relative;
  const auto text = source::read_bundle(real_files(), path);
  const auto parts = text ? source::split_bundle(*text, file_name(path), path) : fail(text.error());
  if (!parts) {
    outcome.message = parts.error().text();
    return outcome;
  }
  Job stand_in;
  for (const auto& part : *parts) stand_in.files.push_back({part.name, part.text});
  return compiler_.compile(source_request(stand_in, task, arch, cubin));
}

CompileOutcome Artifacts::planted(const Job& job, const task::Task& task, double fraction,
                                  const std::string& arch, bool cubin) {
  if (!job.carried.planted.empty()) return carried(job.carried.planted);
  Job variant = job;
  variant.files[0].text = planted_source(job.files[0].text, fraction, job.is_cuda_source());
  return compiler_.compile(source_request(variant, task, arch, cubin));
}

CompileOutcome Artifacts::stressed(const Job& job, const task::Task& task, const std::string& arch,
                                   bool cubin, const std::string& plain) {
  if (!job.carried.stressed.empty()) return carried(job.carried.stressed);
  Job variant = job;
  variant.files[0].text = stressed_source(job.files[0].text);
  auto request = source_request(variant, task, arch, cubin);
  request.stressed = true;
  request.salt = plain;
  return compiler_.compile(request);
}

CompileOutcome Artifacts::rank_backend(const Job& job, const std::string& arch, bool cubin) {
  if (!job.carried.rank_backend.empty()) return carried(job.carried.rank_backend);
  CompileRequest r;
  r.candidate = false;
  r.arch = arch;
  r.cubin = cubin;
  r.files = {{"rank_backend.cu", "#include \"" + share_ + "/src/rank/backend_cuda.cu\"\n"}};
  r.include_folders = {share_ + "/include", share_ + "/src"};
  return compiler_.compile(r);
}

CompileOutcome Artifacts::verify_backend(const Job& job, const task::Task& task,
                                         const std::string& arch) {
  if (!job.carried.verify_backend.empty()) return carried(job.carried.verify_backend);
  CompileRequest r;
  r.candidate = false;
  r.arch = arch;
  r.cubin = true;
  std::string text = "#include \"" + share_ + "/src/verify/backend_cuda.cu\"\n";
  if (!task.expected.empty()) text += "#include \"" + task.folder + "/" + task.expected + "\"\n";
  r.files = {{"verify_backend.cu", std::move(text)}};
  r.include_folders = {share_ + "/include", share_ + "/src", task.folder};
  return compiler_.compile(r);
}

CompileOutcome Artifacts::reference(const Job& job, const task::Task& task) {
  if (!job.carried.reference.empty()) return carried(job.carried.reference);
  CompileRequest r;
  r.candidate = false;
  r.language = CompileRequest::Language::kCpp;
  r.files = {{"reference.cpp", "#include \"" + task.folder + "/" + task.reference + "\"\n"}};
  r.include_folders = {share_ + "/include", task.folder};
  return compiler_.compile(r);
}

}  // namespace sculler::eval
