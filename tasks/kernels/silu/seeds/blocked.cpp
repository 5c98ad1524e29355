// sculler:directive {"backend":"none","issuer":"thread","placement":"sequential","sync":"global","granularity":65536,"why":"Elementwise work is bound by the exponential in cache and by memory beyond it: vectors with a polynomial exponential, blocks shared by threads, streaming stores where the output is not read again."}
//
// Vector types of the compiler, so that one source serves AVX2, AVX-512 and machines that have neither.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "sculler/candidate.h"

// sculler:tune WIDTH in {128,256,512}
#ifndef WIDTH
#define WIDTH 256
#endif
// sculler:tune UNROLL in {1,2,4,8}
#ifndef UNROLL
#define UNROLL 4
#endif
// sculler:tune BLOCK in {4096,16384,65536}
#ifndef BLOCK
#define BLOCK 16384
#endif
// sculler:tune THREADS in {1,2,4,8}
#ifndef THREADS
#define THREADS 2
#endif
// sculler:tune STREAM in {0,1}
#ifndef STREAM
#define STREAM 0
#endif

namespace {

constexpr int64_t kLanes = WIDTH / 32;
constexpr int64_t kStep = kLanes * UNROLL;
static_assert(BLOCK % kStep == 0, "a block is a whole number of steps");

// EVOLVE-BLOCK-START
typedef float Floats __attribute__((vector_size(WIDTH / 8)));
typedef int32_t Ints __attribute__((vector_size(WIDTH / 8)));

inline Floats splat(float value) { return Floats{} + value; }

// exp(x) for |x| <= 87: 2^n * p(r) with the coefficients of Cephes' expf (2 ulp).
inline Floats exponential(Floats x) {
  const Floats round = splat(12582912.0f);  // 1.5 * 2^23
  const Floats n = (x * splat(1.44269504088896341f) + round) - round;
  const Floats r = (x - n * splat(0.693359375f)) - n * splat(-2.12194440e-4f);
  Floats p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
  const Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

inline Floats silu(Floats x) {
  const Floats most = splat(87.0f);
  Floats t = -x;
  t = t > most ? most : t;
  t = t < -most ? -most : t;
  return x / (splat(1.0f) + exponential(t));
}

inline void store(float* to, Floats value) {
#if STREAM && defined(__SSE__)
  for (int64_t i = 0; i < kLanes; i += 4) {
    __m128 part;
    std::memcpy(&part, reinterpret_cast<const char*>(&value) + i * 4, sizeof part);
    _mm_stream_ps(to + i, part);
  }
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

// y[begin, end) from x. Buffers are aligned to pages, `begin` to blocks.
void work(const float* x, float* y, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kStep <= end; i += kStep) {
#pragma GCC unroll 8
    for (int64_t u = 0; u < UNROLL; ++u) {
      Floats v;
      std::memcpy(&v, x + i + u * kLanes, sizeof v);
      store(y + i + u * kLanes, silu(v));
    }
  }
#if STREAM && defined(__SSE__)
  _mm_sfence();
#endif
  for (; i < end; ++i) y[i] = x[i] / (1.0f + std::exp(-x[i]));
}
// EVOLVE-BLOCK-END

// Threads that wait between runs; blocks are handed out one at a time.
class Pool {
 public:
  explicit Pool(int helpers) {
    for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  void run(const float* x, float* y, int64_t n) {
    x_ = x;
    y_ = y;
    n_ = n;
    next_.store(0, std::memory_order_relaxed);
    if (threads_.empty() || n <= BLOCK) return take();
    {
      std::lock_guard lock(mutex_);
      busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
      ++epoch_;
    }
    wake_.notify_all();
    take();
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  void take() {
    for (;;) {
      const int64_t begin = next_.fetch_add(BLOCK, std::memory_order_relaxed);
      if (begin >= n_) return;
      work(x_, y_, begin, std::min<int64_t>(begin + BLOCK, n_));
    }
  }
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || epoch_ != seen; });
        if (stop_) return;
        seen = epoch_;
      }
      take();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> busy_{0};
  uint64_t epoch_ = 0;
  bool stop_ = false;
  const float* x_ = nullptr;
  float* y_ = nullptr;
  int64_t n_ = 0;
};

struct State {
  const sculler_pool* buffers;
  Pool threads;
};

}  // namespace

extern "C" SCULLER_EXPORT int sculler_setup(const sculler_rank* rank, const sculler_problem* problem,
                                            const sculler_pool* pool, void** state) {
  if (problem->abi_version != SCULLER_ABI_VERSION || problem->n_dims != 1) return SCULLER_ERROR;
  *state = new State{pool, Pool(std::clamp(THREADS, 1, rank->n_threads) - 1)};
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_run(void* state, const sculler_problem* problem, int set) {
  auto* self = static_cast<State*>(state);
  const sculler_buffer* buffer = self->buffers->set[set].buffer;
  self->threads.run(static_cast<const float*>(buffer[0].ptr), static_cast<float*>(buffer[1].ptr), problem->dim[0]);
  return SCULLER_OK;
}

extern "C" SCULLER_EXPORT int sculler_teardown(void* state) {
  delete static_cast<State*>(state);
  return SCULLER_OK;
}
