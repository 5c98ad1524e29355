// Expected outputs in float64 from a task's reference.so, kept in memory and in a cache of files
// that all candidates share. Trusted task code in a trusted process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "verify/job.h"

namespace sculler::verify {

// The bytes of one input of one rank as fill() writes them.
std::vector<std::byte> make_input(const JobSpec& job, int rank, int buffer, int content);
// The stream key of sculler/fill.h for a buffer of a rank.
uint64_t input_key(const JobSpec& job, int rank, int buffer, int content);

// One output of one rank.
struct ExpectedBuffer {
  std::span<const double> values;  // own, or of a file of the cache
  std::vector<double> own;
  double peak = 0;  // largest finite magnitude
  double norm = 0;  // square root of the sum of squares

  ExpectedBuffer() = default;
  explicit ExpectedBuffer(std::vector<double> mine) : values(mine), own(std::move(mine)) {}
  ExpectedBuffer(ExpectedBuffer&&) = default;
  ExpectedBuffer& operator=(ExpectedBuffer&&) = default;
  ExpectedBuffer(const ExpectedBuffer&) = delete;  // a copy's values would be another's
  ExpectedBuffer& operator=(const ExpectedBuffer&) = delete;
  ~ExpectedBuffer() = default;
};

// A file of the cache in memory: shared with the kernel's own, not a copy.
class CachedFile {
 public:
  // Empty where there is none of exactly `bytes`.
  static CachedFile map(const std::string& path, uint64_t bytes);
  CachedFile() = default;
  CachedFile(CachedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  CachedFile& operator=(CachedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CachedFile();
  [[nodiscard]] const char* data() const { return static_cast<const char*>(data_); }
  [[nodiscard]] uint64_t bytes() const { return data_ == nullptr ? 0 : bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// |error| / |expected|, where errors below the smallest normal number of the dtype count nothing
// against a zero: flushing denormals is allowed.
double relative_l2(double error_squares, double expected_norm, uint64_t elements, uint32_t dtype);

class Reference {
 public:
  // `job` must outlive the object. kNotFound / kVersion: the library or its entry point.
  static Result<std::unique_ptr<Reference>> load(const JobSpec& job);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  // All rows of one output buffer. The pointer stays valid until another content is asked
  // for.
  Result<const ExpectedBuffer*> expected(int content, int rank, int buffer);
  // The listed rows of one output buffer, not cached: rows.size() * row_elements values.
  Result<std::vector<double>> rows(int content, int rank, int buffer,
                                   const std::vector<int64_t>& rows);
  // Hash of everything that decides expected values, as text for cache keys.
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] uint64_t computed() const { return computed_; }

 private:
  using Function = int (*)(const sculler_problem*, int, int, const void* const*, void* const*,
                           const int64_t*, int64_t);
  explicit Reference(const JobSpec& job) : job_(job) {}
  Status compute(int content, int rank);
  const std::vector<std::vector<std::byte>>& inputs(int content);
  [[nodiscard]] std::string cache_path(int content, int rank) const;
  bool load_cached(int content, int rank);
  void save_cached(int content, int rank);

  const JobSpec& job_;
  void* library_ = nullptr;
  Function function_ = nullptr;
  std::string key_;
  int inputs_content_ = -1;
  std::vector<std::vector<std::byte>> inputs_;          // rank * inputs + input
  int content_ = -1;                                    // of what is held
  std::map<std::pair<int, int>, ExpectedBuffer> held_;  // (rank, buffer)
  // What came from files: (content, rank), each with its buffers by number.
  struct Kept {
    CachedFile file;
    std::map<int, ExpectedBuffer> buffers;
  };
  std::map<std::pair<int, int>, Kept> kept_;
  uint64_t kept_bytes_ = 0;
  uint64_t computed_ = 0;
};

}  // namespace sculler::verify
