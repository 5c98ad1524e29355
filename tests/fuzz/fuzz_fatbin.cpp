// Any bytes: read_fatbin() and cubin_registers() stay within them.
#include <span>

#include "emu/ptx/fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sculler::emu::ptx;
  const std::span<const uint8_t> bytes(data, size);
  (void)cubin_registers(bytes);
  const auto entries = read_fatbin(bytes);
  if (!entries) return 0;
  for (const FatbinEntry& entry : *entries) {
    (void)cubin_registers({reinterpret_cast<const uint8_t*>(entry.text.data()), entry.text.size()});
  }
  return 0;
}
