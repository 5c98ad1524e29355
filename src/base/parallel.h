// Work on a range in pieces, by all cores where the range is long.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace sculler {

// Pieces of a range of `n`, each of `piece` elements but the last.
[[nodiscard]] inline uint64_t pieces_of(uint64_t n, uint64_t piece) {
  return (n + piece - 1) / piece;
}

// Calls work(index, begin, end) once a piece; threads take pieces in the order of their indices.
// One piece runs on the calling thread alone. `work` must not throw.
template <class Work>
void for_pieces(uint64_t n, uint64_t piece, const Work& work) {
  const uint64_t count = pieces_of(n, piece);
  std::atomic<uint64_t> next{0};
  const auto run = [&] {
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      work(i, i * piece, std::min(n, (i + 1) * piece));
  };
  const uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  for (uint64_t t = 1; t < std::min({cores, count, uint64_t{16}}); ++t) helpers.emplace_back(run);
  run();
}

}  // namespace sculler
