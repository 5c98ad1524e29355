#include "verify/host_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/parallel.h"
#include "verify/generate.h"
#include "verify/socket_ranks.h"

namespace sculler::verify {

namespace {
// Elements that one thread takes at a time: results depend on this alone, not on the threads.
constexpr uint64_t kPiece = uint64_t{1} << 18;
// And that are generated at a time.
constexpr uint64_t kWords = 2048;
}  // namespace

void fill_host(const BufferSpec& b, uint64_t key, void* data) {
  for_pieces(b.elements, kPiece, [&](uint64_t, uint64_t begin, uint64_t end) {
    std::array<uint32_t, kWords> words;
    for (uint64_t at = begin; at < end; at += kWords) {
      const uint64_t n = std::min(end - at, kWords);
      generate(b, key, at, at + n, words.data());
      for (uint64_t i = 0; i < n; ++i) sculler_store_bits(data, at + i, b.dtype, words[i]);
    }
  });
}

void poison_host(const BufferSpec& b, void* data) {
  const uint32_t bits = sculler_poison(b.dtype);
  for_pieces(b.elements, kPiece, [&](uint64_t, uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) sculler_store_bits(data, i, b.dtype, bits);
  });
}

uint64_t changed_host(const BufferSpec& b, uint64_t key, const void* data) {
  std::atomic<uint64_t> changed{0};
  for_pieces(b.elements, kPiece, [&](uint64_t, uint64_t begin, uint64_t end) {
    std::array<uint32_t, kWords> words;
    uint64_t mine = 0;
    for (uint64_t at = begin; at < end; at += kWords) {
      const uint64_t n = std::min(end - at, kWords);
      generate(b, key, at, at + n, words.data());
      for (uint64_t i = 0; i < n; ++i)
        mine += sculler_load_bits(data, at + i, b.dtype) != words[i] ? 1 : 0;
    }
    changed += mine;
  });
  return changed;
}

namespace {

// What a piece tells of a buffer, and all pieces in order.
struct Piece {
  uint64_t unwritten = 0, bad = 0;
  int64_t first_unwritten = -1, first_bad = -1, worst = -1;
  double squares = 0, max_abs = 0;
  bool finite = true;
};

}  // namespace

Comparison compare_host(const BufferSpec& b, const void* data, const ExpectedBuffer& expected,
                        const Tolerance& tolerance) {
  Comparison c;
  c.cap = std::max(tolerance.max_abs, expected.peak * sculler_peak_fraction(b.dtype));
  const uint32_t poison = sculler_poison(b.dtype);
  const uint64_t count = pieces_of(b.elements, kPiece);
  std::vector<Piece> pieces(count);
  // From the end: a thread that still writes is seen.
  for_pieces(b.elements, kPiece, [&](uint64_t index, uint64_t, uint64_t) {
    Piece& p = pieces[count - 1 - index];
    const uint64_t begin = (count - 1 - index) * kPiece, end = std::min(b.elements, begin + kPiece);
    for (uint64_t i = end; i-- > begin;) {
      if (sculler_load_bits(data, i, b.dtype) != poison) continue;
      ++p.unwritten;
      p.first_unwritten = static_cast<int64_t>(i);
    }
  });
  for_pieces(b.elements, kPiece, [&](uint64_t index, uint64_t begin, uint64_t end) {
    Piece& p = pieces[index];
    for (uint64_t i = begin; i < end; ++i) {
      const double error = std::abs(
          sculler_bits_value(sculler_load_bits(data, i, b.dtype), b.dtype) - expected.values[i]);
      if (!(error <= std::numeric_limits<double>::max())) p.finite = false;
      else {
        p.squares += error * error;
        if (p.worst < 0 || error > p.max_abs) p.worst = static_cast<int64_t>(i);
        p.max_abs = std::max(p.max_abs, error);
      }
      if (!(error <= c.cap) && p.bad++ == 0) p.first_bad = static_cast<int64_t>(i);
    }
  });
  double squares = 0;
  bool finite = true;
  for (const Piece& p : pieces) {
    if (c.unwritten == 0 && p.unwritten != 0) c.first_unwritten = p.first_unwritten;
    if (c.bad == 0 && p.bad != 0) c.first_bad = p.first_bad;
    if (p.worst >= 0 && (c.worst < 0 || p.max_abs > c.max_abs)) c.worst = p.worst;
    c.unwritten += p.unwritten;
    c.bad += p.bad;
    c.max_abs = std::max(c.max_abs, p.max_abs);
    squares += p.squares;
    finite = finite && p.finite;
  }
  if (!finite) {
    c.relative_l2 = c.max_abs = std::numeric_limits<double>::infinity();
    return c;
  }
  c.relative_l2 = relative_l2(squares, expected.norm, b.elements, b.dtype);
  return c;
}

HostDevice::HostDevice(const JobSpec& job, Reference& reference)
    : job_(job),
      reference_(reference),
      mapped_(static_cast<std::size_t>(job.n_ranks) * static_cast<std::size_t>(job.n_sets) *
                  job.buffers.size(),
              nullptr) {}

std::size_t HostDevice::index(int rank, int set, int buffer) const {
  return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(job_.n_sets) +
          static_cast<std::size_t>(set)) *
             job_.buffers.size() +
         static_cast<std::size_t>(buffer);
}

void* HostDevice::at(int rank, int set, int buffer) const {
  void* data = mapped_.at(index(rank, set, buffer));
  if (data == nullptr) throw std::logic_error("a buffer is used before it was adopted");
  return data;
}

Status HostDevice::adopt(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                         rank::UniqueFd fd) {
  const BufferSpec& b = job_.buffers.at(static_cast<std::size_t>(buffer));
  if (bytes < b.bytes) {
    return fail(ErrorCode::kProtocol, "rank " + std::to_string(rank) + " announced " +
                                          std::to_string(bytes) + " bytes for " + b.name +
                                          ", which needs " + std::to_string(b.bytes));
  }
  auto mapped = map(rank, set, buffer, address, bytes, std::move(fd));
  if (!mapped) return fail(mapped.error());
  mapped_[index(rank, set, buffer)] = *mapped;
  return {};
}

const std::vector<std::byte>* HostDevice::kept_input(int rank, int buffer, int content) {
  constexpr uint64_t kLargest = uint64_t{16} << 20, kTotal = uint64_t{256} << 20;
  const uint64_t bytes = job_.buffers.at(static_cast<std::size_t>(buffer)).bytes;
  const uint64_t key = input_key(job_, rank, buffer, content);
  const auto it = inputs_.find(key);
  if (it != inputs_.end()) return &it->second;
  if (bytes > kLargest || inputs_bytes_ + bytes > kTotal) return nullptr;
  inputs_bytes_ += bytes;
  return &inputs_.emplace(key, make_input(job_, rank, buffer, content)).first->second;
}

Status HostDevice::fill(int rank, int set, int buffer, int content) {
  const BufferSpec& b = job_.buffers.at(static_cast<std::size_t>(buffer));
  void* data = at(rank, set, buffer);
  if (const auto* kept = kept_input(rank, buffer, content)) {
    std::memcpy(data, kept->data(), kept->size());
  } else {
    fill_host(b, input_key(job_, rank, buffer, content), data);
  }
  written(rank, data, b.bytes, false);
  return {};
}

Status HostDevice::poison_outputs(int rank, int set) {
  for (std::size_t i = 0; i < job_.buffers.size(); ++i) {
    const BufferSpec& b = job_.buffers[i];
    if (b.role != Role::kOutput && b.role != Role::kScratch) continue;
    void* data = at(rank, set, static_cast<int>(i));
    poison_host(b, data);
    written(rank, data, b.bytes, true);
  }
  return {};
}

Result<Comparison> HostDevice::compare(int rank, int set, int buffer, int content) {
  auto expected = reference_.expected(content, rank, buffer);
  if (!expected) return fail(expected.error());
  return compare_host(job_.buffers.at(static_cast<std::size_t>(buffer)), at(rank, set, buffer),
                      **expected, job_.tolerance);
}

Result<Comparison> HostDevice::repeat(int rank, int set, int other, int buffer, int content) {
  auto expected = reference_.expected(content, rank, buffer);
  if (!expected) return fail(expected.error());
  const BufferSpec& b = job_.buffers.at(static_cast<std::size_t>(buffer));
  // The scale of the expectation, the values of the other run.
  std::vector<double> values(b.elements);
  const void* data = at(rank, other, buffer);
  for (uint64_t i = 0; i < b.elements; ++i)
    values[i] = sculler_bits_value(sculler_load_bits(data, i, b.dtype), b.dtype);
  ExpectedBuffer first(std::move(values));
  first.peak = (*expected)->peak;
  first.norm = (*expected)->norm;
  return compare_host(b, at(rank, set, buffer), first, job_.tolerance);
}

Result<uint64_t> HostDevice::changed_inputs(int rank, int set, int content) {
  uint64_t changed = 0;
  for (std::size_t i = 0; i < job_.buffers.size(); ++i) {
    if (job_.buffers[i].role != Role::kInput) continue;
    const int buffer = static_cast<int>(i);
    const auto* kept = kept_input(rank, buffer, content);
    if (kept != nullptr && std::memcmp(kept->data(), at(rank, set, buffer), kept->size()) == 0)
      continue;
    changed += changed_host(job_.buffers[i], input_key(job_, rank, buffer, content),
                            at(rank, set, buffer));
  }
  return changed;
}

Status HostDevice::prepare(int content) {
  // Outside of the timed region, so that the comparison follows it at once. Inputs too: a content
  // that comes for the first time is filled as those that came before.
  for (int r = 0; r < job_.n_ranks; ++r) {
    for (std::size_t i = 0; i < job_.buffers.size(); ++i) {
      const Role role = job_.buffers[i].role;
      if (role == Role::kInput) kept_input(r, static_cast<int>(i), content);
      if (role != Role::kOutput && role != Role::kInOut) continue;
      if (auto e = reference_.expected(content, r, static_cast<int>(i)); !e) return fail(e.error());
    }
  }
  return {};
}

uint64_t HostDevice::now_ns() { return monotonic_ns(); }

MemfdDevice::~MemfdDevice() {
  for (const auto& [data, bytes] : maps_) ::munmap(data, bytes);
}

Result<void*> MemfdDevice::map(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                               rank::UniqueFd fd) {
  (void)set, (void)buffer, (void)address;
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::kProtocol,
                "rank " + std::to_string(rank) + " sent a buffer that " + why);
  };
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return refuse("has no descriptor");
  // Without the seal a rank could shrink the file under the checker's feet.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return refuse("is no memfd sealed against shrinking");
  if (bytes > (uint64_t{1} << 46)) return refuse("is larger than memory can be");
  // Announced is the buffer; the file begins `shift` bytes before it.
  bytes += job_.shift;
  if (static_cast<uint64_t>(info.st_size) < bytes) return refuse("is smaller than announced");
  if (!files_.emplace(static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino))
           .second)
    return refuse("it sent already");
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED)
    return fail(ErrorCode::kIo, std::string("mmap of a buffer: ") + std::strerror(errno));
  maps_.emplace_back(data, bytes);
  return static_cast<char*>(data) + job_.shift;
}

}  // namespace sculler::verify
