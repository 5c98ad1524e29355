// The design space of CUCo (arXiv 2603.02376, section 3): five dimensions that a proposer must
// state before it writes code. They are also the axes of the archive.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sculler::directive {

enum class Backend : uint8_t { kNone, kLsa, kGin, kHybrid };
enum class Issuer : uint8_t { kThread, kWarp, kCta, kCopyEngine };
enum class Placement : uint8_t {
  kSequential,
  kStreamOverlap,
  kSplitPhase,
  kKernelFused,
  kTileFused
};
enum class Sync : uint8_t { kGlobal, kPeer, kTile };

[[nodiscard]] std::string_view name(Backend value);
[[nodiscard]] std::string_view name(Issuer value);
[[nodiscard]] std::string_view name(Placement value);
[[nodiscard]] std::string_view name(Sync value);

struct Directive {
  Backend backend = Backend::kNone;  // who moves the bytes: host-launched, load/store, GIN, both
  Issuer issuer = Issuer::kThread;   // what starts a transfer
  Placement placement = Placement::kSequential;
  Sync sync = Sync::kGlobal;
  int64_t granularity = 0;  // bytes of one transfer; 0: not said
  std::string why;          // for people and for the memory; at most 2000 characters are kept

  [[nodiscard]] bool device_initiated() const { return backend != Backend::kNone; }
  friend bool operator==(const Directive&, const Directive&) = default;
};

// Strict: every key known (nearest name in the error), every value known. `origin` becomes the
// error's file. Missing keys other than backend keep their defaults.
[[nodiscard]] Result<Directive> parse(const nlohmann::json& object, std::string_view origin);
[[nodiscard]] Result<Directive> parse_text(std::string_view text, std::string_view origin);
// The first line "// sculler:directive {...}" of a source; empty where there is none.
[[nodiscard]] Result<std::optional<Directive>> from_source(std::string_view source,
                                                           std::string_view origin);

[[nodiscard]] nlohmann::json to_json(const Directive& directive);
// "lsa cta tile_fused tile"; "none" where nothing is device-initiated and the rest says nothing.
[[nodiscard]] std::string print(const Directive& directive);

// Cell of the MAP-Elites archive: backend × issuer × placement × sync × five bands of granularity.
inline constexpr int kCells = 4 * 4 * 5 * 3 * 5;
[[nodiscard]] int cell(const Directive& directive);
// 0: not said, 1: ≤ 1 KiB, 2: ≤ 64 KiB, 3: ≤ 4 MiB, 4: above.
[[nodiscard]] int granularity_band(int64_t bytes);

// What the machine and the task allow.
struct Topology {
  int n_ranks = 1;
  int ranks_per_node = 1;
  bool lsa = true;                   // peers within a node are load/store accessible
  bool gin = false;                  // a GIN plugin or an RDMA NIC is there
  int nccl_version = 22809;          // of the headers, NCCL_VERSION_CODE; 0: no NCCL
  int64_t largest_buffer_bytes = 0;  // 0: not known
};

struct Objection {
  std::string key;     // "backend"
  std::string reason;  // a sentence
  std::string cure;
};
// Every reason why this directive cannot work there; empty where it can.
[[nodiscard]] std::vector<Objection> validate(const Directive& directive, const Topology& topology);
// The objections as one error (kBadDirective), success where there are none.
[[nodiscard]] Status check(const Directive& directive, const Topology& topology,
                           std::string_view origin);

}  // namespace sculler::directive
