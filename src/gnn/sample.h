// What a minibatch reads. C++17, for the file that sees libtorch.
#pragma once

#include <cstdint>
#include <vector>

namespace sculler::gnn {

// Who sends to whom in one layer. A destination is nodes[i] of the sample for i < destinations();
// its sources are nodes[sources[offsets[i]]] … nodes[sources[offsets[i + 1] - 1]].
struct Block {
  std::vector<uint32_t> offsets{0}, sources;
  [[nodiscard]] uint32_t destinations() const { return static_cast<uint32_t>(offsets.size() - 1); }
};

// A minibatch's nodes in the order in which they were found, seeds first. blocks[0] has the seeds
// as destinations; the destinations of each further block are all nodes found so far, as in DGL.
struct Sample {
  std::vector<uint32_t> nodes;
  uint32_t seeds = 0;
  std::vector<Block> blocks;
};

}  // namespace sculler::gnn
