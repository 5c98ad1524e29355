// All exported names with their addresses, for cuGetProcAddress. Declared without their types: only
// addresses are taken.
#include <algorithm>
#include <string_view>

#define SCULLER_SYMBOL(name) extern "C" int name();
#include "symbols.inc"
#undef SCULLER_SYMBOL

namespace sculler::emu::cuda {
namespace {
struct Entry {
  std::string_view name;
  int (*function)();
};
#define SCULLER_SYMBOL(name) {#name, &name},
const Entry kEntries[] = {
#include "symbols.inc"
};
#undef SCULLER_SYMBOL
}  // namespace

void* exported(std::string_view name);
void* exported(std::string_view name) {
  const auto* at = std::find_if(std::begin(kEntries), std::end(kEntries),
                                [name](const Entry& e) { return e.name == name; });
  return at != std::end(kEntries) ? reinterpret_cast<void*>(at->function) : nullptr;
}

}  // namespace sculler::emu::cuda
