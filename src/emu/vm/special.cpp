#include "emu/vm/special.h"

#include <array>
#include <utility>

namespace sculler::emu::vm {
namespace {

constexpr std::array<std::pair<std::string_view, Special::Kind>, 44> kNames{{
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},
    {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},
    {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},
    {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLaneid},
    {"%warpid", Special::kWarpid},
    {"%nwarpid", Special::kNwarpid},
    {"%smid", Special::kSmid},
    {"%nsmid", Special::kNsmid},
    {"%lanemask_eq", Special::kLanemaskEq},
    {"%lanemask_le", Special::kLanemaskLe},
    {"%lanemask_lt", Special::kLanemaskLt},
    {"%lanemask_ge", Special::kLanemaskGe},
    {"%lanemask_gt", Special::kLanemaskGt},
    {"%clusterid.x", Special::kClusteridX},
    {"%clusterid.y", Special::kClusteridY},
    {"%clusterid.z", Special::kClusteridZ},
    {"%nclusterid.x", Special::kNclusteridX},
    {"%nclusterid.y", Special::kNclusteridY},
    {"%nclusterid.z", Special::kNclusteridZ},
    {"%cluster_ctaid.x", Special::kClusterCtaidX},
    {"%cluster_ctaid.y", Special::kClusterCtaidY},
    {"%cluster_ctaid.z", Special::kClusterCtaidZ},
    {"%cluster_nctaid.x", Special::kClusterNctaidX},
    {"%cluster_nctaid.y", Special::kClusterNctaidY},
    {"%cluster_nctaid.z", Special::kClusterNctaidZ},
    {"%cluster_ctarank", Special::kClusterCtarank},
    {"%cluster_nctarank", Special::kClusterNctarank},
    {"%total_smem_size", Special::kTotalSmem},
    {"%dynamic_smem_size", Special::kDynamicSmem},
    {"%reserved_smem_offset_begin", Special::kReservedSmemBegin},
    {"%reserved_smem_offset_end", Special::kReservedSmemEnd},
    {"%reserved_smem_offset_cap", Special::kReservedSmemCap},
    {"%envreg1", Special::kEnvreg1},
    {"%envreg2", Special::kEnvreg2},
    {"%gridid", Special::kGridid},
}};

}  // namespace

std::optional<Special::Kind> special_from(std::string_view spelling) {
  for (const auto& [name, kind] : kNames)
    if (name == spelling) return kind;
  if (spelling.starts_with("%envreg")) return Special::kEnvregOther;
  return std::nullopt;
}

void fill_specials(Warp& warp, const Block& block, const Grid& grid) {
  const Program& program = *warp.program;
  warp.specials.resize(program.specials.size() * kRow32);
  const LaunchRequest& request = grid.request;
  const auto& ntid = request.block;
  const auto& cluster = grid.cluster;
  const auto at = [](const std::array<uint32_t, 3>& v, int k) {
    return v[static_cast<size_t>(k)] == 0 ? 1u : v[static_cast<size_t>(k)];
  };
  for (size_t s = 0; s < program.specials.size(); ++s) {
    auto* row = reinterpret_cast<uint32_t*>(warp.specials.data() + s * kRow32);
    const Special::Kind kind = program.specials[s];
    const auto uniform = [&]() -> uint32_t {
      const int k = int(kind);
      if (k >= Special::kNtidX && k <= Special::kNtidZ) return ntid[size_t(k - Special::kNtidX)];
      if (k >= Special::kCtaidX && k <= Special::kCtaidZ) return block.id[k - Special::kCtaidX];
      if (k >= Special::kNctaidX && k <= Special::kNctaidZ)
        return request.grid[size_t(k - Special::kNctaidX)];
      if (k >= Special::kClusteridX && k <= Special::kClusteridZ)
        return block.id[k - Special::kClusteridX] / at(cluster, k - Special::kClusteridX);
      if (k >= Special::kNclusteridX && k <= Special::kNclusteridZ)
        return request.grid[size_t(k - Special::kNclusteridX)] /
               at(cluster, k - Special::kNclusteridX);
      if (k >= Special::kClusterCtaidX && k <= Special::kClusterCtaidZ)
        return block.id[k - Special::kClusterCtaidX] % at(cluster, k - Special::kClusterCtaidX);
      if (k >= Special::kClusterNctaidX && k <= Special::kClusterNctaidZ)
        return at(cluster, k - Special::kClusterNctaidX);
      switch (kind) {
        case Special::kWarpid: return warp.index;
        case Special::kNwarpid: return grid.warps_per_block;
        case Special::kSmid: return block.sm;
        case Special::kNsmid: return warp.machine->config.limits.sms;
        case Special::kClusterCtarank:
          return block.id[0] % at(cluster, 0) +
                 at(cluster, 0) * (block.id[1] % at(cluster, 1) +
                                   at(cluster, 1) * (block.id[2] % at(cluster, 2)));
        case Special::kClusterNctarank: return at(cluster, 0) * at(cluster, 1) * at(cluster, 2);
        case Special::kTotalSmem: return uint32_t(grid.shared_bytes) + kSharedReserved;
        case Special::kDynamicSmem: return request.dynamic_shared;
        case Special::kReservedSmemBegin: return 0;
        case Special::kReservedSmemEnd:
        case Special::kReservedSmemCap: return kSharedReserved;
        case Special::kEnvreg1: return uint32_t(grid.workspace >> 32);
        case Special::kEnvreg2: return uint32_t(grid.workspace);
        case Special::kGridid: return grid.id;
        default: return 0;
      }
    }();
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t thread = warp.index * kWarpSize + lane;
      switch (kind) {
        case Special::kTidX: row[lane] = thread % ntid[0]; break;
        case Special::kTidY: row[lane] = thread / ntid[0] % ntid[1]; break;
        case Special::kTidZ: row[lane] = thread / (ntid[0] * ntid[1]); break;
        case Special::kLaneid: row[lane] = lane; break;
        case Special::kLanemaskEq: row[lane] = 1u << lane; break;
        case Special::kLanemaskLt: row[lane] = (1u << lane) - 1; break;
        case Special::kLanemaskLe: row[lane] = (2u << lane) - 1; break;
        case Special::kLanemaskGt: row[lane] = ~((2u << lane) - 1); break;
        case Special::kLanemaskGe: row[lane] = ~((1u << lane) - 1); break;
        default: row[lane] = uniform;
      }
    }
  }
}

}  // namespace sculler::emu::vm
