// The ranks' device memory, seen from the checker's own contexts through verify_backend.so.
#pragma once

#include <memory>
#include <set>

#include "verify/backend.h"
#include "verify/reference.h"
#include "verify/session.h"

namespace sculler::verify {

class CudaDevice final : public Device {
 public:
  // Loads job.cuda_libraries and job.expected. Both arguments outlive the object.
  static Result<std::unique_ptr<CudaDevice>> open(const JobSpec& job, Reference& reference);
  ~CudaDevice() override;
  Status adopt(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
               rank::UniqueFd fd) override;
  Status fill(int rank, int set, int buffer, int content) override;
  Status poison_outputs(int rank, int set) override;
  Status settle() override;
  Result<Comparison> compare(int rank, int set, int buffer, int content) override;
  Result<Comparison> repeat(int rank, int set, int other, int buffer, int content) override;
  Result<uint64_t> changed_inputs(int rank, int set, int content) override;
  // Expected outputs by the task's plain kernel; random rows of them are compared with the
  // reference, once a content and once for all jobs that share a cache.
  Status prepare(int content) override;
  uint64_t now_ns() override;

 private:
  CudaDevice(const JobSpec& job, Reference& reference) : job_(job), reference_(reference) {}
  Status validate(int content);
  [[nodiscard]] Comparison comparison(int buffer, const sculler_verify_sums& sums) const;
  [[nodiscard]] const BufferSpec& spec(int buffer) const {
    return job_.buffers[static_cast<std::size_t>(buffer)];
  }

  const JobSpec& job_;
  Reference& reference_;
  const sculler_verify_api* api_ = nullptr;
  sculler_verify_backend* backend_ = nullptr;
  std::string backend_hash_;
  std::set<int> validated_;
};

}  // namespace sculler::verify
