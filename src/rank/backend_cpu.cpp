// Buffers are sealed memfds; sculler_run is a call that has finished when it returns.
#include "rank/backend_cpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "rank/protocol.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

struct sculler_backend {
  sculler_backend_spec spec{};
  std::vector<int> fds;
  std::vector<sculler_buffer> buffers;
  std::vector<sculler_set> sets;
  sculler_pool pool{};
  sculler_rank rank{};
  std::vector<char> scrub;
};

namespace sculler::rank {
namespace {

int fail_with(sculler_backend_error* error, FaultCode fault, const char* what) {
  error->fault = static_cast<int32_t>(fault);
  error->number = errno;
  std::snprintf(error->text, sizeof error->text, "%s: %s", what, std::strerror(errno));
  return 1;
}

int open(const sculler_backend_spec* spec, sculler_backend** out, sculler_backend_error* error) {
  if (spec->workload != 0) {
    errno = ENOTSUP;
    return fail_with(error, FaultCode::kEnvironment, "the cpu target has no communicators");
  }
  auto* self = new sculler_backend;
  self->spec = *spec;
  sculler_rank& r = self->rank;
  r.abi_version = SCULLER_ABI_VERSION;
  r.rank = spec->rank;
  r.n_ranks = spec->n_ranks;
  r.device = -1;
  r.lsa_rank = 0;
  r.lsa_size = 1;
  r.n_threads = spec->n_threads;
  *out = self;
  return 0;
}

int unique_id(sculler_backend*, void*, sculler_backend_error* error) {
  errno = ENOTSUP;
  return fail_with(error, FaultCode::kEnvironment, "the cpu target has no communicators");
}

int connect(sculler_backend* self, const void*, sculler_backend_error* error) {
  const auto n_buffers = static_cast<std::size_t>(self->spec.n_buffers);
  const auto n = static_cast<std::size_t>(self->spec.n_sets) * n_buffers;
  for (std::size_t i = 0; i < n; ++i) {
    const uint64_t bytes = self->spec.bytes[i % n_buffers] + self->spec.shift;
    const int fd = memfd_create("sculler-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      return fail_with(error, FaultCode::kEnvironment, "memory of a buffer");
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      return fail_with(error, FaultCode::kEnvironment, "sealing a buffer");
    }
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED) return fail_with(error, FaultCode::kEnvironment, "mapping a buffer");
    self->fds.push_back(fd);
    self->buffers.push_back(sculler_buffer{static_cast<char*>(data) + self->spec.shift,
                                           bytes - self->spec.shift, nullptr, self->spec.shift,
                                           nullptr});
  }
  for (std::size_t s = 0; s < static_cast<std::size_t>(self->spec.n_sets); ++s) {
    self->sets.push_back(
        sculler_set{static_cast<uint32_t>(n_buffers), 0, self->buffers.data() + s * n_buffers});
  }
  self->pool = sculler_pool{static_cast<uint32_t>(self->sets.size()), 0, self->sets.data()};
  return 0;
}

int buffer(sculler_backend* self, int32_t set, int32_t index, uint64_t* address, uint64_t* bytes,
           int32_t* fd, sculler_backend_error*) {
  const auto i = static_cast<std::size_t>(set) * static_cast<std::size_t>(self->spec.n_buffers) +
                 static_cast<std::size_t>(index);
  *address = reinterpret_cast<uint64_t>(self->buffers[i].ptr);
  *bytes = self->buffers[i].bytes;
  *fd = self->fds[i];
  self->fds[i] = -1;
  return 0;
}

const sculler_rank* rank_of(sculler_backend* self) { return &self->rank; }
const sculler_pool* pool_of(sculler_backend* self) { return &self->pool; }

// The set's buffers leave every cache, and twice the second level is written over.
void flush(sculler_backend* self, int32_t set) {
  constexpr std::size_t kLine = 64;
#if defined(__SSE2__)
  const auto& buffers = self->sets[static_cast<std::size_t>(set)];
  for (uint32_t b = 0; b < buffers.n_buffers; ++b) {
    const auto* data = static_cast<const char*>(buffers.buffer[b].ptr);
    for (uint64_t at = 0; at < buffers.buffer[b].bytes; at += kLine) _mm_clflush(data + at);
  }
  _mm_mfence();
#else
  static_cast<void>(set);
#endif
  if (self->scrub.empty()) {
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    self->scrub.assign(2 * static_cast<std::size_t>(l2 > 0 ? l2 : 4 << 20), 0);
  }
  // Through a volatile: nobody reads it.
  volatile char* scrub = self->scrub.data();
  for (std::size_t at = 0; at < self->scrub.size(); at += kLine) scrub[at] = 1;
}

int barrier(sculler_backend* self, int32_t flush_l2, sculler_backend_error*) {
  if (flush_l2 > 0 && flush_l2 <= self->spec.n_sets) flush(self, flush_l2 - 1);
  if (self->spec.shared != nullptr)
    pthread_barrier_wait(static_cast<pthread_barrier_t*>(self->spec.shared));
  return 0;
}
int nothing(sculler_backend*, sculler_backend_error*) { return 0; }
int synchronize(sculler_backend*, uint64_t* event_ns, sculler_backend_error*) {
  *event_ns = 0;
  return 0;
}
void close(sculler_backend* self) { delete self; }

constexpr sculler_backend_api kApi = {
    kBackendVersion, 1,       open,    unique_id,   connect, buffer,  rank_of, pool_of,
    barrier,         nothing, nothing, synchronize, close,   nullptr, nullptr, nullptr};

}  // namespace

const sculler_backend_api* cpu_backend() { return &kApi; }

void* make_shared_barrier(int n_ranks) {
  void* memory = mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  auto* barrier_object = static_cast<pthread_barrier_t*>(memory);
  if (pthread_barrier_init(barrier_object, &attributes, static_cast<unsigned>(n_ranks)) != 0)
    return nullptr;
  return memory;
}

}  // namespace sculler::rank
