// Any text as a directive: parsed or refused with a message; what is parsed prints and parses back.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "directive/directive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::directive;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_text(text, "d");
  if (!parsed) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const int index = cell(*parsed);
  if (index < 0 || index >= kCells || print(*parsed).empty()) std::abort();
  auto again = parse(to_json(*parsed), "d");
  if (!again || !(*again == *parsed)) std::abort();
  return 0;
}
