// Verdicts that are durable: one file a job id. A job whose verdict is here never runs again.
#pragma once

#include <optional>
#include <string>

#include "base/files.h"

namespace sculler::eval {

class Spool {
 public:
  // `folder` is made if it is missing; empty: nothing is kept (verdicts go to stdout only).
  Spool(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  [[nodiscard]] Status open();
  // The verdict line of this job where one was written before; a damaged file and one of status
  // INTERNAL count as none.
  [[nodiscard]] std::optional<std::string> find(const std::string& job_id) const;
  // Durable when it returns. `line` is one JSON object without a newline.
  [[nodiscard]] Status write(const std::string& job_id, const std::string& line);
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] std::string path(const std::string& job_id) const;
  Files& files_;
  std::string folder_;
};

}  // namespace sculler::eval
