#include "verify/reference.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/parallel.h"
#include "base/sha256.h"

namespace sculler::verify {
namespace {

constexpr uint64_t kCacheMagic = 0x3130505845435353;  // "SSCEXP01"
constexpr uint64_t kLargestCached = uint64_t{1} << 28;
constexpr uint64_t kMostKept = uint64_t{1} << 32;
constexpr uint64_t kHead = 8 + 64;  // magic, checksum; then the values of each output in order
constexpr uint64_t kPiece = uint64_t{1} << 18;

bool is_input(const BufferSpec& b) { return b.role == Role::kInput || b.role == Role::kInOut; }
bool is_output(const BufferSpec& b) { return b.role == Role::kOutput || b.role == Role::kInOut; }

// Sums by piece, added in order: the same whatever the number of threads.
void summarize(ExpectedBuffer& e) {
  std::vector<std::pair<double, double>> parts(pieces_of(e.values.size(), kPiece));
  for_pieces(e.values.size(), kPiece, [&](uint64_t index, uint64_t begin, uint64_t end) {
    auto& [peak, sum] = parts[index];
    for (const double v : e.values.subspan(begin, end - begin)) {
      if (!std::isfinite(v)) continue;
      peak = std::max(peak, std::abs(v));
      sum += v * v;
    }
  });
  double squares = 0;
  for (const auto& [peak, sum] : parts) {
    e.peak = std::max(e.peak, peak);
    squares += sum;
  }
  e.norm = std::sqrt(squares);
}

}  // namespace

double relative_l2(double error_squares, double expected_norm, uint64_t elements, uint32_t dtype) {
  const double floor =
      std::sqrt(static_cast<double>(elements)) * (dtype == SCULLER_F16 ? 6.2e-5 : 1.2e-38);
  return std::sqrt(error_squares) / std::max(expected_norm, floor);
}

CachedFile CachedFile::map(const std::string& path, uint64_t bytes) {
  CachedFile file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file;
  struct stat info{};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      static_cast<uint64_t>(info.st_size) == bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data != MAP_FAILED) {
      file.data_ = data;
      file.bytes_ = bytes;
      (void)::futimens(fd, nullptr);  // used now: what is old is dropped first
    }
  }
  ::close(fd);
  return file;
}

CachedFile::~CachedFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

uint64_t input_key(const JobSpec& job, int rank, int buffer, int content) {
  const bool replicated = job.buffers[static_cast<std::size_t>(buffer)].replicated;
  return sculler_fill_key(job.seed, static_cast<uint32_t>(content),
                          replicated ? 0u : static_cast<uint32_t>(rank),
                          static_cast<uint32_t>(buffer));
}

std::vector<std::byte> make_input(const JobSpec& job, int rank, int buffer, int content) {
  const BufferSpec& b = job.buffers[static_cast<std::size_t>(buffer)];
  std::vector<std::byte> data(b.bytes);
  const uint64_t key = input_key(job, rank, buffer, content);
  for (uint64_t i = 0; i < b.elements; ++i)
    sculler_store_bits(data.data(), i, b.dtype,
                       sculler_element(key, i, b.row_elements, b.family, b.dtype));
  return data;
}

Result<std::unique_ptr<Reference>> Reference::load(const JobSpec& job) {
  std::unique_ptr<Reference> self(new Reference(job));
  std::string key = job.reference_key;
  if (key.empty()) {
    auto bytes = real_files().read(job.reference);
    if (!bytes) return fail(bytes.error());
    key = sha256_hex(*bytes);
  }
  self->library_ = dlopen(job.reference.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (self->library_ == nullptr) {
    const char* why = dlerror();
    return fail(Error{ErrorCode::kNotFound, why != nullptr ? why : "cannot be loaded",
                      job.reference, "reference",
                      "build the task's reference.cpp into a shared object"});
  }
  void* symbol = dlsym(self->library_, "sculler_reference");
  if (symbol == nullptr) {
    return fail(Error{ErrorCode::kVersion, "exports no sculler_reference", job.reference,
                      "reference", "declare it extern \"C\" as docs/internals.md shows"});
  }
  self->function_ = reinterpret_cast<Function>(symbol);
  Sha256 hash;
  hash.field("expected v1").field(key).field(job.task).field(std::to_string(job.seed));
  hash.field(std::to_string(job.n_ranks));
  for (uint32_t d = 0; d < job.problem.n_dims; ++d) hash.field(std::to_string(job.problem.dim[d]));
  for (const BufferSpec& b : job.buffers) {
    hash.field(b.name).field(std::to_string(b.elements)).field(std::to_string(b.row_elements));
    hash.field(std::to_string(b.dtype) + " " + std::to_string(b.family) +
               (b.replicated ? " r" : " p"));
    hash.field(std::to_string(static_cast<int>(b.role)));
  }
  self->key_ = hash.hex();
  return self;
}

Reference::~Reference() {
  if (library_ != nullptr) dlclose(library_);
}

const std::vector<std::vector<std::byte>>& Reference::inputs(int content) {
  if (inputs_content_ == content) return inputs_;
  inputs_.clear();
  for (int r = 0; r < job_.n_ranks; ++r) {
    for (std::size_t b = 0; b < job_.buffers.size(); ++b)
      if (is_input(job_.buffers[b]))
        inputs_.push_back(make_input(job_, r, static_cast<int>(b), content));
  }
  inputs_content_ = content;
  return inputs_;
}

Result<std::vector<double>> Reference::rows(int content, int rank, int buffer,
                                            const std::vector<int64_t>& rows) {
  std::vector<const void*> in;
  for (const auto& data : inputs(content)) in.push_back(data.data());
  std::vector<std::vector<double>> values;
  std::vector<void*> out;
  std::size_t wanted = 0;
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    if (!is_output(job_.buffers[b])) continue;
    if (static_cast<int>(b) == buffer) wanted = values.size();
    values.emplace_back(rows.size() * job_.buffers[b].row_elements, std::nan(""));
  }
  for (auto& v : values) out.push_back(v.data());
  const int code = function_(&job_.problem, job_.n_ranks, rank, in.data(), out.data(), rows.data(),
                             static_cast<int64_t>(rows.size()));
  if (code != 0) {
    return fail(ErrorCode::kInternal, "sculler_reference returned " + std::to_string(code));
  }
  return std::move(values[wanted]);
}

Status Reference::compute(int content, int rank) {
  std::vector<const void*> in;
  for (const auto& data : inputs(content)) in.push_back(data.data());
  std::vector<std::pair<int, ExpectedBuffer>> made;
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    if (!is_output(job_.buffers[b])) continue;
    // What the reference leaves out stays NaN and fails every comparison.
    made.emplace_back(static_cast<int>(b),
                      ExpectedBuffer(std::vector<double>(job_.buffers[b].elements, std::nan(""))));
  }
  int64_t n_rows = 0;
  std::vector<void*> out;
  for (auto& [b, e] : made) {
    const BufferSpec& spec = job_.buffers[static_cast<std::size_t>(b)];
    n_rows = std::max(n_rows, static_cast<int64_t>(spec.elements / spec.row_elements));
    out.push_back(e.own.data());
  }
  const int code =
      function_(&job_.problem, job_.n_ranks, rank, in.data(), out.data(), nullptr, n_rows);
  if (code != 0)
    return fail(ErrorCode::kInternal, "sculler_reference returned " + std::to_string(code));
  ++computed_;
  for (auto& [b, e] : made) {
    summarize(e);
    held_.insert_or_assign({rank, b}, std::move(e));
  }
  return {};
}

std::string Reference::cache_path(int content, int rank) const {
  return join_path(job_.expected_cache, key_.substr(0, 32) + "-" + std::to_string(content) + "-" +
                                            std::to_string(rank) + ".expected");
}

bool Reference::load_cached(int content, int rank) {
  if (job_.expected_cache.empty()) return false;
  uint64_t total = 0;
  for (const BufferSpec& b : job_.buffers)
    if (is_output(b)) total += b.elements;
  Kept kept;
  kept.file = CachedFile::map(cache_path(content, rank), kHead + total * sizeof(double));
  if (kept.file.bytes() == 0) return false;
  uint64_t magic = 0;
  std::memcpy(&magic, kept.file.data(), 8);
  const std::string_view body(kept.file.data() + kHead, total * sizeof(double));
  if (magic != kCacheMagic || sha256_hex(body) != std::string_view(kept.file.data() + 8, 64))
    return false;
  // A mapping begins a page, the head is a multiple of eight bytes.
  const auto* from = reinterpret_cast<const double*>(body.data());
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    if (!is_output(job_.buffers[b])) continue;
    ExpectedBuffer e;
    e.values = {from, job_.buffers[b].elements};
    from += e.values.size();
    summarize(e);
    kept.buffers.insert_or_assign(static_cast<int>(b), std::move(e));
  }
  if (kept_bytes_ + kept.file.bytes() > kMostKept) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  kept_bytes_ += kept.file.bytes();
  kept_.insert_or_assign({content, rank}, std::move(kept));
  return true;
}

void Reference::save_cached(int content, int rank) {
  if (job_.expected_cache.empty()) return;
  std::string body;
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    const auto it = held_.find({rank, static_cast<int>(b)});
    if (it == held_.end()) continue;
    if (body.size() + it->second.values.size() * sizeof(double) > kLargestCached) return;
    body.append(reinterpret_cast<const char*>(it->second.values.data()),
                it->second.values.size() * sizeof(double));
  }
  std::string text(8, '\0');
  std::memcpy(text.data(), &kCacheMagic, 8);
  text += sha256_hex(body);
  text += body;
  // A cache that cannot be written only costs time.
  if (real_files().mkdirs(job_.expected_cache))
    (void)real_files().write_atomic(cache_path(content, rank), text);
}

Result<const ExpectedBuffer*> Reference::expected(int content, int rank, int buffer) {
  if (content != content_) {
    held_.clear();
    content_ = content;
  }
  // Replicated outputs are the same on all ranks: rank 0's serve.
  bool replicated = true;
  for (const BufferSpec& b : job_.buffers)
    if (is_output(b) && !b.replicated) replicated = false;
  const int source = replicated ? 0 : rank;
  const auto find = [&]() -> const ExpectedBuffer* {
    if (const auto file = kept_.find({content, source}); file != kept_.end()) {
      const auto it = file->second.buffers.find(buffer);
      return it == file->second.buffers.end() ? nullptr : &it->second;
    }
    const auto it = held_.find({source, buffer});
    return it == held_.end() ? nullptr : &it->second;
  };
  const ExpectedBuffer* found = find();
  if (found == nullptr && load_cached(content, source)) found = find();
  if (found == nullptr) {
    if (auto done = compute(content, source); !done) return fail(done.error());
    save_cached(content, source);
    // From the file from now on, so that no later use of this content costs more than another's.
    if (load_cached(content, source))
      std::erase_if(held_, [&](const auto& one) { return one.first.first == source; });
    found = find();
  }
  if (found == nullptr)
    return fail(ErrorCode::kInternal, "no expected values of buffer " + std::to_string(buffer));
  return found;
}

}  // namespace sculler::verify
