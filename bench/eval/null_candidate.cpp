// What a job costs before its candidate does anything: CPU time, all processes, of real sandboxed
// jobs whose candidate writes 16 numbers (the task of bench/compare), less that of jobs that end
// after the compile stage (which stand for the evaluator alone).
//   bench_eval_null PROGRAMS [JOBS]     PROGRAMS: folder of sculler-eval
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/files.h"
#include "base/process.h"
#include "base/sha256.h"

namespace fs = std::filesystem;
using namespace sculler;

namespace {

const fs::path kTask = fs::path(SCULLER_SOURCE_DIR) / "bench/compare/null_task";

double children_ms() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto ms = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

// CPU milliseconds of one evaluator that answers `n` jobs; everything below it is waited for, so it
// is counted.
double cost(const std::string& programs, const fs::path& folder,
            const std::vector<std::string>& stages, int n, int first) {
  const auto candidate = real_files().read(kTask / "initial.cpp").value();
  std::string input;
  for (int i = 0; i < n; ++i) {
    nlohmann::json job{
        {"version", 1},
        {"task", kTask},
        {"target", "cpu"},
        {"profile", ""},
        {"n_ranks", 1},
        {"candidate", {{"files", {{{"name", "candidate.cpp"}, {"text", candidate}}}}}},
        {"size", "quick"},
        {"seed", first + i},
        {"stages", stages}};
    job["job"] = sha256_hex(job.dump());
    input += job.dump() + "\n";
  }
  SpawnOptions options;
  options.argv = {programs + "/sculler-eval", "--cache", folder / "cache", "--parallel", "1"};
  options.env = env_subset({"PATH", "HOME", "TMPDIR"});
  const double before = children_ms();
  auto result = run_command(real_processes(), options, input, 600'000);
  if (!result || !result->status.ok()) {
    std::fprintf(stderr, "sculler-eval failed: %s\n",
                 result ? result->err.c_str() : result.error().text().c_str());
    std::exit(1);
  }
  int passed = 0;
  std::istringstream lines(result->out);
  for (std::string line; std::getline(lines, line);) {
    const auto verdict = nlohmann::json::parse(line);
    if (verdict["status"] == "PASSED") ++passed;
    else std::fprintf(stderr, "%s\n", line.c_str());
  }
  if (passed != n) std::exit(1);
  return children_ms() - before;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_eval_null PROGRAMS [JOBS]\n");
    return 2;
  }
  const std::string programs = fs::absolute(argv[1]);
  const int n = argc > 2 ? std::atoi(argv[2]) : 100;
  std::string name = (fs::temp_directory_path() / "bench_eval_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr || n <= 0) return 1;
  const fs::path folder = name;
  (void)cost(programs, folder, {"lint", "compile", "run"}, 1, 1'000'000);  // fills the cache
  const double stub = cost(programs, folder, {"lint", "compile"}, n, 0);
  const double real = cost(programs, folder, {"lint", "compile", "run"}, n, 0);
  fs::remove_all(folder);
  std::printf(
      "%d jobs: evaluator alone %.2f ms of CPU a job, sandboxed null candidate %.2f ms, difference "
      "%.2f ms\n",
      n, stub / n, real / n, (real - stub) / n);
  return 0;
}
