// rank.json: what a rank may know (docs/internals.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sculler/candidate.h"

namespace sculler::rank {

enum class Target : uint8_t { kCuda, kEmu, kCpu };

struct RankSpec {
  Target target = Target::kCpu;
  int n_ranks = 1;
  std::string candidate, backend;
  sculler_problem problem{};
  int n_sets = 8;
  struct Buffer {
    std::string name;
    uint64_t bytes = 0;
  };
  std::vector<Buffer> buffers;
  bool workload = false;
  int n_threads = 1;
  int expect_nccl = 0;
  std::vector<std::string> libraries;
  bool multicast_allowed = false;
  uint64_t shift = 0;  // bytes from an allocation's begin to its buffer; a multiple of 256
};

Result<RankSpec> parse_rank_spec(std::string_view text);

}  // namespace sculler::rank
