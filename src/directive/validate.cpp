#include <fmt/format.h>

#include "base/strings.h"
#include "directive/directive.h"

namespace sculler::directive {
namespace {

// The device API (windows, LSA, barriers) came with NCCL 2.28.
constexpr int kDeviceApi = 22800;

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace

std::vector<Objection> validate(const Directive& d, const Topology& t) {
  std::vector<Objection> out;
  const auto object = [&](std::string key, std::string reason, std::string cure) {
    out.push_back({std::move(key), std::move(reason), std::move(cure)});
  };
  const bool lsa = d.backend == Backend::kLsa || d.backend == Backend::kHybrid;
  const bool gin = d.backend == Backend::kGin || d.backend == Backend::kHybrid;
  if (d.device_initiated() && t.n_ranks < 2) {
    object("backend", fmt::format("{} needs a peer, there is one rank", name(d.backend)),
           "use none");
    return out;
  }
  if (d.device_initiated() && t.nccl_version < kDeviceApi) {
    object("backend",
           t.nccl_version == 0
               ? fmt::format("{} needs NCCL's device headers, there are none", name(d.backend))
               : fmt::format("{} needs NCCL 2.28 or later, the headers are {}", name(d.backend),
                             version_text(t.nccl_version)),
           "install NCCL 2.28.9 or use none");
  }
  if (lsa && !t.lsa) {
    object("backend",
           fmt::format("{} needs peers that are load/store accessible, these are not",
                       name(d.backend)),
           t.gin ? "use gin" : "use none");
  }
  if (d.backend == Backend::kLsa && t.lsa && t.ranks_per_node < t.n_ranks) {
    object("backend",
           fmt::format("lsa reaches {} ranks of a node, there are {} on several nodes",
                       t.ranks_per_node, t.n_ranks),
           t.gin ? "use hybrid or gin" : "use none");
  }
  if (gin && !t.gin) {
    object("backend",
           fmt::format("{} needs a GIN plugin or an RDMA NIC, there is none", name(d.backend)),
           t.lsa && t.ranks_per_node >= t.n_ranks ? "use lsa" : "use none");
  }
  if (d.backend == Backend::kHybrid && t.ranks_per_node >= t.n_ranks) {
    object("backend", "hybrid spans nodes, all ranks are on one", "use lsa");
  }
  if (d.backend == Backend::kNone &&
      (d.placement == Placement::kKernelFused || d.placement == Placement::kTileFused)) {
    object("placement",
           fmt::format(
               "{} means that a kernel communicates, but backend none is launched from the host",
               name(d.placement)),
           "use sequential or stream_overlap, or another backend");
  }
  if (d.backend == Backend::kNone && d.sync == Sync::kTile) {
    object("sync", "host-launched transfers are ordered by streams, not by tiles",
           "use global or peer");
  }
  if (d.issuer == Issuer::kCopyEngine &&
      (d.placement == Placement::kKernelFused || d.placement == Placement::kTileFused)) {
    object(
        "placement",
        fmt::format("a copy engine is started from a stream, so {} cannot be", name(d.placement)),
        "use sequential, stream_overlap or split_phase");
  }
  if (d.issuer == Issuer::kCopyEngine && d.backend == Backend::kGin) {
    object("issuer", "GIN transfers are started by threads of a kernel", "use thread, warp or cta");
  }
  if (d.sync == Sync::kTile &&
      (d.placement == Placement::kSequential || d.placement == Placement::kStreamOverlap)) {
    object("sync",
           fmt::format("tiles are not seen between kernels, which is where {} synchronises",
                       name(d.placement)),
           "use global or peer");
  }
  if (t.largest_buffer_bytes > 0 && d.granularity > t.largest_buffer_bytes) {
    object("granularity",
           fmt::format("{} is more than the largest buffer ({})",
                       bytes_text(static_cast<uint64_t>(d.granularity)),
                       bytes_text(static_cast<uint64_t>(t.largest_buffer_bytes))),
           "give the bytes of one transfer");
  }
  return out;
}

Status check(const Directive& d, const Topology& t, std::string_view origin) {
  const auto objections = validate(d, t);
  if (objections.empty()) return {};
  Error error{ErrorCode::kBadDirective, objections[0].reason, std::string(origin),
              objections[0].key, objections[0].cure};
  for (std::size_t i = 1; i < objections.size(); ++i) {
    error.message += fmt::format("; {}: {}", objections[i].key, objections[i].reason);
  }
  return fail(std::move(error));
}

}  // namespace sculler::directive
