// --noise FILE: a job line with a noise plan, from `sculler bench noise` or a pack.
#include <cstdio>

#include "base/clock.h"
#include "base/files.h"
#include "base/strings.h"
#include "eval/service.h"

namespace sculler::eval {
namespace {

int complain(const Error& error) {
  std::fprintf(stderr, "sculler-eval: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

}  // namespace

int run_noise(Service& service) {
  const std::string& path = service.options.noise_file;
  auto text = real_files().read(path, uint64_t{32} << 20);
  if (!text) return complain(text.error());
  auto plan = parse_noise(*text, path);
  if (!plan) return complain(plan.error());
  auto job = read_job_file(parent_path(path), file_name(path));
  if (!job) return complain(job.error());
  const auto report = service.cascade->noise(*job, *plan, [&](const NoiseCase& one) {
    std::printf("%-9s pair %3d  %.4f [%.4f, %.4f] %-9s %2d rounds %6.0f ms\n", one.kind.c_str(),
                one.pair, one.ratio.median, one.ratio.low, one.ratio.high, one.call.c_str(),
                one.rounds, one.ms);
    std::fflush(stdout);
  });
  std::fputs(
      noise_text(report, *plan, target_name(job->target), file_name(job->task), job->size).c_str(),
      stdout);
  if (report.calibrated) {
    Spread spread;
    spread.fraction = report.margin;
    for (const auto& one : report.cases) {
      if (one.kind != "calibrate" || one.program != "candidate") continue;
      ++spread.comparisons;
      spread.pairs = one.pair;
    }
    spread.task = file_name(job->task);
    spread.size = job->size;
    spread.date = date_text(real_clock().wall_ms());
    if (auto done = save_spread(real_files(), service.cache_folder,
                                service.machine_key(job->target), job->target, spread);
        !done) {
      return complain(done.error());
    }
    std::printf("recorded for this machine in %s/noise.json\n", service.cache_folder.c_str());
  }
  std::printf("%s\n", noise_json(report, *plan).c_str());
  return report.problem.empty() ? 0 : static_cast<int>(ErrorCode::kChildFailed);
}

}  // namespace sculler::eval
