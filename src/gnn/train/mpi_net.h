// Ranks over MPI with MPI_THREAD_MULTIPLE. Waits give the core away, so that more ranks than cores
// work, and end with an error where another rank is silent for too long.
#pragma once

#include <memory>

#include "gnn/train/net.h"

namespace sculler::gnn {

// One a process: starts MPI when made, ends it when destroyed.
class MpiWorld {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MpiWorld>> start(int* argc, char*** argv);
  virtual ~MpiWorld() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<Net>> net(double timeout_s) = 0;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  // Ends all ranks with this exit code; does not return.
  [[noreturn]] virtual void abort(int code) = 0;
};

}  // namespace sculler::gnn
