#include "verify/cuda_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/files.h"
#include "base/random.h"
#include "base/sha256.h"
#include "verify/socket_ranks.h"

namespace sculler::verify {
namespace {

constexpr std::size_t kWhyBytes = 256;

struct Why {
  char text[kWhyBytes] = {};
  [[nodiscard]] std::string str() const { return std::string(text, strnlen(text, kWhyBytes)); }
};

bool is_output(const BufferSpec& b) { return b.role == Role::kOutput || b.role == Role::kInOut; }

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const JobSpec& job, Reference& reference) {
  std::unique_ptr<CudaDevice> self(new CudaDevice(job, reference));
  const auto dl_error = [](const std::string& path) {
    const char* why = ::dlerror();
    return fail(
        Error{ErrorCode::kNotFound, why != nullptr ? why : "cannot be loaded", path, {}, {}});
  };
  for (const std::string& path : job.cuda_libraries)
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dl_error(path);
  void* library = ::dlopen(job.expected.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dl_error(job.expected);
  auto entry =
      reinterpret_cast<sculler_verify_entry>(::dlsym(library, "sculler_verify_backend_api"));
  self->api_ = entry != nullptr ? entry() : nullptr;
  if (self->api_ == nullptr || self->api_->version != kVerifyBackendVersion)
    return fail(Error{ErrorCode::kVersion, "is of another build", job.expected, "expected",
                      "remove it from the cache"});
  auto bytes = real_files().read(job.expected);
  if (!bytes) return fail(bytes.error());
  self->backend_hash_ = sha256_hex(*bytes);

  std::vector<sculler_verify_buffer> buffers;
  for (const BufferSpec& b : job.buffers) {
    buffers.push_back({b.elements, b.row_elements, b.bytes, b.dtype, b.family,
                       static_cast<int32_t>(b.role), b.replicated ? 1 : 0});
  }
  if (!job.cuda_devices.empty() && job.cuda_devices.size() != static_cast<std::size_t>(job.n_ranks))
    return fail(Error{
        ErrorCode::kBadInput, "does not name one device a rank", "job.json", "cuda.devices", {}});
  sculler_verify_spec spec{job.n_ranks,
                           job.n_sets,
                           static_cast<int32_t>(buffers.size()),
                           job.cuda_devices.empty() ? nullptr : job.cuda_devices.data(),
                           buffers.data(),
                           job.seed,
                           &job.problem,
                           job.shift};
  Why why;
  if (self->api_->open(&spec, &self->backend_, why.text) != 0)
    return fail(ErrorCode::kNoDevice, why.str());
  return self;
}

CudaDevice::~CudaDevice() {
  if (backend_ != nullptr) api_->close(backend_);
}

Status CudaDevice::adopt(int rank, int set, int buffer, uint64_t, uint64_t bytes,
                         rank::UniqueFd fd) {
  if (!fd || bytes < spec(buffer).bytes + job_.shift) {
    return fail(ErrorCode::kProtocol, "rank " + std::to_string(rank) +
                                          " sent no descriptor or too few bytes for " +
                                          spec(buffer).name);
  }
  Why why;
  if (api_->adopt(backend_, rank, set, buffer, fd.get(), bytes, why.text) != 0)
    return fail(ErrorCode::kProtocol,
                "rank " + std::to_string(rank) + ", " + spec(buffer).name + ": " + why.str());
  return {};
}

Status CudaDevice::fill(int rank, int set, int buffer, int content) {
  Why why;
  if (api_->fill(backend_, rank, set, buffer, content, why.text) != 0)
    return fail(ErrorCode::kInternal, why.str());
  return {};
}

Status CudaDevice::poison_outputs(int rank, int set) {
  Why why;
  for (int b = 0; b < static_cast<int>(job_.buffers.size()); ++b) {
    if (spec(b).role != Role::kOutput && spec(b).role != Role::kScratch) continue;
    if (api_->poison(backend_, rank, set, b, why.text) != 0)
      return fail(ErrorCode::kInternal, why.str());
  }
  return {};
}

Status CudaDevice::settle() {
  Why why;
  if (api_->settle(backend_, why.text) != 0) return fail(ErrorCode::kInternal, why.str());
  return {};
}

Result<Comparison> CudaDevice::compare(int rank, int set, int buffer, int content) {
  sculler_verify_sums sums{};
  Why why;
  if (api_->compare(backend_, rank, set, buffer, content, job_.tolerance.max_abs, &sums,
                    why.text) != 0)
    return fail(ErrorCode::kInternal, why.str());
  return comparison(buffer, sums);
}

Result<Comparison> CudaDevice::repeat(int rank, int set, int other, int buffer, int content) {
  sculler_verify_sums sums{};
  Why why;
  if (api_->repeat(backend_, rank, set, other, buffer, content, job_.tolerance.max_abs, &sums,
                   why.text) != 0)
    return fail(ErrorCode::kInternal, why.str());
  return comparison(buffer, sums);
}

Comparison CudaDevice::comparison(int buffer, const sculler_verify_sums& sums) const {
  const BufferSpec& b = spec(buffer);
  Comparison c;
  c.cap = std::max(job_.tolerance.max_abs, sums.peak * sculler_peak_fraction(b.dtype));
  c.bad = sums.bad;
  c.first_bad = sums.first_bad;
  c.unwritten = sums.unwritten;
  c.first_unwritten = sums.first_unwritten;
  if (sums.not_finite != 0) {
    c.relative_l2 = c.max_abs = std::numeric_limits<double>::infinity();
    return c;
  }
  c.max_abs = sums.max_abs;
  c.relative_l2 =
      relative_l2(sums.error_squares, std::sqrt(sums.expected_squares), b.elements, b.dtype);
  return c;
}

Result<uint64_t> CudaDevice::changed_inputs(int rank, int set, int content) {
  uint64_t total = 0;
  Why why;
  for (int b = 0; b < static_cast<int>(job_.buffers.size()); ++b) {
    if (spec(b).role != Role::kInput) continue;
    uint64_t changed = 0;
    if (api_->changed(backend_, rank, set, b, content, &changed, why.text) != 0)
      return fail(ErrorCode::kInternal, why.str());
    total += changed;
  }
  return total;
}

Status CudaDevice::prepare(int content) {
  Why why;
  if (api_->prepare(backend_, content, why.text) != 0) return fail(ErrorCode::kInternal, why.str());
  if (validated_.contains(content)) return {};
  if (auto valid = validate(content); !valid) return valid;
  validated_.insert(content);
  return {};
}

Status CudaDevice::validate(int content) {
  // The device kernel is deterministic: what was validated once holds for every job with the same
  // key and backend.
  const std::string mark =
      job_.expected_cache.empty()
          ? std::string()
          : join_path(job_.expected_cache, reference_.key().substr(0, 32) + "-" +
                                               backend_hash_.substr(0, 16) + "-" +
                                               std::to_string(content) + ".valid");
  if (!mark.empty() && real_files().exists(mark)) return {};
  Random random(job_.seed ^ static_cast<uint64_t>(content), "validated rows");
  for (int r = 0; r < job_.n_ranks; ++r) {
    for (int b = 0; b < static_cast<int>(job_.buffers.size()); ++b) {
      const BufferSpec& buffer = spec(b);
      if (!is_output(buffer) || (buffer.replicated && r > 0)) continue;
      const uint64_t n_rows = buffer.elements / buffer.row_elements;
      std::vector<int64_t> rows;
      for (uint64_t i = 0; i < std::min(n_rows, std::max<uint64_t>(job_.reference_rows, 1)); ++i)
        rows.push_back(static_cast<int64_t>(random.below(n_rows)));
      auto wanted = reference_.rows(content, r, b, rows);
      if (!wanted) return fail(wanted.error());
      double errors = 0, squares = 0;
      std::vector<std::byte> row(buffer.row_elements * sculler_dtype_bytes(buffer.dtype));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        Why why;
        const uint64_t first = static_cast<uint64_t>(rows[i]) * buffer.row_elements;
        if (api_->expected(backend_, r, b, content, first, buffer.row_elements, row.data(),
                           why.text) != 0)
          return fail(ErrorCode::kInternal, why.str());
        for (uint64_t c = 0; c < buffer.row_elements; ++c) {
          const double want = (*wanted)[i * buffer.row_elements + c];
          const double have =
              sculler_bits_value(sculler_load_bits(row.data(), c, buffer.dtype), buffer.dtype);
          errors += (have - want) * (have - want);
          squares += want * want;
        }
      }
      const double error =
          relative_l2(errors, std::sqrt(squares), rows.size() * buffer.row_elements, buffer.dtype);
      if (!(error <= job_.tolerance.relative_l2)) {
        return fail(
            Error{ErrorCode::kInternal,
                  "the task's device expectation differs from its reference: relative L2 error " +
                      std::to_string(error) + " in " + buffer.name,
                  job_.expected, "expected", "correct the task's expected.cu or reference.cpp"});
      }
    }
  }
  if (!mark.empty() && real_files().mkdirs(job_.expected_cache))
    (void)real_files().write_atomic(mark, "valid\n");
  return {};
}

uint64_t CudaDevice::now_ns() { return monotonic_ns(); }

}  // namespace sculler::verify
