// Any text as a job line: refused with a message, or bounded; what is parsed prints and parses to
// the same line.
#include <cstdlib>
#include <string_view>

#include "eval/job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::eval;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = parse_job(text, "job");
  if (!job) {
    if (job.error().message.empty()) std::abort();
    return 0;
  }
  if (!is_job_id(job->id) || job->files.empty()) std::abort();
  for (const auto& file : job->files) {
    if (file.name.find('/') != std::string::npos || file.name.starts_with('.')) std::abort();
  }
  const std::string line = print_job(*job);
  const auto again = parse_job(line, "again");
  if (!again || print_job(*again) != line) std::abort();
  return 0;
}
