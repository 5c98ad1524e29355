// Measures what programs reach on this machine's cores: memory, multiply-adds, products of
// matrices, latency, with several implementations a rate and 1 to N threads. `sculler bench
// ceilings` compiles it with -O3 -march=native (and -DSCULLER_OPENBLAS where the library is there)
// and runs it. Prints one JSON object a line:
// {"rate":"memory","implementation":"memcpy","threads":2,"value":31.2}. Units: memory GB/s (bytes
// read and written, each counted once), vector and product GFLOP/s, latency ns.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(SCULLER_OPENBLAS)
#include <cblas.h>
#endif

#include "sculler/threads.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Keeps a value that nothing else uses.
template <class T>
void keep(T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// The shortest of several runs: what disturbs a run only makes it longer.
double shortest(double budget_s, const std::function<void()>& run) {
  run();
  double best = 1e30;
  const auto start = Clock::now();
  for (int i = 0; i < 5 || seconds_since(start) < budget_s; ++i) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, seconds_since(begin));
    if (i >= 3 && seconds_since(start) > 4 * budget_s) break;
  }
  return best;
}

void say(const char* rate, const std::string& implementation, int threads, double value) {
  std::printf("{\"rate\":\"%s\",\"implementation\":\"%s\",\"threads\":%d,\"value\":%.6g}\n", rate,
              implementation.c_str(), threads, value);
  std::fflush(stdout);
}

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], Free>;

Buffer buffer(int64_t n, float value) {
  auto* p =
      static_cast<float*>(std::aligned_alloc(4096, static_cast<std::size_t>(n) * sizeof(float)));
  if (p == nullptr) throw std::bad_alloc();
  std::fill(p, p + n, value);
  return Buffer(p);
}

// --- memory ------------------------------------------------------------------------------------

template <int kBytes>
struct Of {
  typedef float Type __attribute__((vector_size(kBytes), aligned(4)));
};
using Wide = Of<64>::Type;

void copy_vectors(const float* a, float* c, int64_t n) {
  for (int64_t i = 0; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
    for (int64_t j = i; j < i + 64; j += 16)
      *reinterpret_cast<Wide*>(c + j) = *reinterpret_cast<const Wide*>(a + j);
    asm volatile("" : : : "memory");  // or it becomes a call of memcpy
  }
}

void triad_vectors(const float* a, const float* b, float* c, int64_t n) {
  for (int64_t i = 0; i + 16 <= n; i += 16)
    *reinterpret_cast<Wide*>(c + i) =
        *reinterpret_cast<const Wide*>(a + i) + *reinterpret_cast<const Wide*>(b + i) * 3.0f;
}

#if defined(__SSE2__)
inline void stream(float* to, Wide value) {
#if defined(__AVX512F__)
  __m512 whole;
  std::memcpy(&whole, &value, sizeof whole);
  _mm512_stream_ps(to, whole);
#else
  __m128 parts[4];
  std::memcpy(parts, &value, sizeof parts);
  for (int i = 0; i < 4; ++i) _mm_stream_ps(to + i * 4, parts[i]);
#endif
}
void copy_stream(const float* a, float* c, int64_t n) {
  for (int64_t i = 0; i + 16 <= n; i += 16) stream(c + i, *reinterpret_cast<const Wide*>(a + i));
  _mm_sfence();
}
void triad_stream(const float* a, const float* b, float* c, int64_t n) {
  for (int64_t i = 0; i + 16 <= n; i += 16)
    stream(c + i,
           *reinterpret_cast<const Wide*>(a + i) + *reinterpret_cast<const Wide*>(b + i) * 3.0f);
  _mm_sfence();
}
#endif
#if defined(__x86_64__)
void copy_string(const float* a, float* c, int64_t n) {
  const void* from = a;
  void* to = c;
  auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(bytes) : : "memory");
}
#endif

// Bytes of all third-level caches together; 0 where the system does not say.
int64_t last_level_bytes(int processors) {
  std::set<std::string> seen;
  int64_t sum = 0;
  for (int i = 0; i < processors; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/cache/index3/";
    std::string shared, size;
    if (!(std::ifstream(folder + "shared_cpu_list") >> shared) || !seen.insert(shared).second ||
        !(std::ifstream(folder + "size") >> size))
      continue;
    sum += std::atoll(size.c_str()) * (size.back() == 'M' ? 1 << 20 : 1 << 10);
  }
  return sum;
}

void measure_memory(double budget_s, const std::vector<int>& counts) {
  // Three arrays of 96 MB, or of the last-level caches' size where that is more (at most 1 GB): a
  // copy that fits into caches says nothing of the memory.
  const int64_t elements =
      std::clamp<int64_t>(last_level_bytes(counts.back()) / 4, int64_t{24} << 20, 256 << 20) / 64 *
      64;
  const Buffer a = buffer(elements, 1), b = buffer(elements, 2), c = buffer(elements, 0);
  struct Way {
    const char* name;
    int arrays;
    std::function<void(int64_t, int64_t)> run;  // elements [begin, begin + n)
  };
  std::vector<Way> ways{
      {"memcpy", 2,
       [&](int64_t i, int64_t n) {
         std::memcpy(c.get() + i, a.get() + i, static_cast<std::size_t>(n) * sizeof(float));
       }},
      {"copy", 2, [&](int64_t i, int64_t n) { copy_vectors(a.get() + i, c.get() + i, n); }},
      {"triad", 3,
       [&](int64_t i, int64_t n) { triad_vectors(a.get() + i, b.get() + i, c.get() + i, n); }},
  };
#if defined(__SSE2__)
  ways.push_back({"copy_streamed", 2,
                  [&](int64_t i, int64_t n) { copy_stream(a.get() + i, c.get() + i, n); }});
  ways.push_back({"triad_streamed", 3, [&](int64_t i, int64_t n) {
                    triad_stream(a.get() + i, b.get() + i, c.get() + i, n);
                  }});
#endif
#if defined(__x86_64__)
  ways.push_back(
      {"rep_movsb", 2, [&](int64_t i, int64_t n) { copy_string(a.get() + i, c.get() + i, n); }});
#endif
  for (const int threads : counts) {
    sculler::Threads pool(threads);
    const int64_t part = elements / (threads * 8) / 64 * 64;
    for (const Way& way : ways) {
      const double s = shortest(budget_s, [&] {
        pool.run(threads * 8, [&](int64_t job) { way.run(job * part, part); });
      });
      say("memory", way.name, threads,
          way.arrays * 4.0 * static_cast<double>(part * threads * 8) / s / 1e9);
    }
  }
}

// --- multiply-adds -----------------------------------------------------------------------------

template <int kBytes, int kChains>
void multiply_add(int64_t n) {
  using Vector = typename Of<kBytes>::Type;
  Vector x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = Vector{} + static_cast<float>(i);
  Vector m = Vector{} + 0.5f, a = Vector{} + 1.0f;
  asm volatile("" : "+m"(m), "+m"(a));
  for (int64_t k = 0; k < n; ++k) {
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) x[i] = x[i] * m + a;
  }
  keep(x);
}

void measure_vector(double budget_s, const std::vector<int>& counts) {
  struct Way {
    const char* name;
    int lanes, chains;
    void (*run)(int64_t);
  };
  const Way ways[] = {{"fma_128x10", 4, 10, multiply_add<16, 10>},
                      {"fma_256x10", 8, 10, multiply_add<32, 10>},
                      {"fma_256x14", 8, 14, multiply_add<32, 14>},
                      {"fma_512x10", 16, 10, multiply_add<64, 10>},
                      {"fma_512x20", 16, 20, multiply_add<64, 20>}};
  for (const int threads : counts) {
    sculler::Threads pool(threads);
    for (const Way& way : ways) {
      constexpr int64_t kSteps = 400'000;
      const double s =
          shortest(budget_s, [&] { pool.run(threads, [&](int64_t) { way.run(kSteps); }); });
      say("vector", way.name, threads,
          2.0 * way.lanes * way.chains * static_cast<double>(kSteps * threads) / s / 1e9);
    }
  }
  const double s = shortest(budget_s, [] { multiply_add<16, 1>(400'000); });
  say("latency", "multiply_add", 1, s / 400'000 * 1e9);
}

// --- products ----------------------------------------------------------------------------------

// c += a * b for packed operands: a in tiles of kRows rows, b in panels of kVectors vectors.
template <int kBytes, int kRows, int kVectors>
struct Product {
  static constexpr int64_t kLanes = kBytes / 4, kColumns = kLanes * kVectors, kDepth = 256,
                           kBlock = 8 * kRows;
  using Vector = typename Of<kBytes>::Type;

  static void tile(int64_t depth, const float* a, const float* b, float* c, int64_t row) {
    Vector sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = *reinterpret_cast<const Vector*>(c + i * row + v * kLanes);
    }
    for (int64_t l = 0; l < depth; ++l) {
      Vector part[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        part[v] = *reinterpret_cast<const Vector*>(b + l * kColumns + v * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[i][v] += a[l * kRows + i] * part[v];
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        *reinterpret_cast<Vector*>(c + i * row + v * kLanes) = sum[i][v];
    }
  }

  // GFLOP/s of a product of about 1200^3, of more rows where there are many threads. Sizes are
  // whole tiles; b is packed beforehand, which costs a real product a few percent: a ceiling may be
  // high.
  static double rate(double budget_s, sculler::Threads& pool) {
    constexpr int64_t k = 1024, n = 1200 / kColumns * kColumns;
    const int64_t m = std::max<int64_t>(1200 / kBlock, 4 * pool.size()) * kBlock;
    const Buffer a = buffer(m * k, 0.5f), b = buffer(k * n, 0.25f), c = buffer(m * n, 0);
    const double s = shortest(budget_s, [&] {
      pool.run(m / kBlock, [&](int64_t job) {
        const float* rows = a.get() + job * kBlock * k;
        for (int64_t l = 0; l < k; l += kDepth) {
          for (int64_t j = 0; j < n; j += kColumns) {
            for (int64_t i = 0; i < kBlock; i += kRows)
              tile(kDepth, rows + i * k + l * kRows, b.get() + j * k + l * kColumns,
                   c.get() + (job * kBlock + i) * n + j, n);
          }
        }
      });
    });
    return 2.0 * static_cast<double>(m * n * k) / s / 1e9;
  }
};

// What the compiler makes of plain loops.
double plain_product(double budget_s, sculler::Threads& pool) {
  constexpr int64_t n = 512;
  const Buffer a = buffer(n * n, 0.5f), b = buffer(n * n, 0.25f), c = buffer(n * n, 0);
  const double s = shortest(budget_s, [&] {
    pool.run(n / 4, [&](int64_t job) {
      float* __restrict to = c.get() + job * 4 * n;
      for (int64_t l = 0; l < n; ++l) {
        const float* __restrict row = b.get() + l * n;
        const float* from = a.get() + job * 4 * n + l;
        for (int64_t j = 0; j < n; ++j) {
          to[j] += from[0] * row[j];
          to[n + j] += from[n] * row[j];
          to[2 * n + j] += from[2 * n] * row[j];
          to[3 * n + j] += from[3 * n] * row[j];
        }
      }
    });
  });
  return 2.0 * static_cast<double>(n * n * n) / s / 1e9;
}

void measure_product(double budget_s, const std::vector<int>& counts) {
  for (const int threads : counts) {
    sculler::Threads pool(threads);
#if defined(SCULLER_OPENBLAS)
    openblas_set_num_threads(threads);
    const int n = threads <= 8 ? 1280 : threads <= 64 ? 2560 : 5120;
    const Buffer a = buffer(n * n, 0.5f), b = buffer(n * n, 0.25f), c = buffer(n * n, 0);
    const double s = shortest(budget_s, [&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.get(), n, b.get(), n, 0,
                  c.get(), n);
    });
    say("product", "openblas", threads, 2.0 * n * n * static_cast<double>(n) / s / 1e9);
#endif
    say("product", "plain_loops", threads, plain_product(budget_s, pool));
    say("product", "packed_256_6x2", threads, Product<32, 6, 2>::rate(budget_s, pool));
    say("product", "packed_256_4x3", threads, Product<32, 4, 3>::rate(budget_s, pool));
    say("product", "packed_512_12x2", threads, Product<64, 12, 2>::rate(budget_s, pool));
    say("product", "packed_512_8x3", threads, Product<64, 8, 3>::rate(budget_s, pool));
  }
}

// --- latency -----------------------------------------------------------------------------------

// A walk in random order through 128 MB: each load needs the one before it.
void measure_latency(double budget_s) {
  constexpr std::size_t kLines = std::size_t{2} << 20, kStep = 16;
  std::vector<uint32_t> next(kLines * kStep);
  std::vector<uint32_t> order(kLines);
  for (std::size_t i = 0; i < kLines; ++i) order[i] = static_cast<uint32_t>(i);
  uint64_t state = 88172645463325252ull;
  for (std::size_t i = kLines - 1; i > 0; --i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::swap(order[i], order[state % (i + 1)]);
  }
  for (std::size_t i = 0; i < kLines; ++i)
    next[order[i] * kStep] = static_cast<uint32_t>(order[(i + 1) % kLines] * kStep);
  constexpr int kHops = 200'000;
  uint32_t at = 0;
  const double s = shortest(budget_s, [&] {
    for (int i = 0; i < kHops; ++i) at = next[at];
    keep(at);
  });
  say("latency", "memory", 1, s / kHops * 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const double budget_s = argc > 1 ? std::clamp(std::atof(argv[1]), 0.001, 10.0) : 0.2;
  const int all = argc > 2 ? std::clamp(std::atoi(argv[2]), 1, 4096)
                           : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<int> counts;
  for (int n = 1; n < all; n *= 2) counts.push_back(n);
  counts.push_back(all);
  measure_memory(budget_s, counts);
  measure_vector(budget_s, counts);
  measure_product(budget_s, counts);
  measure_latency(budget_s);
  return 0;
}
