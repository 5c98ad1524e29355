// Where in the candidate an API call was made: return addresses on the calling thread's stack that
// lie in the candidate, innermost first.
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <cstdlib>
#include <cstring>

#include "emu/client/connection.h"

namespace sculler::emu::client {
namespace {

constexpr int kMaxFrames = 32;

// The path of the candidate's shared object as sculler-rank loads it. A program that is run by
// itself (`sculler-vm --run`) is its own candidate; the loader's name for it is empty.
const char* candidate_path() {
  static const char* const path = [] {
    const char* set = std::getenv("SCULLER_CANDIDATE");
    return ::strdup(set != nullptr ? set : "");
  }();
  return path;
}

struct Walk {
  wire::Site site{};
  std::size_t found = 0;
  int frames = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  if (++walk.frames > kMaxFrames) return _URC_END_OF_STACK;
  const auto address = static_cast<uint64_t>(_Unwind_GetIP(context));
  dl_find_object object{};
  // The return address may be the first one behind a function that does not return.
  const bool known =
      address != 0 && ::_dl_find_object(reinterpret_cast<void*>(address - 1), &object) == 0;
  if (known && object.dlfo_link_map != nullptr && is_candidate(object.dlfo_link_map->l_name)) {
    const uint64_t offset = address - object.dlfo_link_map->l_addr;
    if (offset <= UINT32_MAX) walk.site[walk.found++] = static_cast<uint32_t>(offset);
    return walk.found == walk.site.size() ? _URC_END_OF_STACK : _URC_NO_REASON;
  }
  return walk.found != 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

bool is_candidate(const char* path) {
  return path != nullptr && candidate_path() != nullptr && std::strcmp(path, candidate_path()) == 0;
}

wire::Site call_site() {
  Walk walk;
  ::_Unwind_Backtrace(visit, &walk);
  return walk.site;
}

}  // namespace sculler::emu::client
