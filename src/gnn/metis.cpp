// METIS by dlopen, so that programs which cut no graph need no library.
#include "gnn/parts.h"

#ifdef SCULLER_METIS
#include <dlfcn.h>
#include <metis.h>
#endif

namespace sculler::gnn {

Status fits_metis(uint64_t nodes, uint64_t edge_ends) {
  constexpr uint64_t kMost = INT32_MAX;
  if (nodes <= kMost && edge_ends <= kMost) return {};
  return fail({ErrorCode::kUnsupported,
               "the graph has " + std::to_string(nodes) + " nodes and " +
                   std::to_string(edge_ends) +
                   " edge ends; indices of this METIS have 32 bits, so at most 2147483647",
               {},
               "--method metis",
               "Use --method greedy."});
}

#ifdef SCULLER_METIS

Result<std::vector<uint32_t>> metis_parts(const Graph& graph, const std::vector<uint8_t>& train,
                                          uint32_t parts, uint64_t seed) {
  static_assert(sizeof(idx_t) == 4 && sizeof(real_t) == 4);
  if (auto ok = fits_metis(graph.nodes(), graph.neighbours.size()); !ok) return fail(ok.error());
  const uint64_t n = graph.nodes();
  std::vector<uint32_t> out(n, 0);
  if (parts == 1 || n == 0) return out;
  void* library = dlopen("libmetis.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail({ErrorCode::kUnsupported,
                 std::string("METIS cannot be loaded: ") + dlerror(),
                 {},
                 "--method metis",
                 "Install libmetis5, or use --method greedy."});
  const auto set_defaults = reinterpret_cast<decltype(&METIS_SetDefaultOptions)>(
      dlsym(library, "METIS_SetDefaultOptions"));
  const auto cut =
      reinterpret_cast<decltype(&METIS_PartGraphKway)>(dlsym(library, "METIS_PartGraphKway"));
  if (set_defaults == nullptr || cut == nullptr)
    return fail({ErrorCode::kUnsupported,
                 "libmetis.so.5 is not METIS 5",
                 {},
                 "--method metis",
                 "Install libmetis5, or use --method greedy."});
  uint64_t trained = 0;
  for (const uint8_t t : train) trained += t;
  // Where hardly any node is trained on there is nothing to balance.
  idx_t constraints = trained >= parts ? 2 : 1;
  auto nodes = static_cast<idx_t>(n), n_parts = static_cast<idx_t>(parts);
  idx_t edges_cut = 0;
  std::vector<idx_t> offsets(graph.offsets.begin(), graph.offsets.end());
  std::vector<idx_t> neighbours(graph.neighbours.begin(), graph.neighbours.end());
  std::vector<idx_t> weights;
  for (uint64_t v = 0; v < n; ++v) {
    weights.push_back(1);
    if (constraints == 2) weights.push_back(train[v]);
  }
  std::vector<real_t> imbalance{1.05F, 1.05F};
  std::vector<idx_t> options(METIS_NOPTIONS);
  set_defaults(options.data());
  options[METIS_OPTION_SEED] = static_cast<idx_t>(seed & INT32_MAX);
  options[METIS_OPTION_NUMBERING] = 0;
  std::vector<idx_t> part(n);
  const int code =
      cut(&nodes, &constraints, offsets.data(), neighbours.data(), weights.data(), nullptr, nullptr,
          &n_parts, nullptr, imbalance.data(), options.data(), &edges_cut, part.data());
  dlclose(library);
  if (code != METIS_OK)
    return fail({ErrorCode::kInternal,
                 "METIS gave up with code " + std::to_string(code),
                 {},
                 "--parts",
                 "Use fewer parts, or --method greedy."});
  out.assign(part.begin(), part.end());
  return out;
}

#else

Result<std::vector<uint32_t>> metis_parts(const Graph&, const std::vector<uint8_t>&, uint32_t,
                                          uint64_t) {
  return fail({ErrorCode::kUnsupported,
               "this build has no METIS",
               {},
               "--method metis",
               "Install libmetis-dev and build again, or use --method greedy."});
}

#endif

}  // namespace sculler::gnn
