// The trusted process of a job whose program runs elsewhere: inputs go out as files, outputs come
// back as files and are compared with the float64 reference (docs/internals.md, "Files").
#pragma once

#include <string>
#include <string_view>

#include "verify/reference.h"

namespace sculler::verify {

class FileJob {
 public:
  // Both outlive the object.
  FileJob(const JobSpec& job, Reference& reference) : job_(job), reference_(reference) {}
  // One request, one answer. {"do":"fill","content":3,"folder":"DIR"} writes DIR/NAME.bin for each
  // input; {"do":"compare","content":3,"folder":"DIR"} reads DIR/NAME.bin for each output.
  [[nodiscard]] Outcome answer(std::string_view request);

 private:
  [[nodiscard]] Outcome fill(int content, const std::string& folder) const;
  [[nodiscard]] Outcome compare(int content, const std::string& folder);
  const JobSpec& job_;
  Reference& reference_;
};

}  // namespace sculler::verify
