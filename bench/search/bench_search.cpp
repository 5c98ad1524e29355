// Cost of the orchestrator with the evaluator stubbed: CPU a candidate over the life of a run,
// memory, size of the store.
//   bench_search [candidates] [folder]     one JSON line a decade
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/strings.h"
#include "cpu.h"
#include "search/run.h"
#include "search/tuner.h"

namespace {

using namespace sculler;

double resident_mib() {
  auto text = real_files().read("/proc/self/statm", 4096);
  const auto words = split(*text, ' ');
  return static_cast<double>(parse_int(words[1]).value_or(0) * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// A verdict of the size that real ones have; times fall slowly, so that the best changes again and
// again.
class Stub final : public search::Evaluator {
 public:
  Status submit(const std::string& id, std::string) override {
    queue_.push_back(id);
    return {};
  }
  Result<std::optional<search::Answer>> next(int64_t) override {
    if (queue_.empty()) return std::optional<search::Answer>();
    std::string id = std::move(queue_.front());
    queue_.pop_front();
    ++count_;
    if (count_ == report_at_ + 1) mark_ms_ = cpu_ms();
    if (count_ == report_at_ + 1 + kWindow) {
      const double each = (cpu_ms() - mark_ms_) / kWindow;
      std::printf("{\"candidates\":%ld,\"cpu_ms_a_candidate\":%.4f,\"resident_mib\":%.1f}\n",
                  report_at_, each, resident_mib());
      std::fflush(stdout);
      report_at_ *= 10;
    }
    const double us = 500.0 + static_cast<double>((count_ * 7919) % 100'003) / 1000.0;
    std::string verdict = "{\"version\":1,\"job\":\"" + id +
                          "\",\"status\":\"PASSED\",\"stage\":\"emulate\",\"target\":\"emu\","
                          "\"latency_us\":{\"median\":" +
                          std::to_string(us) +
                          ",\"low\":1,\"high\":2,\"kind\":\"predicted\",\"size\":\"default\"},"
                          "\"percent_sol\":50,\"notes\":[\"" +
                          std::string(1000, 'n') + "\"]}";
    return std::optional<search::Answer>(search::Answer{std::move(id), std::move(verdict)});
  }

 private:
  static constexpr int64_t kWindow = 50;
  std::deque<std::string> queue_;
  int64_t count_ = 0, report_at_ = 100;
  double mark_ms_ = 0;
};

std::string source_text(int n) {
  std::string text =
      "// sculler:directive {\"backend\":\"lsa\"}\n// source " + std::to_string(n) + "\n";
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    text += std::string("// sculler:tune ") + name +
            " in {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}\n#ifndef " + name + "\n#define " + name +
            " 4\n#endif\n";
  }
  while (text.size() < 12'000)
    text += "__global__ void kernel(float* x) { x[threadIdx.x] += 1.0f; }  // a line of code\n";
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t candidates = argc > 1 ? std::atol(argv[1]) : 100'100;
  char pattern[] = "/tmp/sculler_bench_XXXXXX";
  const std::string folder = argc > 2 ? argv[2] : mkdtemp(pattern);
  if (!real_files().mkdirs(folder + "/spool")) return 1;
  auto store = store::Store::open(folder + "/store.sqlite", real_clock());
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().text().c_str());
    return 1;
  }
  std::vector<std::shared_ptr<const search::Source>> seeds;
  for (int i = 0; i < 8; ++i)
    seeds.push_back(*search::make_source("seed" + std::to_string(i), "seed.cu", source_text(i)));
  search::TunerSettings tuner_settings;
  tuner_settings.budget = candidates;
  search::Tuner tuner(std::move(seeds), tuner_settings);
  Stub stub;
  NoProgress progress;
  Log log(real_files(), real_clock(), folder + "/log.jsonl");
  search::RunSettings settings;
  settings.frame.task = "/tasks/toy";
  settings.frame.task_sha256 = "t";
  settings.frame.target = "emu";
  settings.frame.n_ranks = 2;
  settings.frame.size = "emu";
  settings.frame.predict_size = "default";
  settings.frame.stages = search::search_stages("emu");
  settings.budget = candidates;
  settings.spool = folder + "/spool";
  settings.stop_at_percent_sol = 0;
  settings.in_flight = 3;
  settings.show_all = false;
  search::Run run(**store, real_files(), real_clock(), stub, tuner, progress, log, settings);
  const double start = cpu_ms();
  auto summary = run.execute({});
  if (!summary) {
    std::fprintf(stderr, "%s\n", summary.error().text().c_str());
    return 1;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"candidates\":%ld,\"cpu_ms_a_candidate_overall\":%.4f,\"peak_mib\":%.1f}\n",
              summary->tally.evaluated,
              (cpu_ms() - start) / static_cast<double>(summary->tally.evaluated),
              static_cast<double>(usage.ru_maxrss) / 1024);
  if (argc <= 2) return real_files().remove_all(folder) ? 0 : 1;
  return 0;
}
