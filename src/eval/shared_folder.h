// What evaluators on other machines need, put into a folder that they share: the programs, what is
// compiled against, tasks and profiles. Every copy lies under the hash of its content: nothing in
// use is ever replaced, and compiled artifacts stay valid.
//   DIR/sculler-<hash>/bin lib include src tasks profiles      DIR/tasks/<hash>/NAME  DIR/profiles/
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "eval/job.h"
#include "eval/toolchain.h"

namespace sculler::eval {

class SharedFolder {
 public:
  // Copies the installation, where it is not there yet. `folder` is absolute.
  static Result<std::unique_ptr<SharedFolder>> make(const Installation& installation,
                                                    const std::string& folder);
  [[nodiscard]] std::string programs() const { return root_ + "/bin"; }
  // The job with its task and its profile where the others find them. Thread-safe.
  [[nodiscard]] Result<Job> place(const Job& job);

 private:
  SharedFolder(std::string share, std::string folder, std::string root)
      : share_(std::move(share)), folder_(std::move(folder)), root_(std::move(root)) {}
  [[nodiscard]] Result<std::string> place(const std::string& path, const char* kind);

  std::string share_, folder_, root_;
  std::mutex mutex_;
  std::map<std::string, std::string> placed_;
};

}  // namespace sculler::eval
