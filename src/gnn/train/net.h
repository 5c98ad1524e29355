// What a rank needs of the others, behind an interface: MPI (mpi_net.h), or threads of one process
// in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sculler::gnn {

// Rows of one other rank.
struct RowRequest {
  uint32_t owner = 0;
  std::vector<uint64_t> rows;  // numbers within the owner's part
  std::vector<float> data;     // filled by fetch(): rows.size() × width
};

class Net {
 public:
  virtual ~Net() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t size() const = 0;
  // From now on others may fetch `rows` of `width` floats, which stay until leave(); collective.
  [[nodiscard]] virtual Status serve(std::span<const float> rows, uint32_t width) = 0;
  // All requests at once; may run beside sum() on another thread.
  [[nodiscard]] virtual Status fetch(std::vector<RowRequest>& requests) = 0;
  // Sums over ranks, added in the order of ranks: the same bits on all of them. Collective.
  [[nodiscard]] virtual Status sum(std::span<float> values) = 0;
  [[nodiscard]] virtual Status sum(std::span<double> values) = 0;
  // Nobody fetches any more; collective.
  [[nodiscard]] virtual Status leave() = 0;
};

// Bytes that a request moves: row numbers there, rows back.
[[nodiscard]] inline uint64_t bytes_of(uint64_t rows, uint32_t width) {
  return rows * (sizeof(uint64_t) + uint64_t{width} * sizeof(float));
}

// Rows of `rows` in the order of `wanted`, or kProtocol where one is out of range.
[[nodiscard]] Status copy_rows(std::span<const float> rows, uint32_t width,
                               std::span<const uint64_t> wanted, std::vector<float>& out);

}  // namespace sculler::gnn
