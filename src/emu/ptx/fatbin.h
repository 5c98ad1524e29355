// Fat binaries as nvcc puts them into host objects (the data of a __fatBinC_Wrapper_t). The layout
// is not documented; it was read off nvcc 13.0: a 16-byte header, then entries, each with a header
// of its own, its strings and its payload.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sculler::emu::ptx {

struct FatbinEntry {
  enum class Kind : uint8_t { kPtx, kElf };
  Kind kind = Kind::kPtx;
  uint32_t arch = 0;                              // 90 for sm_90 and sm_90a alike
  uint32_t version_major = 0, version_minor = 0;  // of PTX or of the ELF format
  std::string name;     // the source's, where it was compiled with -lineinfo
  std::string options;  // given to ptxas
  std::string text;     // PTX without its padding, or the bytes of the ELF file
};

inline constexpr uint32_t kFatbinHeader = 16;

// The bytes that a fat binary occupies from its header on, told by its first kFatbinHeader bytes.
Result<uint64_t> fatbin_bytes(std::span<const uint8_t> header);

// Errors: kBadInput where the data is damaged, kUnsupported (cure: --no-compress) where an entry is
// compressed.
Result<std::vector<FatbinEntry>> read_fatbin(std::span<const uint8_t> data);

// Registers a thread by mangled kernel name, from a cubin (FatbinEntry::text of kElf). Best effort:
// whatever cannot be read is left out, damaged files give an empty map.
std::map<std::string, uint32_t> cubin_registers(std::span<const uint8_t> elf);

}  // namespace sculler::emu::ptx
