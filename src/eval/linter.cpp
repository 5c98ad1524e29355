#include "eval/linter.h"

#include <algorithm>

#include "directive/directive.h"
#include "source/lint.h"

namespace sculler::eval {

std::optional<LintProblem> SourceLinter::lint(const Job& job, const task::Task& task,
                                              const task::Profile* profile) {
  for (const auto& file : job.files) {
    source::LintOptions options;
    options.origin = file.name;
    std::optional<directive::Directive> directive;
    const bool unit = &file == &job.files.front();
    if (unit && job.has_directive) {
      auto parsed = directive::parse_text(job.directive, "directive");
      if (!parsed) { return LintProblem{"directive", parsed.error().message, parsed.error().cure}; }
      directive = std::move(*parsed);
      options.directive = &*directive;
    }
    if (unit && job.target == Target::kCuda && (profile == nullptr || !profile->gin)) {
      if (!directive) {
        auto own = directive::from_source(file.text, file.name);
        if (own) directive = std::move(*own);  // what is wrong with it is found below
      }
      const auto backend = directive ? directive->backend : directive::Backend::kNone;
      if (backend == directive::Backend::kGin || backend == directive::Backend::kHybrid) {
        return LintProblem{"directive",
                           "the directive's backend is " + std::string(directive::name(backend)) +
                               ", and this machine has no GIN (no RDMA NIC, no GIN plugin)",
                           "Choose lsa or none here, judge it on the target emu, or set allow.gin "
                           "in the hardware profile of a machine that has GIN."};
      }
    }
    options.parent = unit ? std::string_view(job.parent) : std::string_view();
    // Only a translation unit that a proposer wrote must have evolve blocks.
    options.baseline = !job.baseline_of.empty() || !unit;
    options.unit = unit;
    options.multicast = profile != nullptr && profile->multicast;
    options.device_code = job.is_cuda_source();
    if (unit) options.defines = job.defines;
    const auto findings = source::lint(file.text, options);
    if (findings.empty()) continue;
    const auto& first = findings.front();
    LintProblem problem;
    problem.where = file.name + (first.line > 0 ? ":" + std::to_string(first.line) : "");
    problem.message = first.rule + ": " + first.message;
    if (findings.size() > 1)
      problem.message += " (and " + std::to_string(findings.size() - 1) + " more)";
    problem.advice = first.cure;
    return problem;
  }
  (void)task;
  return std::nullopt;
}

}  // namespace sculler::eval
