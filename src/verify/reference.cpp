#include "verify/reference.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/sha256.h"

namespace sculler::verify {
namespace {

constexpr uint64_t kCacheMagic = 0x3130505845435353;  // "SSCEXP01"
constexpr uint64_t kLargestCached = uint64_t{1} << 28;

bool is_input(const BufferSpec& b) { return b.role == Role::kInput || b.role == Role::kInOut; }
bool is_output(const BufferSpec& b) { return b.role == Role::kOutput || b.role == Role::kInOut; }

void summarize(ExpectedBuffer& e) {
  double sum = 0;
  for (const double v : e.values) {
    if (!std::isfinite(v)) continue;
    e.peak = std::max(e.peak, std::abs(v));
    sum += v * v;
  }
  e.norm = std::sqrt(sum);
}

}  // namespace

double relative_l2(double error_squares, double expected_norm, uint64_t elements, uint32_t dtype) {
  const double floor =
      std::sqrt(static_cast<double>(elements)) * (dtype == SCULLER_F16 ? 6.2e-5 : 1.2e-38);
  return std::sqrt(error_squares) / std::max(expected_norm, floor);
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
  std::vector<void*> out;
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    if (!is_output(job_.buffers[b])) continue;
    made.emplace_back(static_cast<int>(b), ExpectedBuffer{});
    // What the reference leaves out stays NaN and fails every comparison.
    made.back().second.values.assign(job_.buffers[b].elements, std::nan(""));
  }
  int64_t n_rows = 0;
  for (auto& [b, e] : made) {
    const BufferSpec& spec = job_.buffers[static_cast<std::size_t>(b)];
    n_rows = std::max(n_rows, static_cast<int64_t>(spec.elements / spec.row_elements));
    out.push_back(e.values.data());
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
  auto text = real_files().read(cache_path(content, rank), kLargestCached + (1 << 16));
  if (!text) return false;
  // magic, checksum, values of each output in order
  uint64_t total = 0;
  for (const BufferSpec& b : job_.buffers)
    if (is_output(b)) total += b.elements;
  if (text->size() != 8 + 64 + total * sizeof(double)) return false;
  uint64_t magic = 0;
  std::memcpy(&magic, text->data(), 8);
  const std::string_view body(text->data() + 72, total * sizeof(double));
  if (magic != kCacheMagic || sha256_hex(body) != std::string_view(text->data() + 8, 64))
    return false;
  const char* from = body.data();
  for (std::size_t b = 0; b < job_.buffers.size(); ++b) {
    if (!is_output(job_.buffers[b])) continue;
    ExpectedBuffer e;
    e.values.resize(job_.buffers[b].elements);
    std::memcpy(e.values.data(), from, e.values.size() * sizeof(double));
    from += e.values.size() * sizeof(double);
    summarize(e);
    held_.insert_or_assign({rank, static_cast<int>(b)}, std::move(e));
  }
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
  auto it = held_.find({source, buffer});
  if (it == held_.end()) {
    if (!load_cached(content, source)) {
      if (auto done = compute(content, source); !done) return fail(done.error());
      save_cached(content, source);
    }
    it = held_.find({source, buffer});
  }
  if (it == held_.end())
    return fail(ErrorCode::kInternal, "no expected values of buffer " + std::to_string(buffer));
  return &it->second;
}

}  // namespace sculler::verify
