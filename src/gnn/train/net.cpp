#include "gnn/train/net.h"

#include <cstring>

namespace sculler::gnn {

Status copy_rows(std::span<const float> rows, uint32_t width, std::span<const uint64_t> wanted,
                 std::vector<float>& out) {
  const uint64_t n = width == 0 ? 0 : rows.size() / width;
  out.resize(wanted.size() * width);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= n)
      return fail({ErrorCode::kProtocol,
                   "row " + std::to_string(wanted[i]) + " was asked for, this rank has " +
                       std::to_string(n),
                   {},
                   {},
                   "All ranks must read the same partition."});
    std::memcpy(out.data() + i * width, rows.data() + wanted[i] * width, width * sizeof(float));
  }
  return {};
}

}  // namespace sculler::gnn
