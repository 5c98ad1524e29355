// Job folders: work prepared on one machine and run on another that has GPUs but no network and
// maybe no compiler.
//   DIR/<job>.json   the job line with "task", "profile" and "artifacts" relative to DIR
//   DIR/artifacts/   shared objects by hash      DIR/tasks/ DIR/profiles/   copies
//   DIR/bin DIR/lib  these programs              DIR/spool/                 verdicts
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "eval/queue.h"
#include "eval/service.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

int complain(const Error& error) {
  std::fprintf(stderr, "sculler-eval: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

void print_row(const std::string& line) {
  auto v = parse_json(line, "verdict");
  if (!v) return;
  std::string latency = "-", ratios;
  if (const auto* l = find_member(*v, "latency_us"); l != nullptr && l->is_object()) {
    latency = microseconds_text(number_or(*l, "median", 0));
  }
  if (const auto* r = find_member(*v, "ratio"); r != nullptr && r->is_object()) {
    for (const auto& [name, value] : r->items()) {
      char text[160];
      std::snprintf(text, sizeof text, " %s %.3f [%.3f, %.3f]", name.c_str(),
                    number_or(value, "median", 0), number_or(value, "low", 0),
                    number_or(value, "high", 0));
      ratios += text;
    }
  }
  std::printf(
      "%-10s %-14s %-8s %10s %6.1f %s%s%s\n", string_or(*v, "job", "?").substr(0, 10).c_str(),
      string_or(*v, "status", "?").c_str(), string_or(*v, "stage", "").c_str(), latency.c_str(),
      number_or(*v, "percent_sol", 0), ratios.c_str(), ratios.empty() ? "" : "  ",
      shorten(printable(string_or(*v, "where", "") + " " + string_or(*v, "message", "")), 100)
          .c_str());
  std::fflush(stdout);
}

// Copies files into the folder once each, by content.
class Packer {
 public:
  explicit Packer(std::string folder) : folder_(std::move(folder)) {}

  Result<std::string> artifact(const CompileOutcome& built) {
    const std::string relative = "artifacts/" + built.sha256 + ".so";
    if (auto done = copy(built.artifact, relative); !done) return fail(done.error());
    return relative;
  }
  Status copy(const std::string& from, const std::string& relative) {
    std::error_code why;
    const fs::path to = fs::path(folder_) / relative;
    fs::create_directories(to.parent_path(), why);
    if (!why)
      fs::copy(from, to, fs::copy_options::overwrite_existing | fs::copy_options::recursive, why);
    if (!why) return {};
    return fail(
        Error{ErrorCode::kIo, why.message(), to.string(), "", "Give --pack a writable folder."});
  }

 private:
  std::string folder_;
};

Status pack_programs(Packer& packer, const Service& s, bool emulator) {
  std::vector<std::string> names{"sculler-eval", "sculler-verify", "sculler-rank"};
  if (emulator) names.emplace_back("sculler-vm");
  for (const auto& name : names) {
    if (!real_files().exists(s.installation.programs + "/" + name)) continue;
    if (auto done = packer.copy(s.installation.programs + "/" + name, "bin/" + name); !done)
      return done;
  }
  if (!emulator) return {};
  auto names_there = real_files().list(s.installation.dropins);
  if (!names_there) return {};
  for (const auto& name : *names_there) {
    if (name.find(".so") == std::string::npos) continue;
    if (auto done = packer.copy(s.installation.dropins + "/" + name, "lib/" + name); !done)
      return done;
  }
  return {};
}

// What a person types there.
std::string run_script() {
  return R"sh(#!/bin/sh
# Judges and measures these jobs on a machine with GPUs, and CUDA and NCCL libraries: sh run.sh
# Verdicts come into spool/. What the GPUs' machine has is used, nothing is compiled.
# NVLink multicast can put a shared host's GPUs out of service: off before anything loads NCCL.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export CUDA_MODULE_LOADING=EAGER
cd "$(dirname "$0")" && exec bin/sculler-eval --jobs . "$@"
)sh";
}

Result<nlohmann::json> pack_job(Service& s, Packer& packer, const Job& job, const std::string& arch,
                                const std::string& line) {
  auto task = task::load_task(real_files(), job.task);
  if (!task) return fail(task.error());
  Artifacts artifacts(*s.compiler, s.toolchain, s.installation.share);
  nlohmann::json carried{{"nccl_version", s.toolchain.nccl_version}};
  const auto add = [&](const char* what, const CompileOutcome& built) -> Status {
    if (!built.ok) {
      return fail(Error{ErrorCode::kBadSource,
                        std::string(what) + ": " + built.status + ": " + built.message, built.where,
                        "", built.advice});
    }
    auto path = packer.artifact(built);
    if (!path) return fail(path.error());
    carried[what] = *path;
    return {};
  };
  const bool cuda = job.is_cuda_source();
  if (auto done = add("candidate", artifacts.candidate(job, *task, arch, true)); !done)
    return fail(done.error());
  if (auto done = add("reference", artifacts.reference(job, *task)); !done)
    return fail(done.error());
  if (cuda) {
    if (auto done = add("rank_backend", artifacts.rank_backend(job, arch, true)); !done)
      return fail(done.error());
    if (auto done = add("verify_backend", artifacts.verify_backend(job, *task, arch)); !done) {
      return fail(done.error());
    }
  }
  if (cuda && job.wants(Stage::kStress)) {
    const auto plain = artifacts.candidate(job, *task, arch, true);
    // Where it cannot be built the stress stage says so in the verdict.
    if (auto built = artifacts.stressed(job, *task, arch, true, plain.sha256); built.ok) {
      if (auto done = add("stressed", built); !done) return fail(done.error());
    }
  }
  const NoisePlan noise = parse_noise(line, "job").value_or(NoisePlan{});
  if (noise.planted_n > 0) {
    if (auto done = add("planted", artifacts.planted(job, *task, noise.planted, arch, cuda)); !done)
      return fail(done.error());
  }
  if (job.wants(Stage::kBench)) {
    std::vector<std::string> names = job.compare;
    if (job.compare_all && job.baseline_of.empty()) {
      for (const auto& path : task::Task::fitting(task->baselines, target_name(job.target)))
        names.push_back(task::Task::stem(path));
    }
    for (const auto& name : names) {
      if (name == job.baseline_of) continue;
      const auto built = artifacts.baseline(job, *task, name, arch, true);
      if (!built.ok) {
        return fail(Error{ErrorCode::kBadSource, "baseline " + name + ": " + built.message,
                          built.where, "", built.advice});
      }
      auto path = packer.artifact(built);
      if (!path) return fail(path.error());
      carried["baselines"][name] = *path;
    }
  }
  auto object = nlohmann::json::parse(print_job(job));
  const std::string task_place = "tasks/" + task->name;
  if (auto done = packer.copy(job.task, task_place); !done) return fail(done.error());
  object["task"] = task_place;
  if (!job.profile.empty()) {
    const std::string place = "profiles/" + file_name(job.profile);
    if (auto done = packer.copy(job.profile, place); !done) return fail(done.error());
    object["profile"] = place;
  }
  object["artifacts"] = carried;
  if (noise.planted_n > 0 || noise.aa > 0)
    object["noise"] = nlohmann::json::parse(print_noise(noise));
  return object;
}

}  // namespace

Result<Job> read_job_file(const std::string& folder, const std::string& name) {
  auto text = real_files().read(folder + "/" + name, uint64_t{32} << 20);
  if (!text) return fail(text.error());
  auto job = parse_job(*text, name);
  if (!job) return fail(job.error());
  auto object = parse_json(*text, name);
  if (!object) return fail(object.error());
  job->task = join_path(folder, job->task);
  if (!job->profile.empty()) job->profile = join_path(folder, job->profile);
  if (const auto* a = find_member(*object, "artifacts"); a != nullptr && a->is_object()) {
    const auto path = [&](const char* key) {
      const std::string relative = string_or(*a, key, "");
      return relative.empty() ? relative : join_path(folder, relative);
    };
    Carried& c = job->carried;
    c.candidate = path("candidate");
    c.rank_backend = path("rank_backend");
    c.verify_backend = path("verify_backend");
    c.reference = path("reference");
    c.planted = path("planted");
    c.stressed = path("stressed");
    c.nccl_version = static_cast<int>(int_or(*a, "nccl_version", 0));
    if (const auto* b = find_member(*a, "baselines"); b != nullptr && b->is_object()) {
      for (const auto& [key, value] : b->items()) {
        if (value.is_string()) c.baselines[key] = join_path(folder, value.get<std::string>());
      }
    }
  }
  return job;
}

int run_folder(Service& service) {
  const std::string& folder = service.options.jobs_folder;
  auto names = real_files().list(folder);
  if (!names) return complain(names.error());
  Spool spool(real_files(),
              service.options.spool.empty() ? folder + "/spool" : service.options.spool);
  if (auto done = spool.open(); !done) return complain(done.error());
  std::printf("%-10s %-14s %-8s %10s %6s  %s\n", "job", "status", "stage", "latency", "% SOL",
              "ratio over baselines, message");
  int passed = 0, total = 0, broken = 0;
  {
    Queue queue([&](const Job& job) { return print_verdict(service.cascade->run(job)); }, spool,
                [&](const std::string& line) {
                  print_row(line);
                  ++total;
                  if (auto v = parse_json(line, "verdict");
                      v && string_or(*v, "status", "") == "PASSED")
                    ++passed;
                },
                service.workers());
    for (const auto& name : *names) {
      if (!name.ends_with(".json")) continue;
      auto job = read_job_file(folder, name);
      if (!job) {
        std::fprintf(stderr, "sculler-eval: %s\n", job.error().text().c_str());
        ++broken;
        continue;
      }
      queue.submit(std::move(*job));
    }
    queue.drain();
  }
  std::printf("%d of %d passed; verdicts in %s\n", passed, total, spool.folder().c_str());
  if (broken > 0) return static_cast<int>(ErrorCode::kBadInput);
  if (total == 0) {
    return complain(Error{ErrorCode::kNotFound, "no job files", folder, "",
                          "Fill the folder with sculler-eval --pack."});
  }
  return passed > 0 ? 0 : static_cast<int>(ErrorCode::kNothingPassed);
}

int pack_folder(Service& service, int in) {
  const std::string& folder = service.options.pack_folder;
  if (auto done = real_files().mkdirs(folder); !done) return complain(done.error());
  Packer packer(folder);
  bool emulator = false;
  int packed = 0, refused = 0;
  LineReader lines(in);
  for (std::string line; lines.next(line);) {
    if (trim(line).empty()) continue;
    auto job = parse_job(line, "job");
    Result<nlohmann::json> object = fail(ErrorCode::kBadInput, "");
    if (job) {
      std::string arch = service.options.arch;
      if (arch.empty() && !job->profile.empty()) {
        if (auto profile = task::load_profile(real_files(), job->profile);
            profile && profile->arch.starts_with("sm_")) {
          arch = profile->arch.substr(3);
        }
      }
      object = pack_job(service, packer, *job, arch.empty() ? "90a" : arch, line);
    } else {
      object = fail(job.error());
    }
    Status written = object ? real_files().write_atomic(folder + "/" + job->id + ".json",
                                                        dump_json(*object) + "\n")
                            : Status(fail(object.error()));
    if (!written) {
      std::fprintf(stderr, "sculler-eval: %s\n", written.error().text().c_str());
      ++refused;
      continue;
    }
    emulator = emulator || job->wants(Stage::kEmulate);
    ++packed;
  }
  if (auto done = pack_programs(packer, service, emulator); !done) return complain(done.error());
  if (auto done = real_files().write_atomic(folder + "/run.sh", run_script()); !done)
    return complain(done.error());
  std::printf("%d jobs in %s, %d refused; run there: sh run.sh\n", packed, folder.c_str(), refused);
  return refused == 0 ? 0 : static_cast<int>(ErrorCode::kBadSource);
}

}  // namespace sculler::eval
