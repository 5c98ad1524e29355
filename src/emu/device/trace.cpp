#include "emu/device/trace.h"

namespace sculler::emu {

uint32_t Trace::intern(const std::string& text) {
  const auto [found, added] = index.try_emplace(text, static_cast<uint32_t>(names.size()));
  if (added) names.push_back(text);
  return found->second;
}

}  // namespace sculler::emu
