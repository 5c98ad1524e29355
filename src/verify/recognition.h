// A candidate may keep answers and know an input again by its values. Timed iterations draw from a
// bounded number of inputs, so a few of a bench are of inputs that it never saw; where those take
// clearly longer than the others, the others were not computed (docs/measuring.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/job.h"

namespace sculler::verify {

class Recognition {
 public:
  static constexpr int kFresh = 6;  // contents kept for it, after the two that setup sees
  explicit Recognition(int n_contents) : first_(n_contents + 2) {}
  // Called for each timed iteration that is drawn: a content never used before, or -1.
  int next_content();
  [[nodiscard]] int first_content() const { return first_; }
  void add(const IterationResult& result);
  // Why repeated inputs were not computed. Empty: nothing speaks for it.
  [[nodiscard]] std::optional<std::string> finding() const;

 private:
  static constexpr int kEvery = 4;  // iterations
  int first_, drawn_ = 0, used_ = 0;
  std::vector<double> fresh_ns_, known_ns_;
};

}  // namespace sculler::verify
