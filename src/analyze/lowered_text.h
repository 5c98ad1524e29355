// The CUDA text that the lowering adds to a program: a namespace `lowered` with the windows and the
// device communicator (infrastructure), and one kernel and one launcher for each kind of collective
// that the program uses. Plain code, meant to be changed.
#pragma once

#include <set>
#include <string>

namespace sculler::analyze {

enum class Collective : unsigned char {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kReduce,
  kBroadcast,
  kAllToAll,
  kGather,
  kScatter,
  kExchange,  // grouped sends and receives
};

struct TextNeeds {
  std::set<Collective> kinds;        // empty: infrastructure alone
  std::set<std::string> types;       // C++ types that are reduced: "float", "__half", ...
  std::set<std::string> operations;  // Sum, Product, Max, Min, Average
  bool groups = false;               // ncclGroupStart is used around collectives
  bool streams = false;              // collectives lie on more than one stream
  bool scratch = false;              // cudaMalloc becomes window_malloc
  bool registers = false;            // the program registers windows itself
};

// `name` of the namespace.
struct LoweredText {
  std::string frozen;    // includes, tunables, windows, set-up
  std::string mutable_;  // kernels and launchers; empty without collectives
};
[[nodiscard]] LoweredText lowered_text(const TextNeeds& needs);

}  // namespace sculler::analyze
