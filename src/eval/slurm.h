// Slots as job steps of Slurm: the srun line from a template, the states of nodes (docs/slurm.md).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "eval/slots.h"

namespace sculler::eval {

struct SlurmOptions {
  std::string srun;                  // the template; empty: the launcher is not used
  std::string name;                  // of the job steps, so that they can be found
  std::vector<std::string> command;  // of a slot, absolute
};

// The words of the line that starts slot `slot`: what Sculler needs stands right behind the word
// srun, so that the template can say more; {slot} and {name} are replaced, {command} is the place
// of the command (the end where it is missing). kBadInput where it holds no srun or a quote is
// open.
[[nodiscard]] Result<std::vector<std::string>> srun_line(const SlurmOptions& options, int slot);

// "n1 idle\nn2 draining*\n" (sinfo --format "%N %T") → the nodes that take no more work.
[[nodiscard]] std::set<std::string> leaving_nodes(std::string_view sinfo);

// A name for the steps of the evaluator that keeps its verdicts in `spool`.
[[nodiscard]] std::string steps_name(const std::string& spool);

// Cancels what an earlier life of that name left. Safe after a guardian's fork: it starts one
// process with a deadline and needs no threads.
void cancel_steps(const std::string& name);

class SlurmStarter final : public SlotStarter {
 public:
  SlurmStarter(Processes& processes, SlurmOptions options)
      : processes_(processes), options_(std::move(options)) {}
  [[nodiscard]] Result<std::unique_ptr<Child>> start(int slot) override;
  // Asks sinfo, at most every five seconds; where it cannot be asked no node is leaving.
  [[nodiscard]] bool leaving(const std::string& node) override;
  // Slurm is told that the step, and the allocation made for it, are over.
  void failed(const SlotHello& hello) override;
  [[nodiscard]] bool may_pass(const std::string& words) const override;

 private:
  void cancel_dead();
  Processes& processes_;
  SlurmOptions options_;
  std::mutex mutex_;
  int64_t asked_ms_ = 0, wait_ms_ = 0;
  bool asking_ = false;
  std::set<std::string> leaving_, dead_;
};

}  // namespace sculler::eval
