#include "rank/spec.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler::rank {

Result<RankSpec> parse_rank_spec(std::string_view text) {
  constexpr std::string_view kOrigin = "rank.json";
  using nlohmann::json;
  const auto bad = [&](std::string key, std::string message) {
    return fail(
        Error{ErrorCode::kBadInput, std::move(message), std::string(kOrigin), std::move(key), {}});
  };
  auto parsed = parse_json(text, kOrigin, std::size_t{1} << 20);
  if (!parsed) return fail(parsed.error());
  const json& root = *parsed;
  if (!root.is_object()) return bad("", "not an object");
  if (int_or(root, "version", 0) != 1)
    return bad("version", "is not 1: sculler-eval and sculler-rank are of two builds");

  RankSpec spec;
  const std::string target = string_or(root, "target", "");
  if (target == "cuda") spec.target = Target::kCuda;
  else if (target == "emu") spec.target = Target::kEmu;
  else if (target == "cpu") spec.target = Target::kCpu;
  else return bad("target", "'" + target + "' is none of cuda, emu, cpu");

  const auto bounded = [&](std::string_view key, int64_t fallback, int64_t low,
                           int64_t high) -> Result<int> {
    if (find_member(root, key) == nullptr) return static_cast<int>(fallback);
    auto value = get_int(root, key, kOrigin, low, high);
    if (!value) return fail(value.error());
    return static_cast<int>(*value);
  };
  for (auto& [key, into, low, high] :
       std::initializer_list<std::tuple<const char*, int*, int, int>>{
           {"n_ranks", &spec.n_ranks, 1, 16},
           {"n_sets", &spec.n_sets, 1, 64},
           {"n_threads", &spec.n_threads, 1, 4096},
           {"expect_nccl", &spec.expect_nccl, 0, 1 << 30}}) {
    auto value = bounded(key, *into, low, high);
    if (!value) return fail(value.error());
    *into = *value;
  }
  auto shift = bounded("shift", 0, 0, 1 << 20);
  if (!shift) return fail(shift.error());
  if (*shift % 256 != 0) return bad("shift", "not a multiple of 256");
  spec.shift = static_cast<uint64_t>(*shift);
  auto candidate = get_string(root, "candidate", kOrigin);
  if (!candidate) return fail(candidate.error());
  spec.candidate = *candidate;
  spec.backend = string_or(root, "backend", "");
  spec.workload = bool_or(root, "workload", false);
  spec.multicast_allowed = bool_or(root, "multicast_allowed", false);

  auto problem = get_object(root, "problem", kOrigin);
  if (!problem) return fail(problem.error());
  auto dims = get_array(**problem, "dims", kOrigin);
  if (!dims) return fail(dims.error());
  if ((*dims)->size() > SCULLER_MAX_DIMS) return bad("problem.dims", "more than 16 dimensions");
  spec.problem.abi_version = SCULLER_ABI_VERSION;
  for (const json& d : **dims) {
    if (!d.is_number_integer()) return bad("problem.dims", "not an integer");
    spec.problem.dim[spec.problem.n_dims++] = d.get<int64_t>();
  }
  auto buffers = get_array(root, "buffers", kOrigin);
  if (!buffers) return fail(buffers.error());
  if ((*buffers)->empty() || (*buffers)->size() > 32) return bad("buffers", "1 to 32 buffers");
  for (const json& b : **buffers) {
    if (!b.is_object()) return bad("buffers", "a buffer is an object");
    auto bytes = get_int(b, "bytes", kOrigin, 1, int64_t{1} << 42);
    if (!bytes) return fail(bytes.error());
    spec.buffers.push_back({string_or(b, "name", ""), static_cast<uint64_t>(*bytes)});
  }
  if (const json* list = find_member(root, "libraries"); list != nullptr && list->is_array()) {
    for (const json& entry : *list) {
      if (!entry.is_string()) return bad("libraries", "not a path");
      spec.libraries.push_back(entry.get<std::string>());
      if (spec.libraries.back().empty() || spec.libraries.back().front() != '/')
        return bad("libraries", "'" + spec.libraries.back() + "' is not absolute");
    }
  }
  if (spec.target != Target::kCpu && spec.backend.empty()) return bad("backend", "is missing");
  return spec;
}

}  // namespace sculler::rank
