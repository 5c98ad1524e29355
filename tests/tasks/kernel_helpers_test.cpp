// What tasks and candidates of cpu kernels build on: sculler/reference.h and sculler/threads.h.
#include <gtest/gtest.h>

#include <numeric>

#include "sculler/reference.h"
#include "sculler/threads.h"

namespace sculler {
namespace {

std::vector<float> small_integers(int64_t n, unsigned seed) {
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(static_cast<int>(seed >> 28) - 8);
  }
  return out;
}

// Small integers: every sum is exact, so any order must give the same.
TEST(Reference, ProductsOfOddSizesAreExact) {
  const int64_t sizes[][3] = {{1, 1, 1}, {5, 17, 3}, {6, 16, 256}, {13, 35, 300}, {7, 40, 513}};
  for (const auto& [m, n, k] : sizes) {
    const auto a = small_integers(m * k, 1), b = small_integers(k * n, 2);
    std::vector<double> plain(static_cast<std::size_t>(m * n)), turned(plain),
        added(plain.size(), 1);
    multiply(m, n, k, Matrix<float>{a.data(), k, 1}, Matrix<float>{b.data(), n, 1}, plain.data(),
             n);
    // The same storage read as transposed matrices: a is k x m, b is n x k.
    multiply(m, n, k, Matrix<float>{a.data(), 1, m}, Matrix<float>{b.data(), 1, k}, turned.data(),
             n);
    multiply(m, n, k, Matrix<float>{a.data(), k, 1}, Matrix<float>{b.data(), n, 1}, added.data(), n,
             true);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, other = 0;
        for (int64_t l = 0; l < k; ++l) {
          const auto at = [](const std::vector<float>& v, int64_t q) {
            return static_cast<double>(v[static_cast<std::size_t>(q)]);
          };
          sum += at(a, i * k + l) * at(b, l * n + j);
          other += at(a, l * m + i) * at(b, j * k + l);
        }
        const auto q = static_cast<std::size_t>(i * n + j);
        ASSERT_EQ(plain[q], sum) << m << " " << n << " " << k;
        ASSERT_EQ(added[q], sum + 1);
        ASSERT_EQ(turned[q], other);
      }
    }
  }
}

TEST(Reference, RowsComeInGroupsOrOneByOne) {
  std::vector<int64_t> seen;
  const auto note = [&](int64_t row, int64_t count, int64_t at) {
    seen.insert(seen.end(), {row, count, at});
  };
  EXPECT_TRUE(for_rows(nullptr, 0, 5, 2, note));
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 0, 2, 2, 2, 4, 1, 4}));
  seen.clear();
  const int64_t listed[] = {4, 0};
  EXPECT_TRUE(for_rows(listed, 2, 5, 2, note));
  EXPECT_EQ(seen, (std::vector<int64_t>{4, 1, 0, 0, 1, 1}));
  const int64_t wrong[] = {5};
  EXPECT_FALSE(for_rows(wrong, 1, 5, 2, note));
}

TEST(Threads, EveryJobRunsOnceAndRunWaitsForAll) {
  for (const int n : {1, 2, 3}) {
    Threads threads(n);
    EXPECT_EQ(threads.size(), n);
    for (const int64_t jobs : {0, 1, 2, 100}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<int> times(static_cast<std::size_t>(jobs));
        threads.run(jobs, [&](int64_t job) { ++times[static_cast<std::size_t>(job)]; });
        EXPECT_EQ(std::accumulate(times.begin(), times.end(), 0), jobs);
        EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](int t) { return t == 1; }));
      }
    }
  }
}

}  // namespace
}  // namespace sculler
