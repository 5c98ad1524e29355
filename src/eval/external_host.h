// What a job of the target external starts: the adapter in the sandbox, and trusted checkers that
// make inputs and judge outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "eval/launcher.h"
#include "task/adapter.h"

namespace sculler::eval {

// A process that answers each line with one. Destruction kills it and all below it.
class LineProcess {
 public:
  virtual ~LineProcess() = default;
  // kTimeout, kChildFailed where it ended (or closed its end), kProtocol above `most` bytes.
  virtual Result<std::string> ask(const std::string& line, int64_t timeout_ms) = 0;
  // Gives it `grace_ms` to end, then kills it: how it ended, and the tail of what it printed.
  virtual std::string end(int64_t grace_ms) = 0;
};

// Folders of one job, as the evaluator sees them; the adapter works in `root` and may write into
// `outputs` only.
struct ExternalFolders {
  std::string root;  // programs/NAME, in/N, out/N
};

class ExternalHost {
 public:
  virtual ~ExternalHost() = default;
  // A fresh root with programs/, in/ and out/.
  virtual Result<ExternalFolders> make_folders() = 0;
  virtual void remove_folders(const ExternalFolders& folders) = 0;
  // root/out/NAME, empty, which the adapter may write.
  virtual Result<std::string> make_output(const ExternalFolders& folders,
                                          const std::string& name) = 0;
  virtual Result<std::unique_ptr<LineProcess>> start_adapter(const task::Adapter& adapter,
                                                             const ExternalFolders& folders) = 0;
  virtual Result<std::unique_ptr<LineProcess>> start_checker(const std::string& job_json,
                                                             const ExternalFolders& folders) = 0;
};

class LocalExternalHost final : public ExternalHost {
 public:
  LocalExternalHost(Processes& processes, const Sandbox& sandbox, const Installation& installation,
                    std::string scratch)
      : processes_(processes),
        sandbox_(sandbox),
        installation_(installation),
        scratch_(std::move(scratch)) {}
  Result<ExternalFolders> make_folders() override;
  void remove_folders(const ExternalFolders& folders) override;
  Result<std::string> make_output(const ExternalFolders& folders, const std::string& name) override;
  Result<std::unique_ptr<LineProcess>> start_adapter(const task::Adapter& adapter,
                                                     const ExternalFolders& folders) override;
  Result<std::unique_ptr<LineProcess>> start_checker(const std::string& job_json,
                                                     const ExternalFolders& folders) override;

 private:
  Processes& processes_;
  const Sandbox& sandbox_;
  const Installation& installation_;
  std::string scratch_;
};

}  // namespace sculler::eval
