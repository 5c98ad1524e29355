#include "eval/compile.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "eval/stopwatch.h"
#include "eval/vector_report.h"

namespace sculler::eval {
namespace fs = std::filesystem;
namespace {

// Inside of the sandbox the source always has the same path, so that names which the compiler
// derives from it are stable.
constexpr const char* kWorkInside = "/sculler/work";
constexpr const char* kArtifact = "artifact.so";
constexpr uint64_t kMemoryLimit = uint64_t{16} << 30;
constexpr uint64_t kFileLimit = uint64_t{1} << 30;
constexpr uint64_t kOutputLimit = uint64_t{1} << 20;
constexpr const char* kVectorRemarks = "vectors.txt";
constexpr uint64_t kRemarksLimit = uint64_t{16} << 20, kAssemblyLimit = uint64_t{64} << 20;

CompileOutcome failed(std::string status, std::string message, std::string advice = {}) {
  CompileOutcome outcome;
  outcome.status = std::move(status);
  outcome.message = std::move(message);
  outcome.advice = std::move(advice);
  return outcome;
}

Status write_plain(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return {};
  return fail(Error{ErrorCode::kDiskFull, "cannot be written", path, "",
                    "Free some space or set --cache."});
}

bool reports_vectors(const CompileRequest& r) {
  return r.candidate && r.native && r.language == CompileRequest::Language::kCpp;
}

// Of a build with -save-temps=obj; empty where the compiler calls it otherwise.
std::string assembly_of(const std::string& work) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(work, ignored)) {
    if (entry.path().extension() == ".s")
      return real_files().read(entry.path(), kAssemblyLimit).value_or("");
  }
  return {};
}

// What -march=native depends on: the first processor's model and flags, whole, and nothing that
// changes from one reading to the next (its clock).
std::string native_features(std::string_view cpuinfo) {
  std::string out;
  for (const auto line : split(cpuinfo.substr(0, cpuinfo.find("\n\n")), '\n')) {
    for (const std::string_view key : {"vendor_id", "cpu family", "model", "stepping", "flags",
                                       "Features", "CPU implementer", "CPU part", "CPU variant"}) {
      if (line.starts_with(key)) {
        out.append(line).append("\n");
        break;
      }
    }
  }
  return out;
}

CompileOutcome from_object(const std::string& folder) {
  CompileOutcome outcome;
  auto text = real_files().read(folder + "/meta.json", uint64_t{1} << 20);
  if (!text) return failed("INTERNAL", text.error().text());
  auto meta = parse_json(*text, folder + "/meta.json");
  if (!meta) return failed("INTERNAL", meta.error().text());
  outcome.ok = true;
  outcome.artifact = folder + "/" + kArtifact;
  outcome.sha256 = string_or(*meta, "sha256", "");
  if (const auto* facts = find_member(*meta, "facts"); facts != nullptr && facts->is_object()) {
    for (const auto& [name, value] : facts->items()) {
      if (value.is_number_integer()) outcome.facts[name] = value.get<int64_t>();
    }
  }
  outcome.remarks = strings_of(*meta, "remarks");
  return outcome;
}

}  // namespace

std::string ToolCompiler::source_key(const CompileRequest& r) const {
  Sha256 hash;
  hash.field("compile 1").field(toolchain_.fingerprint);
  for (const auto& file : r.files) hash.field(file.name).field(file.text);
  for (const auto& word : command(r)) hash.field(word);
  if (r.stressed) hash.field("stressed 1").field(r.salt);
  if (r.native) {
    // Read once: of many cores it is long, and slow to make.
    static const std::string features =
        native_features(real_files().read("/proc/cpuinfo").value_or(""));
    hash.field(features);
  }
  return hash.hex();
}

std::vector<std::string> ToolCompiler::command(const CompileRequest& r) const {
  std::vector<std::string> a;
  if (r.language == CompileRequest::Language::kCuda) {
    a = {toolchain_.cuda_home + "/bin/nvcc",
         "-std=c++17",
         "-shared",
         "-cudart",
         "shared",
         "-gencode"};
    const std::string code =
        r.cubin ? "[compute_" + r.arch + ",sm_" + r.arch + "]" : "compute_" + r.arch;
    a.push_back("arch=compute_" + r.arch + ",code=" + code);
    for (const char* word : {"--no-compress", "-lineinfo", "-Xcompiler", "-fPIC,-fno-gnu-unique"})
      a.emplace_back(word);
    if (r.cubin) {
      a.emplace_back("-Xptxas");
      a.emplace_back("-v");
    }
    // CUTLASS needs both; elsewhere they cost nothing.
    a.emplace_back("--expt-relaxed-constexpr");
    a.emplace_back("--expt-extended-lambda");
    if (!r.candidate) a.emplace_back("-O3");
    // Lines of the host code, so that what the emulator finds at a call of it has a place.
    else if (!r.cubin && !r.stressed) a.insert(a.end(), {"-Xcompiler", "-g1"});
  } else {
    a = {toolchain_.gxx, "-std=c++20", "-O3", "-shared", "-fPIC", "-fno-gnu-unique", "-pthread"};
    a.emplace_back(r.native ? "-march=native" : "-static-libstdc++");
    if (!r.native) a.emplace_back("-static-libgcc");
    a.emplace_back("-g1");
    if (reports_vectors(r)) {
      a.emplace_back(std::string("-fopt-info-vec-optimized-missed=") + kVectorRemarks);
      a.emplace_back("-save-temps=obj");
    }
  }
  for (const auto& folder : r.include_folders) a.push_back("-I" + folder);
  if (r.language == CompileRequest::Language::kCuda && !toolchain_.nccl_include.empty()) {
    a.push_back("-I" + toolchain_.nccl_include);
  }
  if (r.needs_cutlass) {
    for (const auto& folder : toolchain_.cutlass_include) a.push_back("-I" + folder);
  }
  for (const auto& [name, value] : r.defines) a.push_back("-D" + name + "=" + value);
  if (!r.stressed) {
    for (const char* word : {"-MD", "-MF", "depends.d"}) a.emplace_back(word);
  }
  a.emplace_back("-o");
  a.emplace_back(kArtifact);
  a.push_back(r.files[0].name);
  if (r.needs_openblas) {
    a.push_back("-I" + toolchain_.openblas_include);
    a.push_back("-L" + toolchain_.openblas_library);
    a.emplace_back("-lopenblas");
    a.push_back("-Wl,-rpath," + toolchain_.openblas_library);
  }
  return a;
}

CompileOutcome ToolCompiler::compile(const CompileRequest& r) {
  const auto start = std::chrono::steady_clock::now();
  if (r.files.empty()) return failed("INTERNAL", "nothing to compile");
  if (r.language == CompileRequest::Language::kCuda && toolchain_.cuda_home.empty()) {
    return failed("INTERNAL", "no CUDA compiler was found",
                  "Set SCULLER_CUDA_HOME to a toolkit that holds bin/nvcc, or run ./quickstart, "
                  "which installs one.");
  }
  if (r.language == CompileRequest::Language::kCpp && toolchain_.gxx.empty()) {
    return failed("INTERNAL", "no C++ compiler was found", "Install g++.");
  }
  if (r.needs_cutlass && toolchain_.cutlass_include.empty()) {
    return failed("UNSUPPORTED", "the source needs the CUTLASS headers, which are not here",
                  "Run ./quickstart, which installs them, or set SCULLER_CUTLASS_HOME.");
  }
  if (r.needs_openblas && toolchain_.openblas_library.empty()) {
    return failed("UNSUPPORTED", "the source needs OpenBLAS, which is not here",
                  "Install libopenblas-dev (apt-get install libopenblas-dev).");
  }
  const std::string key = source_key(r);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !in_progress_.contains(key); });
    in_progress_.insert(key);
  }
  CompileOutcome outcome;
  if (auto known = cache_.find_by_source(key)) {
    if (auto folder = cache_.find(*known)) outcome = from_object(*folder);
    outcome.cached = outcome.ok;
  }
  if (!outcome.ok) outcome = run(r, key);
  {
    const std::lock_guard lock(mutex_);
    in_progress_.erase(key);
  }
  changed_.notify_all();
  outcome.ms = ms_since(start);
  return outcome;
}

CompileOutcome ToolCompiler::run(const CompileRequest& r, const std::string& key) {
  auto staged = cache_.stage();
  if (!staged) return failed("INTERNAL", staged.error().text());
  struct Cleanup {
    std::string path;
    ~Cleanup() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } cleanup{*staged};
  const std::string work = *staged + "/work";
  std::error_code why;
  fs::create_directories(work, why);
  for (const auto& file : r.files) {
    if (auto done = write_plain(work + "/" + file.name, file.text); !done)
      return failed("INTERNAL", done.error().text());
  }

  Confined c;
  c.argv = command(r);
  c.env = {{"PATH", "/usr/bin:/bin"}, {"HOME", "/tmp"}, {"TMPDIR", "/tmp"}, {"LANG", "C"}};
  c.cwd = kWorkInside;
  c.cwd_outside = work;
  c.binds.push_back({.source = work, .at = kWorkInside, .writable = true});
  if (!toolchain_.cuda_home.empty()) c.binds.push_back({.source = toolchain_.cuda_home});
  for (const auto& folder : r.include_folders) c.binds.push_back({.source = folder});
  if (!toolchain_.nccl_include.empty()) c.binds.push_back({.source = toolchain_.nccl_include});
  if (r.needs_cutlass) {
    for (const auto& folder : toolchain_.cutlass_include) c.binds.push_back({.source = folder});
  }
  c.whole_usr = true;
  c.tmp_bytes = uint64_t{2} << 30;
  c.limits.address_space_bytes = kMemoryLimit;
  c.limits.file_bytes = kFileLimit;
  c.limits.cpu_seconds = static_cast<uint64_t>(r.timeout_ms / 1000 + 1);
  c.limits.open_files = 1024;
  int points = 0;
  auto result = r.stressed
                    ? run_stressed(c, work, r.timeout_ms, points)
                    : run_command(processes_, sandbox_.wrap(c), "", r.timeout_ms, kOutputLimit);
  if (!result) return failed("INTERNAL", result.error().text());
  const std::string output = result->err + "\n" + result->out;
  if (result->status.timed_out) {
    return failed("TIMEOUT",
                  "the compiler ran longer than " + std::to_string(r.timeout_ms / 1000) + " s",
                  "Instantiate less: fewer templates, smaller unrolled loops.");
  }
  if (r.stressed && result->status.ok() && points == 0)
    return failed("UNSUPPORTED", "the PTX has no synchronisation points");
  if (!result->status.ok() || !fs::exists(work + "/" + kArtifact, why)) {
    const auto error = first_error(output);
    const bool memory =
        output.find("out of memory") != std::string::npos || result->status.signal == 9;
    auto outcome = failed(
        memory ? "OOM" : "COMPILE_ERROR",
        error.message.empty() ? "the compiler ended with " + result->status.text() : error.message);
    outcome.where = error.where;
    return outcome;
  }

  // Dependencies: what the compiler read, its own tools' headers included.
  std::vector<Dependency> needs;
  Sha256 content;
  content.field(key);
  if (auto text = real_files().read(work + "/depends.d", uint64_t{16} << 20)) {
    for (const auto& path : parse_depfile(*text)) {
      if (!path.starts_with('/') || path.starts_with(kWorkInside)) continue;
      auto seen = observe(absolute_path(path));
      if (!seen) continue;
      content.field(seen->path).field(seen->sha256);
      needs.push_back(std::move(*seen));
    }
  }
  auto bytes = real_files().read(work + "/" + kArtifact, kFileLimit);
  if (!bytes) return failed("INTERNAL", bytes.error().text());
  auto object = cache_.stage();
  if (!object) return failed("INTERNAL", object.error().text());
  const Cleanup cleanup_object{*object};
  fs::rename(work + "/" + kArtifact, *object + "/" + kArtifact, why);
  if (why)
    return failed("INTERNAL", "the artifact cannot be moved into the cache: " + why.message());
  fs::permissions(*object, fs::perms(0755), why);
  fs::permissions(*object + "/" + kArtifact, fs::perms(0755), why);
  auto facts = ptxas_facts(output);
  if (points > 0) facts["stress_points"] = points;
  VectorReport vectors;
  if (reports_vectors(r)) {
    vectors = read_vector_report(
        real_files().read(work + "/" + kVectorRemarks, kRemarksLimit).value_or(""),
        assembly_of(work));
    facts.insert(vectors.facts.begin(), vectors.facts.end());
  }
  const nlohmann::json meta{{"sha256", sha256_hex(*bytes)},
                            {"facts", facts},
                            {"remarks", vectors.remarks},
                            {"source", r.files[0].name}};
  if (auto done = write_plain(*object + "/meta.json", dump_json(meta)); !done) {
    return failed("INTERNAL", done.error().text());
  }
  const std::string object_key = content.hex();
  auto folder = cache_.insert(object_key, *object);
  if (!folder) return failed("INTERNAL", folder.error().text());
  cache_.remember_source(key, object_key, needs);
  return from_object(*folder);
}

}  // namespace sculler::eval
